"""Graphs from the text that onnx parses."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import onnxruntime as ort


def model(body: str, inputs: str = "float[4] x", opset: int = 21, weights: str = "") -> ir.Model:
    """Return a model of nodes in ONNX's text, whose output is `y`."""
    text = f'<ir_version: 9, opset_import: ["": {opset}]> g ({inputs}) => (float[N] y) {weights} {{ {body} }}'
    return ir.from_proto(onnx.parser.parse_model(text))


def value(model: ir.Model, name: str) -> ir.Value:
    graph = model.graph
    every = [*graph.inputs, *graph.initializers.values(), *(y for node in graph for y in node.outputs)]
    return next(v for v in every if v.name == name)


def node(model: ir.Model, op_type: str) -> ir.Node:
    return next(node for node in model.graph if node.op_type == op_type)


def session(model: ir.Model) -> ort.InferenceSession:
    """Return onnxruntime's session of a model, without its optimizations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)
