"""Element types of schemas, compared with ONNX's own."""

import graphs
import numpy as np
import onnx
import onnx_ir as ir

from pinnace.graph.inference import OPSET
from pinnace.graph.schemas import allowed, give_types, variables

NUMPY = {"bool": "bool", "float": "float32", "double": "float64", "float16": "float16"}
NUMPY |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""Numpy's names of types by ONNX's."""


def test_types_that_onnx_lacks_are_computed_in_the_nearest_wider_one():
    assert allowed("Add", (ir.DataType.FLOAT, ir.DataType.FLOAT)) == {}
    for name, kind in (("ReduceSum", ir.DataType.INT16), ("Neg", ir.DataType.UINT8)):
        (computed,) = allowed(name, (kind,)).values()
        schema = onnx.defs.get_schema(name)
        types = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        assert f"tensor({computed.name.lower()})" in types["T"]
        assert f"tensor({kind.name.lower()})" not in types["T"]


def test_each_input_has_a_type_of_its_own_variable():
    narrow, unknown = ir.DataType.INT16, None
    assert allowed("CumSum", (ir.DataType.FLOAT, narrow)) == {"T2": ir.DataType.INT32}
    assert allowed("CumSum", (unknown, narrow)) == {"T2": ir.DataType.INT32}
    assert allowed("CumSum", (narrow, narrow)) == {"T": ir.DataType.INT32, "T2": ir.DataType.INT32}


def test_the_last_input_of_a_variadic_operator_stands_for_more():
    assert variables("Concat", 3) == ("T", "T", "T")


def test_results_get_the_types_of_inputs_or_attributes():
    m = graphs.model("a = Neg(x) b = Cast<to = 7>(a) y = Identity(a)")
    for node in m.graph:
        give_types(node)
    kinds = [node.outputs[0].dtype for node in m.graph]
    assert kinds[:2] == [ir.DataType.FLOAT, ir.DataType.INT64]


def test_the_type_that_stands_in_holds_all_values_where_an_operator_has_such_a_type():
    """All operators of one type for their first input, with each type that ONNX lacks for them."""
    kinds = [kind for kind in ir.DataType if kind.name.lower() in NUMPY]
    seen = 0
    names = {schema.name for schema in onnx.defs.get_all_schemas()} - {"Loop"}  # whose inputs are optional
    for name in filter(lambda name: onnx.defs.has(name, OPSET), names):
        schema = onnx.defs.get_schema(name, OPSET)
        types = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        if not schema.inputs or schema.inputs[0].type_str not in types:
            continue
        has = {name for name in NUMPY if f"tensor({name})" in types[schema.inputs[0].type_str]}
        for kind in kinds:
            own = kind.name.lower()
            found = allowed(name, (kind,))
            if own in has:
                assert not found
                continue
            fits = {to for to in has if np.can_cast(NUMPY[own], NUMPY[to], "safe")}
            if own == "uint64":  # no type of ONNX holds all
                fits = {"int64", "double", "float"} & has
            if "float" in has or {"int32", "int64"} & fits:
                (computed,) = found.values()
                assert computed.name.lower() in (fits or has), (name, own)
                seen += 1
    assert seen > 500
