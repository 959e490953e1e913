"""Which models take as long for one value of an integer as for another."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from pinnace.engines import duration
from pinnace.engines.protocol import BY_SHAPES

HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
LOOP = """(int64 n, float[2] x) => (float[2] y) {
    c = Constant<value = bool {1}>()
    y = Loop(n, c, x) <body = b (int64 i, bool k, float[2] a) => (bool again, float[2] s) {
        again = Identity(k)
        s = Add(a, a)
    }>
}"""


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("(int64[1,1] i, float[9,4] w) => (float[1,1,4] y) { y = Gather(w, i) }", True),
        ("(int32[1,1] i, float[9,4] w) => (float[1,1,4] y) { j = Cast<to = 7>(i) y = Gather(w, j) }", True),
        ("(int64[1] n, float[2] x) => (float[m] y) { s = Shape(n) y = Expand(x, s) }", True),
        ("(float[2] x, int64[1] n) => (float[m] y) { y = Expand(x, n) }", False),
        ("(int64 n) => (int64[m] y) { z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>()"
         " d = Add(n, o) y = Range(z, d, o) }", False),
        ("(int64[1] n) => (float[m] y) { y = ConstantOfShape(n) }", False),
        (LOOP, False),
    ],
)  # fmt: skip
def test_only_work_that_no_number_of_a_request_changes_is_known(text: str, known: bool) -> None:
    info: dict[str, str] = {}
    duration.record(ir.from_proto(onnx.parser.parse_model(HEAD + text)), info)
    assert bool(info[BY_SHAPES]) is known


@pytest.mark.parametrize(
    ("call", "free"),
    [
        ("Expand({}, {})", [0]),
        ("OneHot({}, {}, {})", [0, 2]),
        ("Pad({}, {}, {})", [0, 2]),
        ("Resize({}, , , {})", [0]),
        ("Tile({}, {})", [0]),
        ("Gather({}, {})", [0, 1]),
        ("TopK({}, {})", [0, 1]),
        ("Range({}, {}, {})", []),
    ],
)
def test_integers_that_are_data_do_not_count(call, free):
    """A request gives the input in one place, constants are in the others; sizes count, data does not."""
    for place in range(call.count("{}")):
        given = ["k"] * call.count("{}")
        given[place] = "n"
        text = f"(int64[2] x) => (y) <int64[2] k = {{1, 1}}> {{ n = Neg(x) y = {call.format(*given)} }}"
        model = ir.from_onnx_text(HEAD + text)
        info: dict[str, str] = {}
        duration.record(model, info)
        assert bool(info[BY_SHAPES]) == (place in free), place
