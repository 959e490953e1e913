"""Einsum as products (see `rules`)."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import reduce

from pinnace.converter.decompositions.places import along
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor
from pinnace.ops.values import Value


def Einsum(op: Builder, *operands: Tensor, equation: str) -> Tensor:
    """Operands are taken together from the left.

    Two operands are a MatMul over what both have and the rest does not need.
    """
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = [_spelled(term, op.rank(x)) for term, x in zip(left.split(","), operands, strict=True)]
    letters = "".join(terms)
    dots = sorted({c for c in letters if c.isdigit()}, key=lambda c: -int(c))
    if not arrow:
        out = "".join(dots) + "".join(
            sorted(c for c in set(letters) if c.isalpha() and letters.count(c) == 1)
        )
    out = out.replace("...", "".join(dots))
    parts = [_single(op, x, term) for x, term in zip(operands, terms, strict=True)]

    def joined(one: tuple[Tensor, str], other: tuple[Tensor, str]) -> tuple[Tensor, str]:
        rest = parts[parts.index(other) + 1 :]
        needed = set(out).union(*(term for _, term in rest))
        return _product(op, one, other, needed)

    x, term = reduce(joined, parts)
    x, term = _summed(op, x, term, set(out))
    return x if term == out else op.transpose(x, [term.index(c) for c in out])


def _spelled(term: str, rank: int) -> str:
    """A term with a digit for each dimension of its dots, counted from the last one."""
    count = rank - len(term.replace("...", ""))
    return term.replace("...", "".join(string.digits[count - 1 - i] for i in range(count)))


def _single(op: Builder, x: Tensor, term: str) -> tuple[Tensor, str]:
    """An operand without equal letters: of those it is the diagonal."""
    for letter in sorted(set(term)):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            same = op.cast(op.Equal(along(op, x, first), along(op, x, second)), op.dtype(x))
            x = op.ReduceSum(x * same, [second], keepdims=0)
            term = term[:second] + term[second + 1 :]
    return x, term


def _summed(op: Builder, x: Tensor, term: str, needed: set[str]) -> tuple[Tensor, str]:
    """An operand without the letters that nothing needs."""
    gone = [i for i, c in enumerate(term) if c not in needed]
    if not gone:
        return x, term
    return op.ReduceSum(x, gone, keepdims=0), "".join(c for c in term if c in needed)


def _product(
    op: Builder, one: tuple[Tensor, str], other: tuple[Tensor, str], needed: set[str]
) -> tuple[Tensor, str]:
    """The product of two operands, summed over what both have and nothing else needs."""
    (x, first), (y, second) = (
        _summed(op, v, t, needed | set(u)) for (v, t), (_, u) in ((one, other), (other, one))
    )
    both = [c for c in first if c in second]
    batch, inner = ([c for c in both if (c in needed) is kept] for kept in (True, False))
    rows, columns = [c for c in first if c not in both], [c for c in second if c not in both]
    ones, others = dict(zip(first, op.dims(x), strict=True)), dict(zip(second, op.dims(y), strict=True))
    for pair in ({ones[c], others[c]} for c in both):
        numbers = {size for size in pair if isinstance(size, int)}
        if len(numbers) > 1 or (len(pair) > 1 and 1 in numbers):
            raise Unsupported(
                "has one letter for dimensions of different sizes: repeat that of size 1 by Expand"
            )
    sizes = others | ones | {c: n for c, n in others.items() if isinstance(n, int)}

    def matrix(v: Tensor, term: str, *groups: Sequence[str]) -> Tensor:
        """An operand with the letters of each group as one dimension."""
        turned = op.transpose(v, [term.index(c) for group in groups for c in group])
        return _shaped(op, turned, [_whole([sizes[c] for c in group]) for group in groups])

    made = op.MatMul(matrix(x, first, batch, rows, inner), matrix(y, second, batch, inner, columns))
    whole = [*batch, *rows, *columns]
    return _shaped(op, made, [sizes[c] for c in whole]), "".join(whole)


def _whole(sizes: Sequence[int | Tensor]) -> Value:
    """The product of sizes, of which the run may know some only."""
    number = math.prod(size for size in sizes if isinstance(size, int))
    free = [size for size in sizes if isinstance(size, Tensor)]
    if not free:
        return number
    return reduce(lambda one, other: one * other, free[1:], free[0] * number)


def _shaped(op: Builder, x: Tensor, dims: Sequence[int | Tensor]) -> Tensor:
    """A tensor with other dimensions, of which the run may know some only.

    Those are not zero: MindSpore Lite's Reshape takes zeros for the dimensions of its input.
    """
    if all(isinstance(d, int) for d in dims):
        return op.reshape(x, dims)
    return op.Reshape(x, op.vector(dims))
