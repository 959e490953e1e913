"""Numbers that nodes name: shapes, slices, and the widths into which they take values apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import onnx_ir as ir

from pinnace.distributed.shard.placements import Placement, Shard, dimensions
from pinnace.graph.constants import given_ints, ints


def sliced(node: ir.Node, shape: Sequence[object] = ()) -> dict[int, tuple[int, int] | None] | None:
    """Return the axes of a Slice with the first index of each and the one after the last.

    They are None where they are not constants, or the step is not 1; so is the result if the axes are not
    known. `shape` is that of its input, if that has another now.
    """
    shape = shape or dimensions(node.inputs[0])
    axes = given_ints(node, 3, "axes")
    starts, ends = given_ints(node, 1, "starts"), given_ints(node, 2, "ends")
    steps = ints(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else (1,) * len(shape)
    if axes is None:
        if len(node.inputs) > 3 and node.inputs[3] is not None:
            return None
        axes = tuple(range(len(starts or shape)))
    found: dict[int, tuple[int, int] | None] = dict.fromkeys((axis % len(shape) for axis in axes), None)
    if starts is None or ends is None or steps is None:
        return found
    for axis, start, end, step in zip(found, starts, ends, steps, strict=False):
        width = shape[axis]
        if isinstance(width, int) and step == 1:
            low, high = (min(n + width if n < 0 else n, width) for n in (start, end))
            found[axis] = low, high
    return found


def volume_of(dims: Sequence[object]) -> tuple[int, list[str]] | None:
    """Return the product of fixed dimensions and the names of free ones. None if one is unknown."""
    names = [dim.value for dim in dims if isinstance(dim, ir.SymbolicDim)]
    known = [name for name in names if name is not None]
    fixed = math.prod(dim for dim in dims if isinstance(dim, int))
    return (fixed, sorted(known)) if fixed and len(known) == len(names) else None


def sections_of(graph: ir.Graph, size: int) -> dict[int, list[tuple[int, ...]]]:
    """Return by width how products are taken apart afterwards: into queries, keys and values, say."""
    found: dict[int, dict[tuple[int, ...], None]] = {}
    for node in graph:
        for widths in _split_widths(node):
            if len(widths) > 1 and not any(width % size or not width for width in widths):
                found.setdefault(sum(widths), {})[widths] = None
    return {width: list(shardings) for width, shardings in found.items()}


def _split_widths(node: ir.Node) -> Iterator[tuple[int, ...]]:
    first = node.inputs[0] if node.inputs else None
    if node.domain or first is None or first.shape is None:
        return
    if node.op_type == "Split":
        yield pieces_of(node)
    if node.op_type == "Reshape" and node.outputs[0].shape is not None:
        after = list(node.outputs[0].shape)
        for place, count in enumerate(after[:-1]):
            volume = volume_of(after[place:])
            if volume and isinstance(count, int) and count in (2, 3) and volume == (first.shape[-1], []):
                yield (volume[0] // count,) * count
    if node.op_type == "Slice":
        slices = [found for user, _ in first.uses() if user.op_type == "Slice" and (found := sliced(user))]
        for axis in {axis for one in slices for axis in one}:
            ends = sorted({end for one in slices if (end := one.get(axis))})
            widths = tuple(high - low for low, high in ends)
            if ends == list(ends_of(widths)) and sum(widths) == first.shape[axis]:
                yield widths


def pieces_of(node: ir.Node) -> tuple[int, ...]:
    """Return the widths that a Split node makes; () where they are not known."""
    axis = node.attributes.get_int("axis", 0)
    widths = [None if output.shape is None else output.shape[axis] for output in node.outputs]
    known = tuple(width for width in widths if isinstance(width, int))
    return known if len(known) == len(widths) else ()


def section_of(pieces: tuple[int, ...], held: Shard) -> Placement:
    """Return the placement of each piece of a split value; None, whole, unless they are its sections."""
    return Shard(held.axis) if pieces and pieces == held.sections else None


def ends_of(widths: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return where pieces of these widths begin and end."""
    total = [0]
    for width in widths:
        total.append(total[-1] + width)
    return pairwise(total)
