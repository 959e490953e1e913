"""Graphs -> sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

import onnx_ir as ir
import onnxruntime as ort

from pinnace.compiler.graph import Compilable
from pinnace.engines.folding import allowance
from pinnace.engines.onnxruntime.divisors import check_divisors
from pinnace.engines.onnxruntime.kernels import lacking
from pinnace.engines.onnxruntime.least import divide_by_one
from pinnace.engines.onnxruntime.legal import legalise
from pinnace.engines.onnxruntime.pools import keep_plain
from pinnace.engines.onnxruntime.providers import ON_CPU, Chain
from pinnace.engines.onnxruntime.recurrent import refuse_nothing
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.onnxruntime.session import NO_OPTIMIZATION, hand_over, start
from pinnace.engines.onnxruntime.weights_apart import set_apart
from pinnace.engines.onnxruntime.wrong import wrong_optimizers
from pinnace.errors import DeviceUnavailableError, EngineError, LackingKernelsError
from pinnace.ops.values import Unsupported
from pinnace.types import Array
from pinnace.weights.source import SMALL, Source

_SLOW_OPTIMIZERS = ["SkipLayerNormFusion"]
"""Optimizers of onnxruntime that make a model slower: its sum and LayerNormalization in one (seen in 1.31)
takes 5 times as long as the two by themselves."""

_FOLDING = ["ConstantFolding", "ConstantFoldingDQ"]


@dataclass(frozen=True)
class OrtModel:
    """A graph as onnxruntime takes it, to be optimised.

    `weights` lie in memory, and stand beside their ONNX types; `room` are the bytes that what is computed
    ahead may have; `disabled` are optimizers.
    """

    model: bytes
    weights: Mapping[str, tuple[Array, int]]
    room: int
    disabled: Sequence[str]

    def start(
        self,
        chosen: ort.SessionOptions,
        chain: Chain = ON_CPU,
        weights: Mapping[str, tuple[Array, int]] | None = None,
    ) -> tuple[ort.InferenceSession, list[object]]:
        """A session by the options given, with `weights` in place of its own; and what it refers to."""
        room = "optimization.constant_folding_max_output_size_in_bytes"
        chosen.add_session_config_entry(room, str(self.room))
        held = hand_over({**self.weights, **(weights or {})}, chosen)
        try:
            return start(self.model, chosen, self.disabled, chain), held
        except DeviceUnavailableError:
            raise
        except Exception:
            # Optimizers refuse some graphs that kernels compute (seen in 1.31), mostly with DequantizeLinear.
            chosen.graph_optimization_level = NO_OPTIMIZATION
            with suppress(Exception):
                return start(self.model, chosen, (), chain), held
            raise


def encoded(graph: Compilable, source: Source | None = None, chain: Chain = ON_CPU) -> OrtModel:
    """Take a graph apart, which is of no use after.

    With a `source`, the model's, no weight is left in its files: all are given as that has them mapped.
    """
    check_divisors(graph.model, graph.name)
    with _hidden(graph):
        rewrite(graph.model, chain == ON_CPU)
    if chain == ON_CPU:
        keep_plain(graph.model)
        divide_by_one(graph.model)
        refuse_nothing(graph.model)
    legalise(graph.model, chain)  # what rules and guards have written, too
    set_apart(graph.model, {name for v in graph.variable.values() for name in v.names})
    allowed = allowance(graph.model)
    disabled = wrong_optimizers(graph.model) + _SLOW_OPTIMIZERS
    if not allowed.folds:
        disabled += _FOLDING
    weights = _in_memory(graph, source)
    try:
        return OrtModel(_serialised(graph.model), weights, allowed.room, disabled)
    except Exception as error:  # a damaged file can hold what cannot be written
        refuse(graph, error)


def optimised(
    graph: Compilable, chosen: ort.SessionOptions, chain: Chain = ON_CPU
) -> tuple[ort.InferenceSession, list[object]]:
    """A session that optimises the graph by the options given, and what it refers to."""
    made = encoded(graph, chain=chain)
    try:
        return made.start(chosen, chain)
    except DeviceUnavailableError:
        raise
    except Exception as error:
        refuse(graph, error)


def refuse(graph: Compilable, error: Exception) -> NoReturn:
    """Say why onnxruntime does not take a graph."""
    missing = lacking(graph.model)
    if missing:
        raise LackingKernelsError(graph.name, missing) from None
    raise EngineError(f"{graph.name}: onnxruntime cannot build it: {error}") from None


@contextmanager
def _hidden(graph: Compilable) -> Iterator[None]:
    """Let no rule see the values of weights that will hold others."""
    values = [graph.model.graph.initializers[n] for v in graph.variable.values() for n in v.names]
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
    raise Unsupported("is a weight that will hold other values")


def _shape(tensor: ir.TensorProtocol) -> ir.Shape:
    return ir.Shape(tensor.shape.numpy())


def _in_memory(graph: Compilable, source: Source | None) -> dict[str, tuple[Array, int]]:
    """Weights to be given in memory, which become place holders in the model.

    Those are the large ones that lie in memory or, of a `source`, in files, and those that will hold other
    values.
    """
    found: dict[str, tuple[Array, int]] = {}
    variable = {name for v in graph.variable.values() for name in v.names}
    for name, value in graph.model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or (tensor.nbytes <= SMALL and name not in variable) or tensor.nbytes == 0:
            continue
        if tensor.dtype is ir.DataType.STRING:  # texts cannot be given in memory
            continue
        if not value.uses() and not value.is_graph_output():  # onnxruntime forgets it before it is replaced
            continue
        if isinstance(tensor, ir.ExternalTensor) and (source is None or tensor.dtype.bitwidth < 8):
            continue
        array = tensor.numpy() if source is None else source.data_of(tensor)
        found[name] = (array, tensor.dtype.value)
        value.const_value = ir.ExternalTensor(
            "memory", 0, tensor.nbytes, tensor.dtype, shape=_shape(tensor), name=name
        )
    return found


def _serialised(model: ir.Model) -> bytes:
    """The model as bytes, without the types of intermediate values: the engine infers them by itself."""
    computed = (output for node in model.graph for output in node.outputs)
    for value in (*computed, *model.graph.initializers.values()):
        if not value.is_graph_output() and not value.is_graph_input():
            value.type = value.shape = None
    return ir.serde.serialize_model(model).SerializeToString()
