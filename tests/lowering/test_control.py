"""What only the run can decide becomes If and Loop, and keeps its meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import programs as p
import pytest

from pinnace import Context, Model, ModelType
from pinnace.errors import UnsupportedModelError
from pinnace.lowering.lower import lower

A = np.asarray([1.0, -2.0, 3.0], np.float32)
ONE, ZERO = np.int32(1), np.int32(0)


def number(n: int) -> np.ndarray:
    return np.asarray(n, np.int32)


def branching(yes, no, *nodes: str, **constants):
    """A main function that calls `yes` or `no` with a, as n is positive or not."""
    main = p.function(
        "main", {"a": p.VECTOR, "n": p.NUMBER}, "out" if nodes else "y", "more = Greater n zero",
        "f = Switch more yes no", "y = call f a", *nodes, zero=ZERO, **constants,
    )  # fmt: skip
    return p.program(main, yes, no)


def test_if_computes_one_side():
    yes = p.function("yes", {"v": p.VECTOR}, "w", "w = Add v v")
    no = p.function("no", {"v": p.VECTOR}, "w", "w = Mul v v")
    model = lower(branching(yes, no))
    assert p.operators(model).count("If") == 1
    np.testing.assert_array_equal(p.run(model, A, number(1))[0], A + A)
    np.testing.assert_array_equal(p.run(model, A, number(0))[0], A * A)


def test_what_both_sides_share_stays_outside():
    yes = p.function("yes", {"v": p.VECTOR}, "t", "w = Add v v", "t = MakeTuple w v four", four=4)
    no = p.function("no", {"v": p.VECTOR}, "t", "w = Mul v v", "t = MakeTuple w v four", four=4)
    (branch,) = [n for n in lower(branching(yes, no)).graph if n.op_type == "If"]
    assert len(branch.outputs) == 1


def test_if_in_if():
    inner_yes = p.function("inner_yes", {"v": p.VECTOR}, "w", "w = Add v n_tensor", n_tensor=np.float32(5))
    inner_no = p.function("inner_no", {"v": p.VECTOR}, "w", "w = Sub v v")
    yes = p.function(
        "yes", {"v": p.VECTOR}, "w", "deep = Greater n one", "f = Switch deep inner_yes inner_no",
        "w = call f v", one=ONE,
    )  # fmt: skip
    no = p.function("no", {"v": p.VECTOR}, "w", "w = Neg v")
    outer = branching(yes, no)
    model = lower(p.program(outer.main, yes, no, inner_yes, inner_no))
    for n, expected in ((2, A + 5), (1, A - A), (0, -A)):
        np.testing.assert_array_equal(p.run(model, A, number(n))[0], expected)


def test_a_side_that_raises_is_dead():
    yes = p.function("yes", {"v": p.VECTOR}, "w", "w = raise kind text", kind="ValueError", text="no")
    no = p.function("no", {"v": p.VECTOR}, "w", "w = Mul v v")
    model = lower(branching(yes, no))
    assert p.operators(model) == ["Mul"]


@pytest.mark.parametrize("other", ["t = MakeTuple v v v", "t = Neg v"])
def test_tuples_of_different_length_are_refused(other):
    yes = p.function("yes", {"v": p.VECTOR}, "t", "t = MakeTuple v v")
    no = p.function("no", {"v": p.VECTOR}, "t", other)
    with pytest.raises(UnsupportedModelError, match="different structure"):
        lower(branching(yes, no))


def test_an_assignment_on_one_side_holds_after_the_if():
    yes = p.function(
        "yes", {"v": p.VECTOR}, "w", "set = Assign kept v u", "s = UpdateState u set", "r = Load kept s",
        "sum = Add r r", "w = Depend sum s",
    )  # fmt: skip
    no = p.function("no", {"v": p.VECTOR}, "w", "w = Neg v")
    nodes = ("s2 = UpdateState u y", "r2 = Load kept s2", "z = Add y r2", "out = Depend z s2")
    model = lower(branching(yes, no, *nodes, kept=[np.full(3, 10, np.float32)]))
    np.testing.assert_array_equal(p.run(model, A, number(1))[0], A * 3)
    np.testing.assert_array_equal(p.run(model, A, number(0))[0], 10 - A)


@pytest.mark.parametrize(("n", "wanted"), [(1, A * A + A), (0, -A * A)])
def test_a_result_that_may_be_a_tensor_follows_what_is_written_to_it(n, wanted):
    same, no = p.function("yes", {"v": p.VECTOR}, "v"), p.function("no", {"v": p.VECTOR}, "w", "w = Neg v")
    (result,) = p.computed(p.program(written_after("x", "y"), same, no), A, number(n))
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(("n", "wanted"), [(1, A * A + A), (0, A * A)])
def test_what_is_written_to_a_result_is_written_to_the_tensor_that_it_is(n, wanted):
    same, no = p.function("yes", {"v": p.VECTOR}, "v"), p.function("no", {"v": p.VECTOR}, "w", "w = Neg v")
    (result,) = p.computed(p.program(written_after("y", "x"), same, no), A, number(n))
    np.testing.assert_array_equal(result, wanted)


def written_after(target, result):
    """y = yes(x) if n > 0 else no(x), then target += a; returns the result."""
    return p.function(
        "main", {"a": p.VECTOR, "n": p.NUMBER}, "out", "x = Mul a a", "more = Greater n zero",
        "f = Switch more yes no", "y = call f x", "s = UpdateState u y",
        f"set = InplaceAddExt {target} a once s", "s2 = UpdateState s set", f"out = Depend {result} s2",
        zero=ZERO, once=1,
    )  # fmt: skip


LAST = {"last": (-1,), "second": (1,), "keep": False}
WIDER = p.function("no", {"v": p.VECTOR}, "w", "w = ExpandDims v front", front=0)
SQUARED = p.function("yes", {"v": p.VECTOR}, "w", "w = Mul v v")


@pytest.mark.parametrize("n", [1, 0])
def test_a_result_of_either_rank_is_read_in_its_own(n):
    nodes = ("sum = ReduceSum y last keep", "out = Add sum a")
    (result,) = p.computed(branching(SQUARED, WIDER, *nodes, **LAST), A, number(n))
    np.testing.assert_array_equal(result, ((A * A).sum() if n else A[None].sum(-1)) + A)


@pytest.mark.parametrize("n", [2, 1, -1, -2])
@pytest.mark.parametrize(("deeper", "wider"), [("yes", "no"), ("no", "yes")])
def test_a_rank_may_depend_on_a_condition_within_a_side(deeper, wider, n):
    deep = p.function(
        deeper, {"v": p.VECTOR}, "w", "m = Mul n n", "deep = Greater m one", "f = Switch deep flat deepest",
        "w = call f v", one=ONE,
    )  # fmt: skip
    flat = p.function("flat", {"v": p.VECTOR}, "w", "w = Neg v")
    deepest = p.function(
        "deepest", {"v": p.VECTOR}, "w", "x = ExpandDims v front", "w = ExpandDims x front", front=0
    )
    wide = p.function(wider, {"v": p.VECTOR}, "w", "w = ExpandDims v front", front=0)
    outer = branching(deep, wide, "out = ReduceSum y last keep", **LAST)
    (result,) = p.computed(p.program(outer.main, deep, wide, flat, deepest), A, number(n))
    expected = A[None] if (n > 0) == (wider == "yes") else -A if n * n > 1 else A[None, None]
    np.testing.assert_array_equal(result, expected.sum(-1))


@pytest.mark.parametrize("n", [2, 1, 0])
def test_two_results_have_ranks_of_their_own(n):
    nodes = (
        "less = Less n two", "g = Switch less yes no", "z = call g a", "s = Add y z",
        "out = ReduceSum s last keep",
    )  # fmt: skip
    (result,) = p.computed(branching(SQUARED, WIDER, *nodes, two=np.int32(2), **LAST), A, number(n))
    y, z = A * A if n > 0 else A[None], A * A if n < 2 else A[None]
    np.testing.assert_array_equal(result, (y + z).sum(-1))


def test_a_rank_that_does_not_fit_is_not_lowered():
    model = lower(branching(SQUARED, WIDER, "out = ReduceSum y second keep", **LAST))
    np.testing.assert_array_equal(p.run(model, A, number(0))[0], A[None].sum(1))


# -- loops -----------------------------------------------------------------------------------------


def counting(*body: str, **constants):
    """`while i < n: body` over v, with i from 0; the body computes `w` and may use v, i and n."""
    main = p.function(
        "main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "y = call head a zero", zero=ZERO, **constants
    )
    head = p.function(
        "head", {"v": p.VECTOR, "i": p.NUMBER}, "r", "more = Less i n", "go = Partial body v i",
        "stop = Partial end v", "f = Switch more go stop", "r = call f",
    )  # fmt: skip
    turn = p.function(
        "body", {"v": p.VECTOR, "i": p.NUMBER}, "r", *body, "j = Add i one", "r = call head w j", one=ONE
    )
    end = p.function("end", {"v": p.VECTOR}, "x", "x = Neg v")
    return p.program(main, head, turn, end)


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_loop(turns):
    model = lower(counting("w = Add v a"))
    assert p.operators(model).count("Loop") == 1
    np.testing.assert_array_equal(p.run(model, A, number(turns))[0], -A * (turns + 1))


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_that_only_its_inside_leaves(turns):
    main = p.function("main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "y = call head a zero", zero=ZERO)
    given = {"v": p.VECTOR, "i": p.NUMBER}
    head = p.function("head", given, "r", "go = Partial body v i", "r = call go")
    turn = p.function(
        "body", given, "r", "more = Less i n", "go = Partial again v i", "stop = Partial end v",
        "f = Switch more go stop", "r = call f",
    )  # fmt: skip
    again = p.function("again", given, "r", "w = Add v a", "j = Add i one", "r = call head w j", one=ONE)
    end = p.function("end", {"v": p.VECTOR}, "x", "x = Neg v")
    (result,) = p.computed(p.program(main, head, turn, again, end), A, number(turns))
    np.testing.assert_array_equal(result, -A * (turns + 1))


def test_a_condition_may_end_a_loop():
    program = counting("w = Add v a")
    main, _, *others = program.functions.values()
    head = p.function(
        "head", {"v": p.VECTOR, "i": p.NUMBER}, "r", "done = GreaterEqual i n", "go = Partial body v i",
        "stop = Partial end v", "f = Switch done stop go", "r = call f",
    )  # fmt: skip
    (result,) = p.computed(p.program(main, head, *others), A, number(3))
    np.testing.assert_array_equal(result, -A * 4)


def test_a_loop_that_is_known_not_to_begin_is_none():
    main = p.function("main", {"a": p.VECTOR}, "y", "y = call head a")
    head = p.function(
        "head", {"v": p.VECTOR}, "r", "more = ScalarLt three two", "go = Partial body v",
        "stop = Partial end v", "f = Switch more go stop", "r = call f", two=2, three=3,
    )  # fmt: skip
    turn = p.function("body", {"v": p.VECTOR}, "r", "w = Add v v", "r = call head w")
    end = p.function("end", {"v": p.VECTOR}, "x", "x = Neg v")
    assert p.operators(lower(p.program(main, head, turn, end))) == ["Neg"]


def test_only_what_changes_is_carried():
    (loop,) = [n for n in lower(counting("w = Add v a")).graph if n.op_type == "Loop"]
    assert len(loop.outputs) == 2


def test_a_shape_that_grows_is_carried_as_free():
    main = p.function("main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "y = call head a zero", zero=ZERO)
    head = p.function(
        "head", {"v": p.VECTOR, "i": p.NUMBER}, "r", "more = Less i n", "go = Partial body v i",
        "stop = Partial end v", "f = Switch more go stop", "r = call f",
    )  # fmt: skip
    turn = p.function(
        "body", {"v": None, "i": p.NUMBER}, "r", "two = MakeTuple v a", "w = Concat two axis",
        "j = Add i one", "r = call head w j", one=ONE, axis=0,
    )  # fmt: skip
    end = p.function("end", {"v": None}, "x", "x = Neg v")
    result = p.computed(p.program(main, head, turn, end), A, number(2))[0]
    np.testing.assert_array_equal(result, -np.concatenate((A, A, A)))


def test_if_in_a_loop():
    program = counting("more2 = Greater i one", "f = Switch more2 yes no", "w = call f v")
    yes = p.function("yes", {"x": p.VECTOR}, "z", "z = Add x x")
    no = p.function("no", {"x": p.VECTOR}, "z", "z = Add x a")
    model = lower(p.program(program.main, *list(program.functions.values())[1:], yes, no))
    np.testing.assert_array_equal(p.run(model, A, number(4))[0], -A * 3 * 4)


def test_loop_in_a_loop():
    program = counting("w = call inner v i")
    inner = p.function(
        "inner", {"x": p.VECTOR, "k": p.NUMBER}, "r", "more3 = Greater k zero2", "go = Partial inside x k",
        "stop = Partial out x", "f = Switch more3 go stop", "r = call f", zero2=ZERO,
    )  # fmt: skip
    inside = p.function(
        "inside", {"x": p.VECTOR, "k": p.NUMBER}, "r", "z = Add x a", "l = Sub k one2", "r = call inner z l",
        one2=ONE,
    )  # fmt: skip
    out = p.function("out", {"x": p.VECTOR}, "x")
    model = lower(p.program(program.main, *list(program.functions.values())[1:], inner, inside, out))
    assert p.operators(model).count("Loop") == 2
    # v starts at a; turn i adds a as often as i says: 0 + 1 + 2 + 3 times.
    np.testing.assert_array_equal(p.run(model, A, number(4))[0], -A * 7)


def test_assignments_in_a_loop_add_up():
    # The memory is an argument of the loop, as MindSpore has it.
    main = p.function(
        "main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "y = call head a zero u", zero=ZERO,
        kept=[np.zeros(3, np.float32)],
    )  # fmt: skip
    head = p.function(
        "head", {"v": p.VECTOR, "i": p.NUMBER, "m": None}, "r", "more = Less i n", "go = Partial body v i m",
        "stop = Partial end v m", "f = Switch more go stop", "r = call f",
    )  # fmt: skip
    turn = p.function(
        "body", {"v": p.VECTOR, "i": p.NUMBER, "m": None}, "r", "set = AssignAdd kept a m",
        "s = UpdateState m set", "j = Add i one", "r = call head v j s", one=ONE,
    )  # fmt: skip
    end = p.function("end", {"v": p.VECTOR, "m": None}, "x", "k = Load kept m", "x = Add k v")
    model = lower(p.program(main, head, turn, end))
    np.testing.assert_array_equal(p.run(model, A, number(3))[0], A * 4)
    np.testing.assert_array_equal(p.run(model, A, number(3), times=2)[0], A * 7)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_tensor_that_turns_change_in_place_is_read_as_it_is_then(turns):
    main = p.function(
        "main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "x = Mul a a", "y = call head x a zero u", zero=ZERO
    )
    given = {"x": p.VECTOR, "v": p.VECTOR, "i": p.NUMBER, "m": None}
    head = p.function(
        "head", given, "r", "more = Less i n", "go = Partial body x v i m", "stop = Partial end x v m",
        "f = Switch more go stop", "r = call f",
    )  # fmt: skip
    turn = p.function(
        "body", given, "r", "set = InplaceAddExt x a once m", "s = UpdateState m set", "now = Depend x s",
        "w = Add v now", "j = Add i one", "r = call head x w j s", one=ONE, once=1,
    )  # fmt: skip
    end = p.function(
        "end", {"x": p.VECTOR, "v": p.VECTOR, "m": None}, "y", "now = Depend x m", "y = Sub v now"
    )
    (result,) = p.computed(p.program(main, head, turn, end), A, number(turns))
    x = [A * A + k * A for k in range(turns + 1)]
    np.testing.assert_array_equal(result, A + sum(x[1:]) - x[-1])


def test_a_tuple_that_grows_each_turn_is_refused():
    main = p.function(
        "main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "t = MakeTuple a", "y = call head t zero", zero=ZERO
    )
    head = p.function(
        "head", {"v": None, "i": p.NUMBER}, "r", "more = Less i n", "go = Partial body v i",
        "stop = Partial end v", "f = Switch more go stop", "r = call f",
    )  # fmt: skip
    turn = p.function(
        "body", {"v": None, "i": p.NUMBER}, "r", "w = MakeTuple v a", "j = Add i one", "r = call head w j",
        one=ONE,
    )  # fmt: skip
    end = p.function("end", {"v": None}, "x", "x = Neg a")
    with pytest.raises(UnsupportedModelError, match="changes its length in each iteration of a loop"):
        lower(p.program(main, head, turn, end))


def test_recursion_that_is_no_loop_is_refused():
    main = p.function("main", {"a": p.VECTOR, "n": p.NUMBER}, "y", "y = call f a n")
    f = p.function(
        "f", {"v": p.VECTOR, "i": p.NUMBER}, "r", "more = Greater i zero", "go = Partial again v i",
        "stop = Partial end v", "g = Switch more go stop", "r = call g", zero=ZERO,
    )  # fmt: skip
    again = p.function(
        "again",
        {"v": p.VECTOR, "i": p.NUMBER},
        "r",
        "j = Sub i one",
        "x = call f v j",
        "r = Add x v",
        one=ONE,
    )
    end = p.function("end", {"v": p.VECTOR}, "v")
    with pytest.raises(UnsupportedModelError, match="calls itself"):
        lower(p.program(main, f, again, end))


def test_a_loop_that_exchanges_parameters_is_refused():
    """MindSpore 2.10 wrote `while n > 0: ops.assign_add(a, x); a, b = b, a` over two Parameters."""
    path = Path(__file__).parents[1] / "data" / "refused" / "exchanged_parameters.mindir"
    with pytest.raises(UnsupportedModelError, match="exchanges Parameters that it assigns"):
        Model().build_from_file(str(path), ModelType.MINDIR, Context())
