"""Compilation of graphs into sessions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn

import onnx_ir as ir
import onnxruntime as ort
from google.protobuf.message import EncodeError

from pinnace.engines import duration, elements
from pinnace.engines.folding_limits import allowance
from pinnace.engines.nonempty import SELECTING
from pinnace.engines.onnxruntime.guards import ENGINE, check_dilations, check_divisors, guard
from pinnace.engines.onnxruntime.kernel_types import cast_for_kernels
from pinnace.engines.onnxruntime.kernels import check_foreign
from pinnace.engines.onnxruntime.providers import ON_CPU, Chain
from pinnace.engines.onnxruntime.quantized_weights import separate_weights
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.onnxruntime.session import (
    FAILURES,
    NO_OPTIMIZATION,
    Weights,
    copy_weights,
    message_of,
    start,
)
from pinnace.errors import DeviceUnavailableError, EngineError, LackingKernelsError
from pinnace.graph.constants import constant
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import infer
from pinnace.graph.matching import dequantizing, made_by
from pinnace.graph.scales import FAR, is_dequantized
from pinnace.graph.walk import nodes
from pinnace.lowering.graph import Compilable
from pinnace.types import Array
from pinnace.weights.source import SMALL, Source, size_of

_SLOWER = ["SkipLayerNormFusion"]
"""Optimizers of onnxruntime that make models slower: its fused Add and LayerNormalization (seen in 1.31) took
5 times as long as the two nodes."""

_UNSAFE = ["DoubleQDQPairsRemover", "EmbedLayerNormFusion", "GatherToSliceFusion"]
"""Optimizers that go wrong, or may by numbers that only the run knows (seen in 1.32): one rounds a value once
that is quantized by one scale and then by another, one refuses negative indices of embeddings, one puts the
bounds of a Range into a Slice, where negative ones count from the end."""

_FOLDING = ["ConstantFolding", "ConstantFoldingDQ"]
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm")
_MOVES = ("Reshape", "Transpose")
_SCALED = ("Add", "Div", "Mul", "Pow", "Sub")
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


def encoded(graph: Compilable, source: Source | None = None, chain: Chain = ON_CPU) -> OrtModel:
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
    check_dilations(graph.model, graph.name)
    guard(graph.model, chain == ON_CPU)
    elements.record(graph.model, ENGINE if chain == ON_CPU else chain[0][0], graph.interface.info)
    duration.record(graph.model, graph.interface.info)
    cast_for_kernels(graph.model, chain)  # also the nodes of rules and guards
    separate_weights(graph.model, variable)
    allowed = allowance(graph.model)
    disabled = _wrong_optimizers(graph.model) + _SLOWER + _UNSAFE
    if not allowed.folds:
        disabled += _FOLDING
    weights = _in_memory(graph.model.graph, variable, source)
    try:
        return OrtModel(_serialized(graph.model), weights, allowed.max_result, disabled)
    except (ir.serde.SerdeError, EncodeError, ValueError) as error:  # in a damaged file
        refuse(graph, error)


def optimized(
    graph: Compilable, chosen: ort.SessionOptions, chain: Chain = ON_CPU
) -> tuple[ort.InferenceSession, list[object]]:
    model = encoded(graph, chain=chain)
    try:
        return model.start(chosen, chain)
    except DeviceUnavailableError:
        raise
    except FAILURES as error:
        refuse(graph, error)


def refuse(graph: Compilable, error: Exception) -> NoReturn:
    from pinnace.engines.onnxruntime.kernels import missing_kernels

    missing = missing_kernels(graph.model)
    if missing:
        raise LackingKernelsError(graph.name, missing) from None
    raise EngineError(f"{graph.name}: onnxruntime cannot build it: {message_of(error)}") from None


@contextmanager
def _hidden(values: Sequence[ir.Value]) -> Iterator[None]:
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
        if tensor.dtype.bitwidth < 8 or (isinstance(tensor, ir.ExternalTensor) and source is None):
            continue  # arrays have a byte for each element, and onnxruntime packs several into one
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


def _wrong_optimizers(model: ir.Model) -> list[str]:
    """Return the names of optimizers that change a model's results, or end the process (seen in 1.31)."""
    every = list(nodes(model.graph))
    return [name for is_wrong, names in _WRONG.items() if is_wrong(every) for name in names]


def _pads_before_pools(every: list[ir.Node]) -> bool:
    """Pad_Fusion turns the zeros of a Pad into padding of the pool, which maxima and some averages ignore."""
    return any(node.op_type in _POOLS and _producer(node) == "Pad" for node in every)


def _pools_nothing(every: list[ir.Node]) -> bool:
    """NchwcTransformer ends the process with a pool of no results; of fixed sizes, their guard is folded."""
    guarded = (made_by(n.inputs[0], "Reshape") for n in every if n.op_type in _POOLS)
    shapes = ((g.inputs[0], made_by(g.inputs[1], "Shape")) for g in guarded if g is not None)
    return any(
        x is not None and x.shape is not None and x.shape.is_static() and shape and shape.inputs[0] is x
        for x, shape in shapes
    )


def _adds_dimensions(every: list[ir.Node]) -> bool:
    """Fusions lose the dimensions that a constant of one element adds to its operand."""
    return any(node.op_type in _SCALED and any(map(_is_deep_number, node.inputs)) for node in every)


def _scales_vectors(every: list[ir.Node]) -> bool:
    """SimplifiedLayerNormFusion takes a quotient of one dimension for its own scale."""
    return any(quotient.shape is None or len(quotient.shape) < 2 for quotient in _scaled_quotients(every))


