"""The one form in which all models pass through the converter: an ONNX graph of standard operators.

Of MindSpore's formats it is what Pinnace's compiler lowers for an engine; of an ONNX file its own graph, with
the functions that the file defines inlined.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, ShapeInferencePass

from pinnace import formats
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.lowering import custom
from pinnace.lowering.entry import STATE
from pinnace.lowering.graph import compilable, shapes_of
from pinnace.program import Program
from pinnace.types import ModelType
from pinnace.weights.source import Source

CONVERTED_FOR = "pinnace.converted_for"
"""Metadata key of the shapes that a file notes, unless others were given."""


def read(source: Source, kind: ModelType | None, input_shape: str = "") -> ir.Model:
    """Return a model as an ONNX graph; `input_shape` fixes dimensions of its inputs, as in a context.

    Raises ModelFormatError, UnsupportedModelError, and ConfigError for unknown inputs.
    """
    graph = formats.read(source, kind)
    folder = None if source.folder is None else str(source.folder)
    shapes = shapes_of(graph, input_shape, source.name)
    if not isinstance(graph, Program) and not shapes:
        model = graph
    else:
        model = compilable(graph, source.name, folder, shapes=shapes).model
    if states := [i.name or "" for i in model.graph.inputs if STATE in i.metadata_props]:
        reason = (
            "a parameter that the model assigns keeps its value between requests, and no rule writes that: "
            "take the value as an input, and return the new one"
        )
        rows = UnsupportedPrimitive.counted([("state", reason, name) for name in states])
        raise UnsupportedModelError(source.name, rows)
    if isinstance(graph, Program) and not shapes:
        model.meta[CONVERTED_FOR] = graph.converted_for
    if model.functions:
        InlinePass()(model)
    if model is graph:
        custom.replace(model, source.name)
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    return model
