"""What lowerings leave out is declared, and what would be left out in silence is refused by name."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import typing
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal, get_origin

import numpy as np
import onnx_ir as ir
import pytest

import pinnace.ops  # noqa: F401  (fills the table)
from pinnace.errors import PinnaceWarning
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops import signatures
from pinnace.ops.families import find, rows
from pinnace.ops.table import Arguments
from pinnace.program import Dialect, Layout

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "tables"))


@pytest.fixture
def b():
    return Builder(Layout.NCHW)


def tensor(*shape: int, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
    return ir.Value(name="x", shape=ir.Shape(shape), type=ir.TensorType(dtype))


def lowered(b, dialect, name, inputs, **attributes):
    row = find(dialect, name)
    assert row is not None
    return row.lower(b, inputs, attributes)


@cache
def functions(file):
    """The functions of a file by the line in which they begin, with their decorators."""
    found = [
        n for n in ast.walk(ast.parse(Path(file).read_text())) if isinstance(n, ast.FunctionDef | ast.Lambda)
    ]
    return {
        line: n for n in found for line in (n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ())))
    }


def test_every_parameter_is_used_or_declared():
    undeclared = {}
    for row in rows():
        code = row.lowering.__code__
        function = functions(code.co_filename)[code.co_firstlineno]
        body = function.body if isinstance(function, ast.FunctionDef) else [function.body]
        read = {n.id for line in body for n in ast.walk(line) if isinstance(n, ast.Name)}
        parameters = list(inspect.signature(row.lowering, eval_str=True).parameters.values())
        taken = [p for p in parameters[1 + len(row.given) :] if get_origin(p.annotation) is not Literal]
        ignored = {p.name.rstrip("_") for p in taken if p.name not in read}
        if ignored - row.unused:
            undeclared[row.name] = ignored - row.unused
    assert not undeclared


def test_every_field_of_shared_arguments_is_read():
    records = [
        *Arguments.__subclasses__(),
        *(c for r in Arguments.__subclasses__() for c in r.__subclasses__()),
    ]
    records = [record for record in records if record.__module__.startswith("pinnace.ops.")]
    assert records
    for record in records:
        module = ast.parse(inspect.getsource(sys.modules[record.__module__]))
        read = {n.attr for n in ast.walk(module) if isinstance(n, ast.Attribute)}
        assert typing.get_type_hints(record).keys() <= read, record


def test_primitives_of_mindspore_lite_are_never_served_by_chance():
    schema = json.loads(resources.files("pinnace.formats.ms").joinpath("schema.json").read_text())
    found = {name: find(Dialect.LITE, name) for name in schema["unions"]["PrimitiveType"]}
    assert {row.dialect for row in found.values() if row} == {Dialect.LITE}
    assert find(Dialect.LITE, "Sqrt").lowering is find(Dialect.MINDSPORE, "Sqrt").lowering
    assert find(Dialect.LITE, "MakeTuple").dialect is Dialect.MINDSPORE  # of which the schema knows nothing


def test_the_table_has_the_fields_of_the_schema():
    import make_signatures

    schema = json.loads(make_signatures.SCHEMA.read_text())
    made = make_signatures.to_text({"lite": make_signatures.lite(schema)})
    assert make_signatures.DEFAULT_OUT.read_text().endswith(made)


def test_nothing_that_an_operator_reads_is_without_effect():
    known = [signatures.find(row.dialect, row.name) for row in rows()]
    inputs = {name for signature in known if signature for name in signature.inputs}
    assert not inputs & signatures.WITHOUT_EFFECT


def test_signatures():
    conv = signatures.find(Dialect.MINDSPORE, "Conv2D")
    assert list(conv.inputs) == ["x", "w"]
    assert conv.defaults["out_channel"] is signatures.GIVEN
    assert conv.defaults["mode"] == 1
    assert conv.defaults["groups"] is signatures.DERIVED
    pool = signatures.find(Dialect.MINDSPORE, "AvgPool")
    assert list(pool.inputs) == ["x", "kernel_size", "strides", "pad_mode", "data_format"]
    assert pool.defaults["pad_mode"] == {"VALID": 2}
    assert signatures.find(Dialect.LITE, "LSTM").defaults["zoneout_cell"] == 0
    assert signatures.find(Dialect.LITE, "Conv2D") is None
    assert list(signatures.find(Dialect.MINDSPORE, "ACos").inputs) == ["input"]  # the first of all


@pytest.mark.parametrize(
    ("value", "default"),
    [
        (None, 3),
        (2, 2),
        (True, 1),
        ((1, 1, 1), 1),
        (1, [1, 1]),
        ((), []),
        ((1, 2), [1, 2]),
        (float(np.float32(0.1)), 0.1),
        ("valid", "VALID"),
        (2, {"VALID": 2}),
        ("VALID", {"valid": 2}),
        (ir.DataType.FLOAT, {"float32": 43}),
        (43, {"float32": 43}),
        (np.array(5), 5),
        (np.array([1, 2]), [1, 2]),
    ],
)
def test_the_default_in_all_that_files_write(value, default):
    assert signatures.same(value, default)


@pytest.mark.parametrize(
    ("value", "default"),
    [
        (1, 2),
        ((1, 2), 1),
        (1, None),
        (1, []),
        ((1,), []),
        ((1, 2), [1, 3]),
        (0.2, 0.1),
        ("same", "valid"),
        (1, {"VALID": 2}),
        (ir.DataType.DOUBLE, {"float32": 43}),
        (0, "valid"),
    ],
)
def test_another_value_than_the_default(value, default):
    assert not signatures.same(value, default)


@pytest.mark.parametrize(
    ("dialect", "name", "inputs", "attributes", "named"),
    [
        (Dialect.LITE, "LSTM", 4, {"zoneout_cell": 0.5}, "zoneout_cell"),
        (Dialect.LITE, "Resize", 2, {"preserve_aspect_ratio": True}, "preserve_aspect_ratio"),
        (Dialect.LITE, "ReduceScatter", 1, {"rank_size": 2, "mode": 5}, "mode"),
        (Dialect.MINDSPORE, "Conv2D", 2, {"mode": 2}, "mode"),
        (Dialect.MINDSPORE, "MaxUnpool3D", 2, {"data_format": "NDHWC"}, "data_format"),
        (Dialect.MINDSPORE, "MaxUnpool3D", 2, {"format": "NDHWC"}, "format"),
        (Dialect.MINDSPORE, "Sqrt", 1, {"rounding_mode": "up"}, "rounding_mode"),
        (Dialect.MINDSPORE, "MakeTuple", 1, {"order": 2}, "order"),
    ],
)
def test_an_attribute_that_would_be_dropped_is_refused(b, dialect, name, inputs, attributes, named):
    with pytest.raises(Unsupported, match=named):
        lowered(b, dialect, name, [tensor(1, 4, 4, 4)] * inputs, **attributes)


def test_an_attribute_that_no_primitive_takes_is_a_note(b):
    with pytest.warns(PinnaceWarning, match=r"Sqrt has an attribute 'my_note' \(3\) that no primitive takes"):
        lowered(b, Dialect.MINDSPORE, "Sqrt", [tensor(1, 4)], my_note=3)


def test_an_argument_that_would_be_dropped_is_refused(b):
    ids, table = tensor(2, dtype=ir.DataType.INT64), tensor(5, 4)
    given = [ids, table, None, None, 2.0, False]
    assert lowered(b, Dialect.MINDSPORE, "Embedding", given) is not None
    given[3] = 1.0
    with pytest.raises(Unsupported, match=r"'max_norm' is 1\.0, and only its default, None, is supported"):
        lowered(b, Dialect.MINDSPORE, "Embedding", given)
    with pytest.raises(Unsupported, match="has 3 inputs, but only 2 are known"):
        lowered(b, Dialect.MINDSPORE, "Mul", [table, table, table])
    with pytest.raises(Unsupported, match="has 2 inputs, but only 1 are known"):
        lowered(b, Dialect.MINDSPORE, "DataFormatDimMap", [ids, table])


def test_inputs_after_those_by_position_come_by_name(b):
    x = tensor(4)
    reduced = lowered(b, Dialect.MINDSPORE, "InnerCommAllReduce", [x, "max", "some", True])
    attributes = reduced.producer().attributes
    assert (attributes["op"].as_string(), attributes["group"].as_string()) == ("max", "some")


def test_an_input_that_is_not_taken_by_name_must_have_its_default(b):
    x = tensor(1, 2, 8)
    given = [x, x, x, None, None, None, None, (0,)]
    with pytest.raises(Unsupported, match="'prefix'"):
        lowered(b, Dialect.MINDSPORE, "FlashAttentionScore", given, head_num=2)


def test_an_enumeration_of_mindspore_lite_is_not_one_of_mindspore(b):
    given = [tensor(1, 8, 8, 3), tensor(1, 4), tensor(1, dtype=ir.DataType.INT32), (2, 2)]
    lowered(b, Dialect.LITE, "CropAndResize", given, method=0)
    with pytest.raises(Unsupported, match="'method' is 1, and only its default, 0, is supported"):
        lowered(b, Dialect.LITE, "CropAndResize", given, method=1)


def test_what_says_nothing_is_left_out(b):
    notes = {"checkpoint": True, "output_names": ("output",), "fusion": 1, "in_strategy": ((1, 1),)}
    lowered(b, Dialect.MINDSPORE, "Sqrt", [tensor(2)], **notes)
    lowered(b, Dialect.LITE, "Sqrt", [tensor(2)], quant_type=0, of_the_converter="anything")
    lowered(b, Dialect.MINDSPORE, "MaxUnpool3D", [tensor(1, 2, 4, 4, 4)] * 2, format="NCDHW")
    lowered(b, Dialect.MINDSPORE, "Log", [tensor(2)], base=-1.0, scale=1.0, shift=0.0)


def test_the_mean_of_ranks_is_a_sum_that_is_divided(b):
    lowered(b, Dialect.LITE, "ReduceScatter", [tensor(4, 2)], rank_size=2)
    assert [n.op_type for n in b.nodes] == ["ReduceScatter", "Div"]


def test_arguments_by_the_names_that_older_files_give_them(b):
    x, indices = tensor(2, 3), tensor(2, 3, dtype=ir.DataType.INT32)
    lowered(b, Dialect.MINDSPORE, "TensorScatterElements", [x, indices, x], axis=1, reduction="add")
    assert b.nodes[-1].attributes["reduction"].as_string() == "add"
    y = lowered(b, Dialect.MINDSPORE, "CountNonZero", [x], dims=(1,))
    assert list(b.shape(y)) == [2]
    lowered(b, Dialect.MINDSPORE, "GLU", [tensor(4, 3)], axis=0)
    assert [n.attributes["axis"].as_int() for n in b.nodes if n.op_type == "Split"] == [0]
    image = [tensor(1, 4, 5, 3), (8, 10)]
    y = lowered(b, Dialect.MINDSPORE, "ResizeNearestNeighborV2", image, data_format="NHWC")
    assert list(b.shape(y)) == [1, 8, 10, 3]


def test_attributes_that_only_older_files_have(b):
    lowered(b, Dialect.MINDSPORE, "Exp", [tensor(2)], base=-1.0, scale=1.0, shift=0.0)
    with pytest.raises(
        Unsupported, match=r"attribute 'base' is 2\.0, and only its default, -1\.0, is supported"
    ):
        lowered(b, Dialect.MINDSPORE, "Exp", [tensor(2)], base=2.0)


def test_values_that_are_not_in_the_table(b):
    with pytest.raises(Unsupported, match=r"argument 'mode' is 3, and supported are only 0, 1, 2$"):
        lowered(b, Dialect.LITE, "Eltwise", [tensor(2), tensor(2)], mode=3)
    with pytest.raises(Unsupported, match=r"argument 'top_k' is 2, and supported are only 1$"):
        lowered(b, Dialect.LITE, "ArgMaxFusion", [tensor(2)], top_k=2)
    with pytest.raises(
        Unsupported, match=r"argument 'padding_mode' is 'wrap', and supported are only '0', '1', '2'"
    ):
        lowered(b, Dialect.MINDSPORE, "GridSampler2D", [tensor(1, 1, 2, 2)] * 2, padding_mode="wrap")


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "message"),
    [
        ("MaxPool", 1, {"kernel_size": 2, "pad_mode": "round"}, "pad_mode 'round', which is unknown"),
        ("Conv2D", 2, {"format": "WHCN"}, "data_format 'WHCN', which is unknown"),
        ("Conv2D", 2, {"group": 1, "groups": 2}, "'group' = 1 and 'groups' = 2, which differ"),
        ("Conv2D", 2, {"stride": (1, 1, 2, 2), "strides": (3, 3)}, "'strides' = .3, 3., which differ"),
        ("MatMul", 2, {"transpose_a": False, "transpose_x1": True}, "'transpose_x1' = True, which differ"),
        ("IOU", 2, {"mode": "union"}, "argument 'mode' is 'union', and supported are only 'iou', 'iof'"),
        ("MirrorPad", 1, {"paddings": (1, 1), "mode": "WRAP"}, "argument 'mode' is 'WRAP'"),
    ],
)
def test_words_that_nobody_knows_and_names_that_disagree_are_refused(b, name, inputs, attributes, message):
    with pytest.raises(Unsupported, match=message):
        lowered(b, Dialect.MINDSPORE, name, [tensor(2, 2, 4, 4)] * inputs, **attributes)


def test_names_of_one_argument_may_agree(b):
    names = {
        "stride": (2, 2),
        "strides": (1, 1, 2, 2),
        "format": "NCHW",
        "data_format": "NCHW",
        "pad_mode": "same",
    }
    y = lowered(b, Dialect.MINDSPORE, "Conv2D", [tensor(1, 2, 4, 4), tensor(3, 2, 1, 1)], **names)
    assert y.producer().attributes.get_ints("strides") == (2, 2)
