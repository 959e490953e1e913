"""Limits of folding a model's constants: sizes and multiplications, counted by hand."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from pinnace import bounds
from pinnace.engines import folding_limits
from pinnace.engines.folding_limits import Allowance, allowance

MB = 1 << 20


def model(nodes: str, weights: str) -> ir.Model:
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)'
    return ir.from_onnx_text(f"{head} <{weights}> {{ {nodes} }}")


def allowed(nodes: str, weights: str) -> Allowance:
    return allowance(model(nodes, weights))


def filled(name: str, numbers: int) -> tuple[str, str]:
    """A node of so many float32, and its shape."""
    return f"{name} = ConstantOfShape(s{name})", f"int64[1] s{name} = {{{numbers}}}"


def copies(count: int, numbers: int) -> Allowance:
    nodes, shapes = zip(*(filled(f"v{i}", numbers) for i in range(count)), strict=True)
    return allowed(" ".join((*nodes, "y = Neg(x)")), ", ".join(shapes))


def test_a_result_of_64_mb_is_folded_and_a_larger_one_is_not():
    assert copies(1, 16 * MB) == (64 * MB, True, True, True)
    assert copies(1, 16 * MB + 1) == (64 * MB, True, True, False)


def test_results_that_are_too_much_together_are_folded_up_to_half_a_size():
    count = bounds.FOLDED // (64 * MB)
    assert copies(count, 16 * MB) == (64 * MB, True, True, True)
    assert copies(count + 1, 16 * MB) == (32 * MB, True, True, False)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, (64 * MB, True, True, True)),  # 8 and 3 * 64
        (4, (32 * MB, True, True, True)),  # 8 and 4 * 64 are more than 256
        (16, (8 * MB, True, True, True)),  # 8 and 16 * 16 are more, too
        (64, (4 * MB, True, False, False)),  # 64 * 4; the 8 are not folded
    ],
)
def test_results_of_an_unknown_size_count_as_the_largest_that_is_folded(count, expected):
    """Of 8 MB of marks each NonZero may give 64 MB of places."""
    places = " ".join(f"p{i} = NonZero(m)" for i in range(count))
    nodes = f"m = ConstantOfShape <value = bool[1] {{1}}> (s) {places} y = Neg(x)"
    assert allowed(nodes, f"int64[1] s = {{{8 * MB}}}") == expected


@pytest.mark.parametrize(
    ("node", "size"),
    [
        ("Cast <to = 10> (a)", 2 * MB),
        ("Add(a, b)", 4 * MB),
        ("Neg(a)", 4 * MB),
        ("Expand(a, t)", 12 * MB),
        ("Tile(a, t)", 12 * MB),
        ("Add(b, b)", 2 * 8),  # as if it were a Concat
        ("Range(o, o, o)", 0),
    ],
)
def test_sizes_are_those_of_the_shapes(node, size):
    nodes = f"a = ConstantOfShape(s) b = ConstantOfShape(u) c = {node} y = Neg(x)"
    weights = f"int64[2] s = {{1, {MB}}}, int64[1] u = {{1}}, int64[2] t = {{3, 1}}, float o = {{1}}"
    sizes = [folded.bytes for folded in folding_limits._Estimate(model(nodes, weights)).folded]
    assert sizes == [4 * MB, 8, size]  # of few elements no type is inferred, and none is wider


@pytest.mark.parametrize(("side", "folds"), [(1000, True), (8000, False)])
def test_products_are_counted_by_the_sizes_of_matrices(side, folds):
    nodes = "a = ConstantOfShape(s) b = MatMul(a, a) y = Neg(x)"
    made = allowed(nodes, f"int64[2] s = {{{side}, {side}}}")
    assert made.folds is folds
    assert (side**3 <= bounds.PRODUCTS) is folds


WINDOWS = {
    "Conv <kernel_shape = [3,3]> (i, k)": 64 * 64 * 9 * 9,
    "MaxPool <kernel_shape = [3,3]> (i)": 64 * 64 * 9,
    'Einsum <equation = "abcd,abcd->a"> (i, i)': 64**4,
}


@pytest.mark.parametrize("node", WINDOWS)
@pytest.mark.parametrize("beyond", [0, 1])
def test_windows_are_counted_by_their_elements(node, beyond, monkeypatch):
    monkeypatch.setattr(bounds, "PRODUCTS", WINDOWS[node] - beyond)
    monkeypatch.setattr("pinnace.engines.folding_limits._PRODUCTS_PER_BYTE", 0)
    weights = "int64[4] s = {1,1,64,64}, int64[4] t = {1,1,3,3}"
    nodes = f"i = ConstantOfShape(s) k = ConstantOfShape(t) c = {node} y = Neg(x)"
    assert allowed(nodes, weights).folds is not bool(beyond)


def test_what_reads_an_input_is_not_folded():
    nodes = "a = ConstantOfShape(s) b = Expand(x, t) r = RandomNormal <shape = [9]> () y = Neg(x)"
    made = allowed(nodes, f"int64[1] s = {{{MB}}}, int64[2] t = {{{64 * MB}, 2}}")
    assert made == (64 * MB, True, True, True)


def last_size(nodes: str, weights: str) -> float:
    """The bytes, at most, of what the last node but one computes."""
    return folding_limits._Estimate(model(f"{nodes} y = Neg(x)", weights)).folded[-1].bytes


BRANCHES = """z = If(t) <then_branch = p () => (a) {{ a = {} }}, else_branch = q () => (b) {{ b = {} }}>
    n = Neg(z)"""
THREE, FIVE = "Constant <value = float[3] {1,2,3}> ()", "Constant <value = float[5] {1,2,3,4,5}> ()"


@pytest.mark.parametrize(
    ("nodes", "elements"),
    [
        (BRANCHES.format(THREE, FIVE), 5),  # either may be chosen
        (BRANCHES.format(FIVE, THREE), 5),
        ("n = Neg(v)", 7),
        ("s = Shape(x) n = Neg(s)", 64),  # the largest rank
        ("s = Size(x) n = Neg(s)", 64),
        ("c = Constant <value_ints = [1,2]> () n = Neg(c)", 64),
        (f"c = {THREE} n = Neg(c)", 3),
        ("n = Mul(v, v)", 49),  # if they are broadcast
        ("n = Concat <axis = 0> (v, t)", 8),
        ("n = Slice(v, t, t)", 7),
        ("n = Transpose(v)", 7),
        ("n = Add(v, nothing)", 8),  # one element at least
        ("n = Expand(t, two)", 6),
        ("n = Expand(v, two)", 42),
        ("n = Tile(v, t)", 7),
        ("n = ConstantOfShape(two)", 6),
        ("n = ConstantOfShape(holes)", 5),
    ],
)
def test_few_elements_are_estimated_by_those_of_the_inputs(nodes, elements):
    """Of these no type is inferred: they count as if of the widest, 8 bytes."""
    weights = "bool t = {1}, float[7] v = {1,1,1,1,1,1,1}, float[0] nothing = {}"
    assert last_size(nodes, f"{weights}, int64[2] two = {{3,2}}, int64[2] holes = {{0,5}}") == 8 * elements


@pytest.mark.parametrize(
    ("node", "size"),
    [
        ("Pad(v, pads)", 4 * 10),
        ("OneHot(two, ten, pair)", 4 * 20),
        ("Resize(image, , twice)", 4 * 2 * 8),
        ("Pad(d, pads)", 8 * 6),
    ],
)
def test_results_of_any_size_are_inferred(node, size):
    weights = "float[7] v = {1,1,1,1,1,1,1}, int64[2] pads = {1,2}, int64[2] two = {3,2}, int64 ten = {10}"
    weights += ", float[2] pair = {0,1}, float[1,1,2,4] image = {1,1,1,1,1,1,1,1}, double[3] d = {1,1,1}"
    assert last_size(f"n = {node}", f"{weights}, float[4] twice = {{1,1,1,2}}") == size


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (4, (32, True, True, True)),  # four times the weights
        (5, (16, True, False, False)),
    ],
)
def test_weights_may_be_folded_four_times(count, expected, monkeypatch):
    """Results of 32 bytes each, as large as the weight; where the bounds are small."""
    monkeypatch.setattr(folding_limits, "_MAX_RESULT", 16)
    monkeypatch.setattr(folding_limits, "_LARGE_RESULT", 8)
    monkeypatch.setattr(folding_limits, "_SMALL", 0)
    monkeypatch.setattr(bounds, "FOLDED", 0)
    nodes = " ".join(f"n{i} = Neg(w)" for i in range(count))
    assert allowed(f"{nodes} y = Neg(x)", f"float[8] w = {{{','.join('1' * 8)}}}") == expected


@pytest.mark.parametrize(
    ("node", "products"),
    [
        ("MatMul(w, w)", 256),  # the root of 16, 16 and at most 256 elements
        ("Gemm(w, w, w)", 1024),  # of 16, 16 and at most 4096: the bias is not multiplied
    ],
)
@pytest.mark.parametrize("lacking", [0, 1])
def test_multiplications_are_allowed_by_the_bytes_of_weights(node, products, lacking, monkeypatch):
    """Four for each of 64 bytes."""
    weight = f"float[4,4] w = {{{','.join('1' * 16)}}}"
    for per_byte, bound in ((0, products), (4, products - 256)):
        monkeypatch.setattr(folding_limits, "_PRODUCTS_PER_BYTE", per_byte)
        monkeypatch.setattr(bounds, "PRODUCTS", bound - lacking)
        assert allowed(f"n = {node} y = Neg(x)", weight).folds is not bool(lacking)
