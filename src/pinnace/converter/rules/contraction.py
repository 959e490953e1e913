"""Einsum as products: a function of `parts`."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import reduce

import onnx_ir as ir

from pinnace.converter.rules.places import along
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported


@function
def einsum(b: Builder, operands: Sequence[ir.Value], equation: str) -> ir.Value:
    """The sums of products that an equation says; operands are taken together from the left.

    Two operands are a MatMul over what both have and the rest does not need.
    """
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = [_spelled(term, b.rank(x)) for term, x in zip(left.split(","), operands, strict=True)]
    letters = "".join(terms)
    dots = sorted({c for c in letters if c.isdigit()}, key=lambda c: -int(c))
    if not arrow:
        out = "".join(dots) + "".join(
            sorted(c for c in set(letters) if c.isalpha() and letters.count(c) == 1)
        )
    out = out.replace("...", "".join(dots))
    parts = [_single(b, x, term) for x, term in zip(operands, terms, strict=True)]

    def joined(one: tuple[ir.Value, str], other: tuple[ir.Value, str]) -> tuple[ir.Value, str]:
        """Two operands as one."""
        rest = parts[parts.index(other) + 1 :]
        needed = set(out).union(*(term for _, term in rest))
        return _product(b, one, other, needed)

    x, term = reduce(joined, parts)
    x, term = _summed(b, x, term, set(out))
    return x if term == out else b.transpose(x, [term.index(c) for c in out])


def _spelled(term: str, rank: int) -> str:
    """A term with a digit for each dimension of its dots, counted from the last one."""
    count = rank - len(term.replace("...", ""))
    return term.replace("...", "".join(string.digits[count - 1 - i] for i in range(count)))


def _single(b: Builder, x: ir.Value, term: str) -> tuple[ir.Value, str]:
    """An operand without equal letters: of those it is the diagonal."""
    for letter in sorted(set(term)):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            same = b.cast(b.op("Equal", along(b, x, first), along(b, x, second)), b.dtype(x))
            x = b.op("ReduceSum", b.op("Mul", x, same), [second], keepdims=0)
            term = term[:second] + term[second + 1 :]
    return x, term


def _summed(b: Builder, x: ir.Value, term: str, needed: set[str]) -> tuple[ir.Value, str]:
    """An operand without the letters that nothing needs."""
    gone = [i for i, c in enumerate(term) if c not in needed]
    if not gone:
        return x, term
    return b.op("ReduceSum", x, gone, keepdims=0), "".join(c for c in term if c in needed)


def _product(
    b: Builder, one: tuple[ir.Value, str], other: tuple[ir.Value, str], needed: set[str]
) -> tuple[ir.Value, str]:
    """The product of two operands, summed over what both have and nothing else needs."""
    (x, first), (y, second) = (
        _summed(b, v, t, needed | set(u)) for (v, t), (_, u) in ((one, other), (other, one))
    )
    both = [c for c in first if c in second]
    batch, inner = ([c for c in both if (c in needed) is kept] for kept in (True, False))
    rows, columns = [c for c in first if c not in both], [c for c in second if c not in both]
    ones, others = dict(zip(first, b.dims(x), strict=True)), dict(zip(second, b.dims(y), strict=True))
    for pair in ({ones[c], others[c]} for c in both):
        numbers = {size for size in pair if isinstance(size, int)}
        if len(numbers) > 1 or (len(pair) > 1 and 1 in numbers):
            raise Unsupported(
                "has one letter for dimensions of different sizes: repeat that of size 1 by Expand"
            )
    sizes = others | ones | {c: n for c, n in others.items() if isinstance(n, int)}

    def matrix(v: ir.Value, term: str, *groups: Sequence[str]) -> ir.Value:
        """An operand with the letters of each group as one dimension."""
        turned = b.transpose(v, [term.index(c) for group in groups for c in group])
        return _shaped(b, turned, [_whole(b, [sizes[c] for c in group]) for group in groups])

    made = b.op("MatMul", matrix(x, first, batch, rows, inner), matrix(y, second, batch, inner, columns))
    whole = [*batch, *rows, *columns]
    return _shaped(b, made, [sizes[c] for c in whole]), "".join(whole)


def _whole(b: Builder, sizes: Sequence[int | ir.Value]) -> int | ir.Value:
    """The product of sizes, of which the run may know some only."""
    number = math.prod(size for size in sizes if isinstance(size, int))
    free = [size for size in sizes if isinstance(size, ir.Value)]
    if not free:
        return number
    return reduce(lambda one, other: b.op("Mul", one, other), free[1:], b.op("Mul", free[0], number))


def _shaped(b: Builder, x: ir.Value, dims: Sequence[int | ir.Value]) -> ir.Value:
    """A tensor with other dimensions, of which the run may know some only.

    Those are not zero: MindSpore Lite's Reshape takes zeros for the dimensions of its input.
    """
    if all(isinstance(d, int) for d in dims):
        return b.reshape(x, dims)
    return b.op("Reshape", x, b.vector(dims))
