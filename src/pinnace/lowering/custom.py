"""Nodes of ONNX files in standard operators: `Custom`, Ascend's (`ops/ascend/custom.py`), and steps of
quantization of another domain, which quantizers for onnxruntime write.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.traits import MICROSOFT
from pinnace.graph.walk import nodes

if TYPE_CHECKING:
    from pinnace.ops.older import OlderBuilder

_CUSTOM = "Custom"
_OWN_NODES: Mapping[str, Sequence[str]] = {
    "MultiScaleDeformableAttnFunction": (
        *("value", "value_spatial_shapes", "value_level_start_index", "sampling_locations"),
        "attention_weights",
    ),
    "PromptFlashAttention": ("query", "key", "value", "atten_mask"),
}
"""The operators that exports also write as nodes of their own, with the names of their inputs."""
_DEFAULTS = {"PromptFlashAttention": {"input_layout": "BNSD"}}
"""The values that MindSpore Lite's converter takes for attributes that are missing."""
_STEPS = ("DequantizeLinear", "QuantizeLinear")
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32)
_STEPS_OF_BYTES, _STEPS_OF_ALL = 13, 21
"""The operator sets whose steps take several scales, and also 4 and 16 bits."""
_AXES_AS_INPUTS = 13
"""The operator set that made the axes of Squeeze and Unsqueeze inputs."""


def replace(model: ir.Model, name: str, changing: Container[int] = ()) -> None:
    """Put standard operators in the place of others, in a model without functions.

    `changing` are the ids of exchangeable weights, on whose values the operators do not depend.
    Raises UnsupportedModelError with all that cannot be replaced.
    """
    _standardize_steps(model)
    found = [
        node for node in nodes(model.graph) if not node.domain and node.op_type in (_CUSTOM, *_OWN_NODES)
    ]
    if not found:
        return
    from pinnace.graph.inference import opset_of  # with the lowerings, which few ONNX models need
    from pinnace.ops.older import OlderBuilder

    _give_axes(model)
    _infer(model, found)
    b = OlderBuilder(changing=changing, opset=opset_of(model), prefix="custom.")
    b.taken.update(value.name or "" for value in _values(model))
    failed = [(_type(node), reason, node.name or "") for node in found if (reason := _replace(b, node))]
    if failed:
        raise UnsupportedModelError(name, UnsupportedPrimitive.counted(failed))
    for value in b.initializers.values():
        model.graph.register_initializer(value)


def _standardize_steps(model: ir.Model) -> None:
    """Take steps of `com.microsoft` for ONNX's: they are the same, and engines know what is right there."""
    opset = model.opset_imports.get("", 0)
    for node in nodes(model.graph) if MICROSOFT in model.opset_imports else ():
        if node.domain == MICROSOFT and node.op_type in _STEPS:
            zero = (*node.inputs, None)[2]
            integers = zero or (node.inputs[0] if node.op_type == "DequantizeLinear" else None)
            of_bytes = integers is None or integers.dtype in _BYTES
            if opset >= (_STEPS_OF_BYTES if of_bytes else _STEPS_OF_ALL):
                node.domain = ""


def _type(node: ir.Node) -> str:
    kind = node.attributes.get("type")
    return f"{_CUSTOM}:{node.op_type if node.op_type in _OWN_NODES else kind and kind.value}"


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
        yield from graph.initializers.values()
    for node in nodes(model.graph):
        yield from node.outputs


def _give_axes(model: ir.Model) -> None:
    """Make the axes inputs that exporters of nodes `Custom` write as attributes in sets that have none."""
    for node in nodes(model.graph) if model.opset_imports.get("", 0) >= _AXES_AS_INPUTS else ():
        if node.op_type in ("Squeeze", "Unsqueeze") and not node.domain and len(node.inputs) == 1:
            axes = node.attributes.pop("axes", None)
            if axes is not None and axes.type is ir.AttributeType.INTS:
                name = f"{node.outputs[0].name}.axes"
                value = ir.Value(name=name, const_value=ir.tensor(list(axes.value), ir.DataType.INT64, name))
                model.graph.register_initializer(value)
                node.resize_inputs(2)
                node.replace_input_with(1, value)


def _infer(model: ir.Model, found: list[ir.Node]) -> None:
    """Infer the types and shapes before the nodes, and forget what the file declares behind them.

    Exporters declare for their results the types and shapes of their inputs.
    """
    from onnx_ir.passes.common import ShapeInferencePass

    for node in nodes(model.graph):
        for output in node.outputs:
            if not output.is_graph_output():
                output.shape = None
        constant = ir.convenience.get_const_tensor(node.outputs[0]) if node.op_type == "Constant" else None
        if constant is not None:
            node.outputs[0].const_value = constant
    for node in found:
        for output in node.outputs:
            output.shape, output.type = None, None
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)


def _replace(b: OlderBuilder, node: ir.Node) -> str:
    """Replace a node; returns the reason why it cannot be."""
    from pinnace.graph.failures import MISFITS, Unsupported
    from pinnace.graph.inference import infer
    from pinnace.ops.families import find
    from pinnace.program import Dialect

    row = find(Dialect.MINDSPORE, _type(node))
    if row is None:
        return "Pinnace does not know this operator of Ascend"
    b.origins = (node.name or "",)
    try:
        attributes = {name: _value(attribute) for name, attribute in node.attributes.items()}
        if node.op_type in _OWN_NODES:
            own = {"input_names": _OWN_NODES[node.op_type]}
            attributes = _DEFAULTS.get(node.op_type, {}) | attributes | own
        with b.scope() as written:
            value = row.lower(b, node.inputs, attributes)
            results = [b.tensor(v) for v in (value if isinstance(value, tuple) else (value,))]
            if len(results) < len(node.outputs):
                return f"has {len(node.outputs)} outputs, but the operator has {len(results)}"
            results = [
                b.op("Identity", new) if old.is_graph_output() or not new.producer() else new
                for old, new in zip(node.outputs, results, strict=False)
            ]
    except Unsupported as error:
        return str(error)
    except MISFITS as error:
        return f"its inputs and attributes do not fit together ({error or type(error).__name__})"
    graph = node.graph
    assert graph is not None
    graph.insert_before(node, written)
    for old, new in zip(node.outputs, results, strict=True):
        if old.is_graph_output():
            new.name = old.name
            infer(new, b.opset)
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    for part in reversed(written):  # engines would compute results that nobody reads
        if not any(output.uses() or output.is_graph_output() for output in part.outputs):
            graph.remove(part, safe=True)
    return ""


def _value(attribute: ir.Attr) -> object:
    """Return an attribute as lowerings see it; of `dtype`, which is ONNX's number, the element type."""
    value = attribute.value
    if attribute.name == "dtype" and attribute.type is ir.AttributeType.INT:
        return ir.DataType(value)
    return tuple(value) if isinstance(value, list) else value
