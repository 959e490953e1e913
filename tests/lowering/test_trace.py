"""Programs are walked with symbols: calls, closures, constants and state."""

from __future__ import annotations

import numpy as np
import programs as p
import pytest

from pinnace.errors import UnsupportedModelError
from pinnace.lowering.lower import lower
from pinnace.ops import table

A = np.asarray([1.0, -2.0, 3.0], np.float32)
ONE = np.float32(1)


def test_nodes_may_come_in_any_order():
    main = p.function("main", {"a": p.VECTOR}, "y", "y = Add b a", "b = Mul a a")
    np.testing.assert_array_equal(p.computed(p.program(main), A)[0], A * A + A)


@pytest.mark.parametrize("weight", ["w", "%1", "%2", "%const0"])
@pytest.mark.parametrize("given", ["x", "%1", "%const0"])
def test_names_of_a_file_are_not_those_that_lowering_makes(given, weight):
    if given == weight:
        return
    constants = {weight: [np.float32([1, 1, 1])], "two": np.float32([2, 2, 2])}
    nodes = f"y = Add {given} {weight}", "z = Mul y two"
    main = p.function("main", {given: p.VECTOR}, "z", *nodes, **constants)
    (result,) = p.run(lower(p.program(main)), np.float32([1, 2, 3]))
    assert result.tolist() == [4, 6, 8]


def test_calls_are_inlined():
    main = p.function("main", {"a": p.VECTOR}, "y", "x = call twice a", "y = call twice x")
    twice = p.function("twice", {"v": p.VECTOR}, "w", "w = Add v v")
    model = lower(p.program(main, twice))
    assert p.operators(model).count("Add") == 2
    np.testing.assert_array_equal(p.run(model, A)[0], A * 4)


def test_a_function_sees_the_names_around_it():
    main = p.function("main", {"a": p.VECTOR}, "y", "b = Mul a a", "f = Partial inner", "y = call f a")
    inner = p.function("inner", {"v": p.VECTOR}, "w", "w = Add v b")
    np.testing.assert_array_equal(p.computed(p.program(main, inner), A)[0], A + A * A)


def test_a_function_sees_names_around_the_functions_that_lead_to_it():
    main = p.function("main", {"a": p.VECTOR}, "y", "b = Mul a a", "y = call first a")
    first = p.function("first", {"v": p.VECTOR}, "w", "w = call second v")
    second = p.function("second", {"v": p.VECTOR}, "w", "w = call third v")
    third = p.function("third", {"v": p.VECTOR}, "w", "w = Add v b")
    np.testing.assert_array_equal(p.computed(p.program(main, first, second, third), A)[0], A + A * A)


def test_partial_arguments_come_first():
    main = p.function("main", {"a": p.VECTOR}, "y", "f = Partial minus a", "y = call f one", one=ONE)
    minus = p.function("minus", {"v": p.VECTOR, "w": p.SCALAR}, "d", "d = Sub v w")
    np.testing.assert_array_equal(p.computed(p.program(main, minus), A)[0], A - 1)


def test_a_known_condition_takes_its_branch():
    main = p.function(
        "main",
        {"a": p.VECTOR},
        "y",
        "less = ScalarLt two three",
        "f = Switch less yes no",
        "y = call f a",
        two=2,
        three=3,
    )
    yes = p.function("yes", {"v": p.VECTOR}, "w", "w = Add v v")
    no = p.function("no", {"v": p.VECTOR}, "w", "w = Sub v v")
    model = lower(p.program(main, yes, no))
    assert p.operators(model) == ["Add"]


@pytest.mark.parametrize(("other", "expands"), [((2, 3), 0), ((3,), 1)])
def test_an_operand_is_stretched_only_where_the_others_do_not_do_it(other, expands):
    other = p.TypeInfo(p.ir.DataType.FLOAT, other)
    main = p.function(
        "main", {"a": p.VECTOR, "b": other}, "y", "c = Greater b zero", "wide = BroadcastTo a dims",
        "y = Select c wide b", dims=(2, 3), zero=np.float32(0),
    )  # fmt: skip
    model = lower(p.program(main))
    assert p.operators(model).count("Expand") == expands
    b = np.resize(np.float32([1, -1, 2, -3]), other.shape)
    np.testing.assert_array_equal(p.run(model, A, b)[0], np.where(b > 0, np.broadcast_to(A, (2, 3)), b))


