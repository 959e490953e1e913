"""Checks that OpenVINO's kernels lack, inserted into its models, whose shapes are fixed.

* Gather returns zeros or adjacent memory for indices out of range. If the indices are an input of the model,
  or fixed elements of a short one, the input is checked before the run (`limits`).
  Other indices are clamped, short vectors of them together, and an additional output of the model marks or
  counts the clamped ones.
* Integers are cut to 32 bits; inputs of 64 bits are checked before the run.

`python -m benchmarks guards` measures their cost. Operators that cannot be checked like this are refused by
`lacking`. Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from math import prod

import numpy as np
import openvino as ov
import openvino.opset13 as ops

from pinnace.engines.openvino.limits import IndexLimits, indexed_length, is_in_range, source

_COUNTS = "indices out of range of "
_MAX_JOINED = 256
"""Maximum of a Gather's indices that are clamped together with others, or are elements of an input.

Nodes cost more than numbers.
"""


def guard(model: ov.Model, inputs: Collection[str]) -> None:
    """Insert the checks into a model with inferred types, except into nested graphs.

    `inputs` are the names of those that `IndexLimits.check` checks before each run.
    """
    parameters = {parameter.get_friendly_name(): parameter for parameter in model.get_parameters()}
    limits: dict[str, IndexLimits] = {}
    computed: list[ov.Node] = []
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Gather" or is_in_range(node):
            continue
        (name, places), length = source(node.input_value(1)), indexed_length(node)
        size = 0 if places is None else prod(parameters[name].shape)
        if name in inputs and length is not None and size <= _MAX_JOINED:
            known = limits.get(name, IndexLimits())
            limits[name] = known.lowered(size, places, length, node.get_friendly_name())
        else:
            computed.append(node)
    for name, limit in limits.items():
        limit.record(parameters[name])
    counts = [count for gathers in _groups(model, computed) for count in _clamp(gathers)]
    if counts:
        joined = ops.concat([counted for _, counted in counts], 0).output(0)
        joined.set_names({_COUNTS + json.dumps([name for names, _ in counts for name in names])})
        model.add_outputs([joined])


def counted(model: ov.CompiledModel) -> list[str]:
    """Return the names of the results of Gathers to which the numbers of the last output belong."""
    name = next(iter(model.outputs[-1].get_names()), "")
    return list(json.loads(name.removeprefix(_COUNTS))) if name.startswith(_COUNTS) else []


def _groups(model: ov.Model, gathers: Sequence[ov.Node]) -> list[list[ov.Node]]:
    """Return the Gathers in groups that can be clamped together, as none depends on another of its group."""
    chosen = {gather.get_friendly_name() for gather in gathers}
    level: dict[str, int] = {}  # number of successive Gathers that a node depends on
    groups: dict[tuple[int | str, ...], list[ov.Node]] = defaultdict(list)
    for node in model.get_ordered_ops():
        name = node.get_friendly_name()
        above = [level[value.get_node().get_friendly_name()] for value in node.input_values()]
        level[name] = max(above, default=0)
        if name in chosen:
            level[name] = max(level[name], above[1] + 1)
            kind = node.input_value(1).get_element_type().get_type_name()
            groups[(above[1], kind) if _is_small(node) else (name,)].append(node)
    return list(groups.values())


def _is_small(gather: ov.Node) -> bool:
    return prod(gather.input(1).get_shape()) <= _MAX_JOINED and indexed_length(gather) is not None


def _clamp(gathers: Sequence[ov.Node]) -> list[tuple[list[str], ov.Output]]:
    """Clamp the indices of Gathers; returns their names, and as many numbers, 0 if nothing was clamped."""
    if not _is_small(gathers[0]):
        return [([gather.get_friendly_name()], _clamp_free(gather)) for gather in gathers]
    sizes = [prod(gather.input(1).get_shape()) for gather in gathers]
    kind = gathers[0].input_value(1).get_element_type()
    lengths = ops.constant(np.repeat([indexed_length(gather) for gather in gathers], sizes), kind)
    flat = [
        ops.reshape(g.input_value(1), ops.constant([size]), False)
        for g, size in zip(gathers, sizes, strict=True)
    ]
    indices = ops.concat(flat, 0)
    clamped = _within(indices.output(0), lengths.output(0))
    parts = ops.variadic_split(clamped, ops.constant(0), ops.constant(sizes))
    for gather, part in zip(gathers, parts.outputs(), strict=True):
        shape = np.array(gather.input(1).get_shape(), np.int64)
        gather.input(1).replace_source_output(ops.reshape(part, ops.constant(shape), False).output(0))
    names = np.repeat([gather.get_friendly_name() for gather in gathers], sizes)
    return [(names.tolist(), ops.convert(ops.not_equal(clamped, indices), "i32").output(0))]


def _clamp_free(gather: ov.Node) -> ov.Output:
    """Clamp the indices of a Gather; returns the number of changed ones, of shape (1,)."""
    data, indices, axis = gather.input_values()
    kind = indices.get_element_type()
    lengths = ops.shape_of(data, kind)
    length = ops.reshape(
        ops.gather(lengths, axis, ops.constant(np.int64(0))), ops.constant([], np.int64), False
    )
    clamped = _within(indices, length.output(0))
    gather.input(1).replace_source_output(clamped)
    changed = ops.convert(ops.not_equal(clamped, indices), "i32")
    axes = ops.constant(np.arange(len(indices.get_partial_shape())))
    count = ops.reduce_sum(changed, axes, False)
    return ops.reshape(count, ops.constant([1]), False).output(0)


def _within(indices: ov.Output, length: ov.Output) -> ov.Output:
    """Clamp indices to [-length, length)."""
    last = ops.subtract(length, ops.constant(1, indices.get_element_type()))
    return ops.maximum(ops.minimum(indices, last), ops.negative(length)).output(0)
