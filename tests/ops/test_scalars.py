"""Scalars that are known are computed as the run computes them: onnxruntime says what that is."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from pinnace.graph.failures import Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.program import Dialect, Layout

INTS, FLOATS, MARKS = (
    [(7, 2), (-7, 2), (2, 2), (3, 5)],
    [(1.5, 0.5), (0.25, 2.0), (-2.5, 2.0)],
    [(True, False)],
)
PAIRS = {
    **{kind: [*INTS, *FLOATS] for kind in ["Add", "Sub", "Mul", "Eq", "Gt", "Ge", "Lt", "Le"]},
    "FloorDiv": INTS,
    "Mod": INTS,
    "Div": FLOATS,
    "Pow": [(2.0, 3.0), (1.5, 2.0)],
}
WORDS = {"FloorDiv": "floordiv"}
CASES = [
    (name, pair)
    for kind, pairs in PAIRS.items()
    for name in (f"Scalar{kind}", f"scalar_{WORDS.get(kind, kind.lower())}")
    for pair in pairs
]
CASES += [(name, pair) for name in ("ScalarNe", "scalar_ne", "ScalarMax", "ScalarMin") for pair in INTS]
CASES += [(name, (x, y)) for name in ("BoolAnd", "bool_and", "BoolOr", "bool_or", "BoolEq", "bool_eq")
          for x in (True, False) for y in (True, False)]  # fmt: skip
CASES += [(name, (x,)) for name in ("BoolNot", "bool_not") for x in (True, False)]
CASES += [(name, (12, 10)) for name in ("bit_and", "bit_or", "bit_xor")]
CASES += [(name, (x,)) for name in ("ScalarUsub", "scalar_usub") for x in (3, -2.5)]
CASES += [(name, (2.5,)) for name in ("ScalarLog", "scalar_log")]
TYPES = {bool: ir.DataType.BOOL, int: ir.DataType.INT64, float: ir.DataType.FLOAT}


@pytest.mark.parametrize(("name", "numbers"), CASES, ids=str)
def test_numbers_that_are_known_are_computed_as_the_run_does(name, numbers):
    row, b = find(Dialect.MINDSPORE, name), LoweringBuilder(Layout.NCHW)
    now = row.lower(b, numbers, {})
    assert not b.nodes
    inputs = [
        ir.Value(name=f"x{i}", shape=ir.Shape([]), type=ir.TensorType(TYPES[type(n)]))
        for i, n in enumerate(numbers)
    ]
    y = row.lower(b, inputs, {})
    initializers = {v for node in b.nodes for v in node.inputs if v is not None and v.const_value is not None}
    graph = ir.Graph(inputs, [y], nodes=b.nodes, initializers=initializers, opset_imports={"": 21}, name="g")
    data = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    given = {f"x{i}": np.asarray(n, TYPES[type(n)].numpy()) for i, n in enumerate(numbers)}
    # What is known has more digits than a float32.
    np.testing.assert_allclose(now, session.run(None, given)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("number", "kind", "expected"),
    [
        (3.7, ir.DataType.INT64, 3),
        (2, ir.DataType.FLOAT, 2.0),
        (0.5, ir.DataType.BOOL, True),
        (0, ir.DataType.BOOL, False),
    ],
)
def test_a_known_number_of_another_type(number, kind, expected):
    cast = find(Dialect.MINDSPORE, "ScalarCast").lower(LoweringBuilder(Layout.NCHW), [number, kind], {})
    assert (cast, type(cast)) == (expected, type(expected))


@pytest.mark.parametrize(("name", "inputs", "expected"), [
    ("InSequence", [2, (1, 2, 3)], True),
    ("InSequence", [5, (1, 2, 3)], False),
    ("make_range", [2, 9, 3], (2, 5, 8)),
    ("sequence_mul", [(1, 2), 2], (1, 2, 1, 2)),
    ("SequenceSlice", [(1, 2, 3, 4, 5), 1, 4, 2], (2, 4)),
    ("sequence_slice", [(1, 2, 3), 0, 2, 1], (1, 2)),
    ("SequenceMax", [(1, 5, 3)], 5),
    ("SequenceMin", [(4, 2, 3)], 2),
    ("shape_mul", [(4, 2, 3)], 24),
    ("tuple_setitem", [(4, 2, 3), 1, 9], (4, 9, 3)),
    ("list_setitem", [(4, 2, 3), -1, 9], (4, 2, 9)),
    ("sequence_len", [(4, 2, 3)], 3),
    ("tuple_len", [()], 0),
    ("string_eq", ["same", "same"], True),
    ("string_eq", ["same", "valid"], False),
    ("ScalarBool", [3], True),
    ("scalar_bool", [0.0], False),
])  # fmt: skip
def test_what_is_known_of_sequences_and_words_is_pythons(name, inputs, expected):
    b = LoweringBuilder(Layout.NCHW)
    assert find(Dialect.MINDSPORE, name).lower(b, inputs, {}) == expected
    assert not b.nodes


def test_a_word_is_no_number():
    with pytest.raises(Unsupported, match="takes numbers"):
        find(Dialect.MINDSPORE, "ScalarAdd").lower(LoweringBuilder(Layout.NCHW), ["same", 1], {})
