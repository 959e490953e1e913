"""Element types of schemas, compared with ONNX's own."""

import graphs
import onnx
import onnx_ir as ir

from pinnace.graph.schemas import allowed, give_types, variables


def test_types_that_onnx_lacks_are_computed_in_the_nearest_wider_one():
    assert allowed("Add", (ir.DataType.FLOAT, ir.DataType.FLOAT)) == {}
    for name, kind in (("ReduceSum", ir.DataType.INT16), ("Neg", ir.DataType.UINT8)):
        (computed,) = allowed(name, (kind,)).values()
        schema = onnx.defs.get_schema(name)
        types = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        assert f"tensor({computed.name.lower()})" in types["T"]
        assert f"tensor({kind.name.lower()})" not in types["T"]


def test_the_last_input_of_a_variadic_operator_stands_for_more():
    assert variables("Concat", 3) == ("T", "T", "T")


def test_results_get_the_types_of_inputs_or_attributes():
    m = graphs.model("a = Neg(x) b = Cast<to = 7>(a) y = Identity(a)")
    for node in m.graph:
        give_types(node)
    kinds = [node.outputs[0].dtype for node in m.graph]
    assert kinds[:2] == [ir.DataType.FLOAT, ir.DataType.INT64]
