"""Compilation of graphs into sessions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn

import onnx_ir as ir
import onnxruntime as ort
from google.protobuf.message import EncodeError

from pinnace.engines import lasting
from pinnace.engines.elements import note
from pinnace.engines.folding_limits import allowance
from pinnace.engines.onnxruntime.guards import check_divisors, guard
from pinnace.engines.onnxruntime.kernels import check_foreign
from pinnace.engines.onnxruntime.legal import legalize
from pinnace.engines.onnxruntime.providers import ON_CPU, Chain
from pinnace.engines.onnxruntime.quantized_weights import separate_weights
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.onnxruntime.session import FAILURES, NO_OPTIMIZATION, Weights, copy_weights, start
from pinnace.engines.onnxruntime.unproven import ENGINE
from pinnace.engines.onnxruntime.wrong import wrong_optimizers
from pinnace.errors import DeviceUnavailableError, EngineError, LackingKernelsError
from pinnace.graph.failures import Unsupported
from pinnace.lowering.graph import Compilable
from pinnace.options.target import Target
from pinnace.types import Array
from pinnace.weights.source import SMALL, Source, size_of

_SLOWER = ["SkipLayerNormFusion"]
"""Optimizers of onnxruntime that make models slower: its fused Add and LayerNormalization (seen in 1.31) took
5 times as long as the two nodes."""

_FOLDING = ["ConstantFolding", "ConstantFoldingDQ"]
_NO_WEIGHTS: Weights = {}


class OrtModel(NamedTuple):
    """A graph in the form that onnxruntime optimizes.

    `weights` are those in memory; `max_folded` is the limit of bytes of a folded constant; `disabled` names
    optimizers.
    """

    model: bytes
    weights: Weights
    max_folded: int
    disabled: Sequence[str]

    def start(
        self, chosen: ort.SessionOptions, chain: Chain = ON_CPU, weights: Weights = _NO_WEIGHTS
    ) -> tuple[ort.InferenceSession, list[object]]:
        """Start a session in which `weights` replace its own; returns also the objects to which it refers."""
        limit = "optimization.constant_folding_max_output_size_in_bytes"
        chosen.add_session_config_entry(limit, str(self.max_folded))
        held = copy_weights({**self.weights, **weights}, chosen)
        try:
            return start(self.model, chosen, self.disabled, chain), held
        except DeviceUnavailableError:
            raise
        except FAILURES:
            # Optimizers refuse some graphs that kernels compute (seen in 1.31), mostly with DequantizeLinear.
            chosen.graph_optimization_level = NO_OPTIMIZATION
            with suppress(*FAILURES):
                return start(self.model, chosen, (), chain), held
            raise


def encoded(
    graph: Compilable, target: Target, source: Source | None = None, chain: Chain = ON_CPU
) -> OrtModel:
    """Encode a graph for onnxruntime. The graph cannot be used afterwards; its info names the applied rules.

    With the model's `source` no weight stays in files: all are passed in memory, mapped by the source.
    """
    check_divisors(graph.model, graph.name)
    check_foreign(graph.model, graph.name)
    variable = {name for v in graph.variable.values() for name in v.names}
    with _hidden([graph.model.graph.initializers[name] for name in variable]):
        applied = rewrite(graph.model, chain == ON_CPU)
    if applied:
        graph.interface.info["rules"] = ", ".join(
            f"{rule} {count}" for rule, count in sorted(applied.items())
        )
    guard(graph.model, chain == ON_CPU)
    note(graph.model, ENGINE if chain == ON_CPU else chain[0][0], graph.interface.info)
    lasting.note(graph.model, graph.interface.info)
    legalize(graph.model, chain)  # also the nodes of rules and guards
    separate_weights(graph.model, variable)
    allowed = allowance(graph.model)
    disabled = wrong_optimizers(graph.model) + _SLOWER
    if not allowed.folds:
        disabled += _FOLDING
    weights = _in_memory(graph.model.graph, variable, source)
    try:
        return OrtModel(_serialized(graph.model), weights, allowed.max_result, disabled)
    except (ir.serde.SerdeError, EncodeError, ValueError) as error:  # in a damaged file
        refuse(graph, error)


def optimized(
    graph: Compilable, target: Target, chosen: ort.SessionOptions, chain: Chain = ON_CPU
) -> tuple[ort.InferenceSession, list[object]]:
    """Start a session that optimizes a graph; returns also the objects to which it refers."""
    model = encoded(graph, target, chain=chain)
    try:
        return model.start(chosen, chain)
    except DeviceUnavailableError:
        raise
    except FAILURES as error:
        refuse(graph, error)


def refuse(graph: Compilable, error: Exception) -> NoReturn:
    """Raise the error for a graph that onnxruntime cannot build."""
    from pinnace.engines.onnxruntime.kernels import lacking

    missing = lacking(graph.model)
    if missing:
        raise LackingKernelsError(graph.name, missing) from None
    raise EngineError(f"{graph.name}: onnxruntime cannot build it: {error}") from None


@contextmanager
def _hidden(values: Sequence[ir.Value]) -> Iterator[None]:
    """Hide the values of exchangeable weights from rules."""
    tensors = [value.const_value for value in values]
    for value, tensor in zip(values, tensors, strict=True):
        if tensor is not None:
            value.const_value = ir.LazyTensor(_unknown, tensor.dtype, _shape(tensor), name=value.name)
    try:
        yield
    finally:
        for value, tensor in zip(values, tensors, strict=True):
            value.const_value = tensor


def _unknown() -> NoReturn:
    raise Unsupported("is an exchangeable weight")


def _shape(tensor: ir.TensorProtocol) -> ir.Shape:
    return ir.Shape(tensor.shape.numpy())


def _in_memory(
    graph: ir.Graph, variable: Collection[str], source: Source | None
) -> dict[str, tuple[Array, int]]:
    """Return the weights to pass in memory, and replace them by place holders in the graph.

    These are the exchangeable (`variable`) ones and the large ones in memory or, with a `source`, in files.
    """
    found: dict[str, tuple[Array, int]] = {}
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None or size_of(tensor) <= (0 if name in variable else SMALL):
            continue
        if not value.uses() and not value.is_graph_output():  # onnxruntime drops it before it is replaced
            continue
        if isinstance(tensor, ir.ExternalTensor) and (source is None or tensor.dtype.bitwidth < 8):
            continue
        array = tensor.numpy() if source is None else source.data_of(tensor)
        found[name] = (array, tensor.dtype.value)
        value.const_value = ir.ExternalTensor(
            "memory", 0, tensor.nbytes, tensor.dtype, shape=_shape(tensor), name=name
        )
    return found


def _serialized(model: ir.Model) -> bytes:
    """Serialize a model without the types of intermediate values, which the engine infers."""
    computed = (output for node in model.graph for output in node.outputs)
    for value in (*computed, *model.graph.initializers.values()):
        if not value.is_graph_output() and not value.is_graph_input():
            value.type = value.shape = None
    return ir.serde.serialize_model(model).SerializeToString()