def _scales_vectors_inside(every: list[ir.Node]) -> bool:
    """LayerNormFusion does so too; in a nested graph only the run says so.

    What may have more dimensions is fused: the decoders of transformers are in branches.
    """
    main = every[-1].graph if every else None
    inside = [*_scaled_quotients([node for node in every if node.graph is not main])]
    for quotient in inside:
        assert main is not None
        infer(quotient, main.opset_imports[""])
    return any(quotient.shape is not None and len(quotient.shape) < 2 for quotient in inside)


def _scaled_quotients(every: list[ir.Node]) -> Iterator[ir.Value]:
    read = (x for n in every if n.op_type == "Mul" for x in n.inputs)
    return (x for x in read if x is not None and made_by(x, "Div"))


def _inverts_more_than_numbers(every: list[ir.Node]) -> bool:
    """DivMulFusion takes x * (1 / y) for x / y, which integers are not, and loses the dimensions of the 1."""
    ones = (constant(n.inputs[0]) for n in every if n.op_type == "Div")
    return any(one is not None and (one.dtype.is_integer() or len(one.shape) > 0) for one in ones)


def _returns_read_products(every: list[ir.Node]) -> bool:
    """GemmTransposeFusion puts a Transpose into a Gemm, although the graph returns the product itself."""
    return any(_is_returned_and_read(n, "Transpose") for n in every if n.op_type == "Gemm")


def _returns_read_images(every: list[ir.Node]) -> bool:
    """ConvAddActivationFusion puts an Add into a Conv, although the graph returns the Conv's result."""
    return any(_is_returned_and_read(n, "Add") for n in every if n.op_type == "Conv")


def _normalizes_returned(every: list[ir.Node]) -> bool:
    """MatMul_BatchNormalization_Fusion puts into a MatMul what follows moves that the graph returns."""
    moves = (n for n in every if n.op_type in _MOVES)
    return any(_is_returned_and_read(n, "BatchNormalization", *_MOVES) for n in moves)


def _is_returned_and_read(node: ir.Node, *readers: str) -> bool:
    y = node.outputs[0]
    return y.is_graph_output() and any(n.op_type in readers for n in y.consumers())


def _pads_some_axes(every: list[ir.Node]) -> bool:
    """The optimizer of Transposes takes the pads of some axes for those of all."""
    pads = any(n.op_type == "Pad" and len(n.inputs) > 3 for n in every)
    return pads and any(n.op_type == "Transpose" for n in every)


def _dequantizes_for_branches(every: list[ir.Node]) -> bool:
    """Optimizers of quantized values overlook, or end the process at, their readers in nested graphs."""
    return any(n.op_type == "DequantizeLinear" for n in every) and any(map(_captures, every))


def _quantizes_behind_transposes(every: list[ir.Node]) -> bool:
    """The optimizer of Transposes quantizes a value for all its readers where one is behind a Transpose."""
    return any(n.op_type == "QuantizeLinear" and _is_turned_and_shared(n.inputs[0]) for n in every)


def _quantizes_weights(every: list[ir.Node]) -> bool:
    """Float weights of an operator between quantized values are quantized too."""
    return any(
        n.op_type in _WEIGHTED and is_dequantized(n.inputs[0]) and not dequantizing(n.inputs[1])
        for n in every
    )


def _is_turned_and_shared(value: ir.Value | None) -> bool:
    turned = shared = False
    for _ in range(FAR):
        if value is None or (maker := value.producer()) is None or maker.op_type not in SELECTING:
            return turned and shared
        turned, value = turned or maker.op_type == "Transpose", maker.inputs[0]
        shared = shared or (value is not None and (len(value.uses()) > 1 or value.is_graph_output()))
    return True


def _captures(node: ir.Node) -> bool:
    """Return True if a node reads a value that an outer graph computes."""
    sources = (i.producer() for i in node.inputs if i is not None)
    return any(s is not None and s.graph is not node.graph and s.op_type != "Constant" for s in sources)


def _resizes_by_cubes(every: list[ir.Node]) -> bool:
    """An optimizer puts channels last before a cubic Resize, whose kernel then refuses to shrink images."""
    cubic = (n.op_type == "Resize" and n.attributes.get_string("mode", "") == "cubic" for n in every)
    return any(cubic) and any(n.op_type == "Transpose" for n in every)


_TRANSPOSES = ("TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider")
_WRONG: dict[Callable[[list[ir.Node]], bool], tuple[str, ...]] = {
    _pools_nothing: ("NchwcTransformer",),
    _pads_before_pools: ("Pad_Fusion",),
    _adds_dimensions: ("LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion"),
    _scales_vectors: ("SimplifiedLayerNormFusion",),
    _scales_vectors_inside: ("LayerNormFusionL1", "LayerNormFusionL2"),
    _inverts_more_than_numbers: ("DivMulFusion",),
    _returns_read_products: ("GemmTransposeFusion",),
    _returns_read_images: ("ConvAddActivationFusion",),
    _normalizes_returned: ("MatMul_BatchNormalization_Fusion",),
    _dequantizes_for_branches: ("QDQFinalCleanupTransformer", "QDQPropagationTransformer"),
    _resizes_by_cubes: ("TransposeOptimizer_CPUExecutionProvider",),
    _quantizes_behind_transposes: _TRANSPOSES,
    _pads_some_axes: _TRANSPOSES,
    _quantizes_weights: ("WeightBiasQuantization",),
}


def _producer(node: ir.Node) -> str:
    before = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    return "" if before is None else before.op_type


def _is_deep_number(value: ir.Value | None) -> bool:
    known = constant(value)
    return known is not None and known.size == 1 and len(known.shape) > 1