@pytest.mark.parametrize("error", [AttributeError, TypeError])
def test_mistakes_of_a_lowering_are_not_blamed_on_the_model(monkeypatch, error):
    def mistaken(row, b, inputs, attributes):
        raise error("it is ours")

    monkeypatch.setattr(table.Primitive, "lower", mistaken)
    with pytest.raises(error, match="it is ours") as raised:
        lower(p.program(p.function("main", {"a": p.VECTOR}, "y", "y = Add a a")))
    assert raised.value.__notes__ == ["while node 'y' (Add) was lowered"]


def test_what_no_model_gives_is_refused(monkeypatch):
    def misled(row, b, inputs, attributes):
        raise IndexError("there are two")

    monkeypatch.setattr(table.Primitive, "lower", misled)
    with pytest.raises(UnsupportedModelError, match=r"do not fit together \(there are two\)"):
        lower(p.program(p.function("main", {"a": p.VECTOR}, "y", "y = Add a a")))


def test_a_cycle_is_refused():
    main = p.function("main", {"a": p.VECTOR}, "y", "y = Add x a", "x = Mul y a")
    with pytest.raises(UnsupportedModelError, match="cycle"):
        lower(p.program(main))


def test_a_name_that_nothing_defines_is_refused():
    main = p.function("main", {"a": p.VECTOR}, "y", "y = Add a b")
    with pytest.raises(UnsupportedModelError, match="'b', which nothing defines"):
        lower(p.program(main))


def test_a_wrong_number_of_arguments_is_refused():
    main = p.function("main", {"a": p.VECTOR}, "y", "y = call f a a")
    f = p.function("f", {"v": p.VECTOR}, "w", "w = Add v v")
    with pytest.raises(UnsupportedModelError, match="gives 2 arguments to function 'f', which takes 1"):
        lower(p.program(main, f))


FREE = p.TypeInfo(p.ir.DataType.FLOAT, None)


@pytest.mark.parametrize(
    ("inputs", "nodes", "row", "reason"),
    [
        ({"a": FREE}, ["y = Add a a"], ("input", 1, "a"), "input 'a' has a free rank"),
        ({"a": None}, ["y = Add a a"], ("input", 1, "a"), "input 'a' is no tensor"),
        ({"a": p.VECTOR}, ["y = call main"], ("call", 1, "y"), "gives 0 arguments to function 'main'"),
        ({"a": p.VECTOR}, ["y = Add a"], ("Add", 1, "y"), "argument 'y' is missing"),
        ({"a": p.VECTOR}, ["y = raise a"], ("main", 1, "main"), "the model always raises an exception"),
    ],
)
def test_a_refusal_names_what_and_where(inputs, nodes, row, reason):
    with pytest.raises(UnsupportedModelError) as caught:
        lower(p.program(p.function("main", inputs, "y", *nodes)))
    (found,) = caught.value.primitives
    assert (found.name, found.count, found.first_node) == row
    assert reason in found.reason


def test_all_unknown_primitives_are_named_with_counts():
    main = p.function("main", {"a": p.VECTOR}, "y", "x = Fancy a", "z = Fancy x", "y = Odd z")
    with pytest.raises(UnsupportedModelError) as caught:
        lower(p.program(main))
    assert [(q.name, q.count, q.first_node) for q in caught.value.primitives] == [
        ("Fancy", 2, "x"),
        ("Odd", 1, "y"),
    ]


