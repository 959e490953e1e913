"""Limits of the integers in an input, which is checked before each run: a check in the graph costs more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import openvino as ov

from pinnace.errors import EngineError
from pinnace.types import Array

_BELOW = "indices below "
_INTEGERS = ("i32", "i64")
_SAME_VALUES = ("Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_CHOOSING = ("Gather", "Slice", "Split", "StridedSlice", "VariadicSplit")
_UNSIGNED: Mapping[int, np.dtype[Any]] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_BITS_32 = 1 << 31


class IndexLimits:
    """Limits of an input's integers: [-length, length), one for all elements or one for each, row-major.

    `gathers` are the results of the Gathers that need them, "" where there is none.
    """

    def __init__(self, lengths: Sequence[int] = (_BITS_32,), gathers: Sequence[str] = ("",)) -> None:
        self.gathers = gathers
        self._lengths = np.array(lengths, np.int64)
        self._unsigned, self._least = self._lengths.astype(np.uint64), min(lengths)

    def lowered(self, size: int, places: Array | None, length: int, gather: str) -> IndexLimits:
        """Return the limits with those of another Gather, which reads `places` of `size` elements, or all."""
        count = len(self.gathers) if places is None else size
        known = zip(self._lengths.tolist(), self.gathers, strict=True)
        limits = list(known) * (count // len(self.gathers))
        for place in range(count) if places is None else places:
            limits[place] = min(limits[place], (length, gather))
        return IndexLimits(*zip(*limits, strict=True))

    def check(self, name: str, integers: Array) -> None:
        """Raise EngineError if values of the input `name` exceed the limits, or 32 bits."""
        if not integers.size:
            return
        unsigned = integers.view(_UNSIGNED[integers.itemsize])  # in which negative ones are large
        if unsigned.item(unsigned.argmax()) < self._least:  # by far numpy's fastest way
            return
        below = unsigned.reshape(-1) < self._unsigned
        if below.item(below.argmin()):
            return
        if integers.min() < -_BITS_32 or integers.max() >= _BITS_32:
            raise EngineError(
                f"openvino: input {name!r} has integers of more than 32 bits, which openvino cuts; use "
                f"provider onnxruntime"
            )
        flat = integers.reshape(-1).astype(np.int64)
        outside = (flat < -self._lengths) | (flat >= self._lengths)
        if outside.any():
            raise out_of_range(self.gathers[int(outside.argmax()) % len(self.gathers)])

    def record(self, parameter: ov.Node) -> None:
        """Keep the limits in a name of the parameter, which compiling and exporting keep."""
        parameter.output(0).add_names({_BELOW + json.dumps([self._lengths.tolist(), self.gathers])})


def out_of_range(gather: str) -> EngineError:
    """Return the error of a Gather; `gather` is the name of its result."""
    return EngineError(f"openvino: indices of the Gather that computes {gather!r} are out of range")


def recorded(model: ov.CompiledModel) -> dict[str, IndexLimits]:
    """Return the limits of inputs that `IndexLimits.record` has kept, under all names of each input."""
    found = {}
    for port in model.inputs:
        names = port.get_names()
        for name in names:
            if name.startswith(_BELOW):
                lengths, gathers = json.loads(name.removeprefix(_BELOW))
                found.update(dict.fromkeys(names, IndexLimits(lengths, gathers)))
    return found


def source(indices: ov.Output) -> tuple[str, Array | None]:
    """Return the input whose elements are the indices, "" if they are computed, and their places in it.

    Places are row-major. None stands for all elements, whose number may be free.
    """
    moves = []
    while _is_move(node := indices.get_node()):
        moves.append(indices)
        indices = node.input_value(0)
    if node.get_type_name() != "Parameter" or not _is_integer(indices):
        return "", None
    name = str(node.get_friendly_name())
    if all(move.get_node().get_type_name() in _SAME_VALUES for move in moves):
        return name, None
    if any(value.get_partial_shape().is_dynamic for value in (indices, *moves)):
        return "", None
    if not all(_is_by_constants(move.get_node()) for move in moves):
        return "", None
    shape = indices.get_shape()
    places = np.arange(prod(shape), dtype=indices.get_element_type().to_dtype()).reshape(shape)
    for move in reversed(moves):
        places = _moved(move, places)
    return name, places.reshape(-1)


def _is_move(node: ov.Node) -> bool:
    """Return True if a node gives integers of its first input: all, or those that constants choose."""
    kind = node.get_type_name()
    if kind not in (*_SAME_VALUES, *_CHOOSING) or not _is_integer(node.output(0)):
        return False
    return kind in _SAME_VALUES or (_is_by_constants(node) and (kind != "Gather" or is_in_range(node)))


def _is_by_constants(node: ov.Node) -> bool:
    return all(is_constant(value) for value in node.input_values()[1:])


def _moved(move: ov.Output, places: Array) -> Array:
    node = move.get_node()
    inputs = [places, *(value.get_node().data for value in node.input_values()[1:])]
    results = [ov.Tensor(output.get_element_type(), output.get_shape()) for output in node.outputs()]
    node.evaluate(results, [ov.Tensor(np.array(value)) for value in inputs])
    return np.array(results[move.get_index()].data)


def is_in_range(gather: ov.Node) -> bool:
    """Return True if indices are constant, and within a fixed dimension."""
    indices = gather.input_value(1)
    length = indexed_length(gather)
    if not is_constant(indices) or length is None:
        return False
    values = indices.get_node().data
    return bool(((values >= -length) & (values < length)).all())


def indexed_length(gather: ov.Node) -> int | None:
    """Return the length of the dimension that a Gather indexes; None if it is free."""
    axis, shape = gather.input_value(2), gather.input(0).get_partial_shape()
    if not is_constant(axis) or shape.rank.is_dynamic:
        return None
    length = shape[axis.get_node().data.item()]
    return int(length.get_length()) if length.is_static else None


def is_constant(value: ov.Output) -> bool:
    """Return True if a value is stored in the model."""
    return bool(value.get_node().get_type_name() == "Constant")


def _is_integer(value: ov.Output) -> bool:
    return value.get_element_type().get_type_name() in _INTEGERS
