"""Graphs -> sessions."""

from __future__ import annotations

import onnx_ir as ir
import onnxruntime as ort

from pinnace.compiler.graph import Compilable
from pinnace.compiler.passes import rewrite
from pinnace.engines.divisors import check_divisors
from pinnace.engines.onnxruntime.kernels import lacking
from pinnace.engines.onnxruntime.session import hand_over, start
from pinnace.engines.protocol import Array
from pinnace.errors import EngineError, UnsupportedModelError
from pinnace.weights.source import SMALL

_SLOW_OPTIMIZERS = ["SkipLayerNormFusion"]
"""Optimizers of onnxruntime that make a model slower: its sum and LayerNormalization in one (seen in 1.31)
takes 5 times as long as the two by themselves."""

_FOLDED = 1 << 26
"""Bytes that a result computed ahead of the run may have; more where the weights are larger.

Without a bound a file of some hundred bytes makes the engine fill the memory while it is built.
"""


def optimised(graph: Compilable, chosen: ort.SessionOptions) -> tuple[ort.InferenceSession, list[object]]:
    """A session that optimises the graph by the options given, and what it refers to."""
    check_divisors(graph.model, graph.name)
    if graph.lowered:
        rewrite(graph.model)
    room = str(max(_FOLDED, _weight_bytes(graph.model)))
    chosen.add_session_config_entry("optimization.constant_folding_max_output_size_in_bytes", room)
    held = hand_over(_in_memory(graph.model), chosen)
    wrong = _wrong_optimizers(graph.model) + (_SLOW_OPTIMIZERS if graph.lowered else [])
    try:
        return start(_encoded(graph.model), chosen, wrong), held
    except Exception as error:
        missing = lacking(graph.model)
        if missing:
            raise UnsupportedModelError(graph.name, missing) from None
        raise EngineError(f"{graph.name}: onnxruntime cannot build it: {error}") from None


def _wrong_optimizers(model: ir.Model) -> list[str]:
    """Optimizers of onnxruntime that would change the results of this model.

    Pad_Fusion (seen in 1.31) makes the zeros of a Pad before a MaxPool the pool's own padding, which never
    wins the maximum: wrong wherever all values of a window are negative.
    """
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        before = node.inputs[0].producer() if node.op_type == "MaxPool" and node.inputs[0] else None
        if before is not None and before.op_type == "Pad":
            return ["Pad_Fusion"]
    return []


def _weight_bytes(model: ir.Model) -> int:
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def _in_memory(model: ir.Model) -> dict[str, tuple[Array, int]]:
    """Large weights that lie in memory, which become place holders in the model."""
    found: dict[str, tuple[Array, int]] = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or isinstance(tensor, ir.ExternalTensor) or tensor.nbytes <= SMALL:
            continue
        found[name] = (tensor.numpy(), tensor.dtype.value)
        value.const_value = ir.ExternalTensor(
            "memory", 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=name
        )
    return found


def _encoded(model: ir.Model) -> bytes:
    """The model as bytes, without the types of intermediate values: the engine infers them by itself."""
    computed = (output for node in model.graph for output in node.outputs)
    for value in (*computed, *model.graph.initializers.values()):
        if not value.is_graph_output() and not value.is_graph_input():
            value.type = value.shape = None
    return ir.serde.serialize_model(model).SerializeToString()