def test_an_argument_that_must_be_known_is_named():
    main = p.function("main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "y = ExpandDims a n")
    with pytest.raises(UnsupportedModelError, match="argument 'axis' must be known before the run"):
        lower(p.program(main))


# -- state -----------------------------------------------------------------------------------------

STORED = [np.zeros(3, np.float32)]


def test_reads_and_two_assignments_keep_their_order():
    main = p.function(
        "main",
        {"a": p.VECTOR},
        "out",
        "before = Load kept u",
        "first = Add before one",
        "s1 = UpdateState u first",
        "w1 = Assign kept a s1",
        "s2 = UpdateState s1 w1",
        "between = Load kept s2",
        "second = Add between one",
        "s3 = UpdateState s2 second",
        "double = Add a a",
        "w2 = Assign kept double s3",
        "s4 = UpdateState s3 w2",
        "after = Load kept s4",
        "third = Add after one",
        "all = MakeTuple first second third",
        "out = Depend all s4",
        one=ONE,
        kept=STORED,
    )
    model = lower(p.program(main))
    for times, before in ((1, 0 * A), (2, 2 * A), (3, 2 * A)):
        first, second, third = p.run(model, A, times=times)
        np.testing.assert_array_equal(first, before + 1)
        np.testing.assert_array_equal(second, A + 1)
        np.testing.assert_array_equal(third, A * 2 + 1)


def test_an_assignment_that_nothing_reads_is_kept():
    main = p.function(
        "main", {"a": p.VECTOR}, "out", "w = AssignAdd kept a u", "s = UpdateState u w", "v = Load kept u",
        "y = Add v a", "out = Depend y s", kept=STORED,
    )  # fmt: skip
    model = lower(p.program(main))
    np.testing.assert_array_equal(p.run(model, A)[0], A)
    np.testing.assert_array_equal(p.run(model, A, times=3)[0], A * 3)


def test_what_was_assigned_does_not_follow_its_variable():
    main = p.function(
        "main",
        {"a": p.VECTOR},
        "out",
        "double = Add a a",
        "w1 = Assign kept double u",
        "s1 = UpdateState u w1",
        "w2 = Assign kept a s1",
        "s2 = UpdateState s1 w2",
        "all = MakeTuple double a",
        "out = Depend all s2",
        kept=STORED,
    )
    double, same = p.computed(p.program(main), A)
    np.testing.assert_array_equal(double, A * 2)
    np.testing.assert_array_equal(same, A)


def test_a_change_in_place_shows_in_every_name():
    main = p.function(
        "main",
        {"a": p.VECTOR},
        "out",
        "x = Mul a a",
        "copy = TensorMove x",
        "w = InplaceAddExt x a one u",
        "s = UpdateState u w",
        "all = MakeTuple x copy",
        "out = Depend all s",
        one=1,
    )
    changed, copy = p.computed(p.program(main), A)
    np.testing.assert_array_equal(changed, A * A + A)
    np.testing.assert_array_equal(copy, A * A)


def test_a_result_with_the_numbers_of_its_input_keeps_them_when_the_input_changes():
    main = p.function(
        "main", {"a": p.VECTOR}, "out", "x = Mul a a", "same = Cast x kind", "w = InplaceAddExt x a one u",
        "s = UpdateState u w", "all = MakeTuple x same", "out = Depend all s", one=1, kind=43,
    )  # fmt: skip
    changed, same = p.computed(p.program(main), A)[:2]
    np.testing.assert_array_equal(changed, A * A + A)
    np.testing.assert_array_equal(same, A * A)


def test_a_result_with_the_numbers_of_its_input_is_it_where_nothing_changes():
    nodes = ("x = Mul a a", "same = Cast x kind", "out = Neg same")
    main = p.function("main", {"a": p.VECTOR}, "out", *nodes, kind=43)
    assert p.operators(lower(p.program(main))) == ["Mul", "Neg"]


def test_a_parameter_that_changes_decides_nothing_beforehand():
    main = p.function(
        "main",
        {"a": p.VECTOR},
        "out",
        "was = Load flag u",
        "f = Switch was yes no",
        "y = call f a",
        "s1 = UpdateState u y",
        "w = Assign flag true s1",
        "s2 = UpdateState s1 w",
        "out = Depend y s2",
        true=np.asarray(True),
        flag=[np.asarray(False)],
    )
    yes = p.function("yes", {"v": p.VECTOR}, "x", "x = Add v v")
    no = p.function("no", {"v": p.VECTOR}, "x", "x = Neg v")
    model = lower(p.program(main, yes, no))
    np.testing.assert_array_equal(p.run(model, A)[0], -A)
    np.testing.assert_array_equal(p.run(model, A, times=2)[0], A + A)
