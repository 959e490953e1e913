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
