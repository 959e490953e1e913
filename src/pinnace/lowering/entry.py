"""The inputs of a program's entry function, as inputs of the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from pinnace.ops.values import Value, flatten
from pinnace.program import Input, Program

STATE = "pinnace.state"
"""Metadata key of a graph input with state; the value names the output that replaces it."""


def graph_inputs(program: Program) -> list[ir.Value]:
    """Return the graph inputs of the entry function, with tuples flattened; only tensors have a type."""
    return leaves(entry_inputs(program))


def entry_inputs(program: Program) -> list[Value]:
    """Return the arguments of the entry function, which may be tuples."""
    shown = program.input_names or [i.name for i in program.main.inputs]
    inputs = [_entry_input(i, name) for i, name in zip(program.main.inputs, shown, strict=True)]
    flat = leaves(inputs)
    for leaf, name in zip(flat, unique([v.name or "" for v in flat], set()), strict=True):
        leaf.name = name
    return inputs


def _entry_input(declared: Input, name: str) -> Value:
    if declared.parts:
        return tuple(_entry_input(part, f"{name}_{i}") for i, part in enumerate(declared.parts))
    if declared.type is None:
        return ir.Value(name=name)
    shape = None if declared.type.shape is None else ir.Shape(declared.type.shape)
    return ir.Value(name=name, shape=shape, type=ir.TensorType(declared.type.dtype))


def leaves(values: Iterable[Value]) -> list[ir.Value]:
    """Return the tensors of values that may be tuples."""
    return [leaf for value in values for leaf in flatten(value) if isinstance(leaf, ir.Value)]


def unique(names: Iterable[str], taken: set[str]) -> list[str]:
    """Return the names, with numbers behind those that are taken, and take them."""
    unique: list[str] = []
    tried: Counter[str] = Counter()
    for name in names:
        candidate = name
        while candidate in taken:
            tried[name] += 1
            candidate = f"{name}_{tried[name]}"
        taken.add(candidate)
        unique.append(candidate)
    return unique
