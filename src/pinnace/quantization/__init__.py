"""Graphs with fewer bits: weights of 16, 8 or 4 bits, and products of integers.

`pinnace.quantization.scheme` says in which form a model runs, `apply` rewrites its graph; `hold` rewrites it
for a file. A weight is read, rounded and given up before the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from pinnace.engines.protocol import HALF_WEIGHTS
from pinnace.graph.editor import Editor
from pinnace.quantization import int8, weights
from pinnace.quantization.operators import Operator, candidates, keep_float32
from pinnace.quantization.scheme import QuantizationScheme

_REWRITES: dict[str, Callable[[Editor, Operator, QuantizationScheme], None]] = {
    "weights16": weights.halve,
    "weights8": weights.in_blocks,
    "held8": weights.hold_in_blocks,
    "weights4": weights.in_blocks,
    "dynamic8": int8.dynamic,
    "int8": int8.static,
}


def apply(model: ir.Model, form: QuantizationScheme) -> None:
    """Rewrite a graph into a form. What it has no means for stays as it is."""
    kept, b = set(form.kept), Editor(model, "%quantized")
    for operator in candidates(model, form.method):
        rewrite = _REWRITES.get(form.method)
        if operator.name in kept:
            if form.method == "bits16":
                keep_float32(operator)
        elif rewrite is not None:
            rewrite(b, operator, form)
    b.finish()
    model.opset_imports.setdefault("com.microsoft", 1)
    if form.method == "weights16":
        model.meta[HALF_WEIGHTS] = True
    if form.rest:
        apply(model, QuantizationScheme(form.rest, ranges=form.ranges))


def hold(model: ir.Model, form: QuantizationScheme, roundings: Mapping[str, int8.Rounding]) -> None:
    """Write steps from and to integers into a graph, which formats of files have fields for.

    `roundings` are those of weights by operator, without the operators that stay as they are. A form "stored"
    is of weights only, "dynamic8" and "int8" are as in `apply`; results of "int8" go through integers too.
    """
    changed = [one for one in candidates(model, form.method, for_file=True) if one.name in roundings]
    ends, b = {operator.end.name or "" for operator in changed}, Editor(model, "%quantized")
    for operator in changed:
        if form.method == "int8":
            int8.static(b, operator, form, roundings[operator.name])
        elif form.method == "dynamic8":
            int8.dynamic_steps(b, operator, roundings[operator.name])
        else:
            int8.stored(b, operator, roundings[operator.name])
    for value in [output for node in model.graph for output in node.outputs]:
        if value.name in ends and value.name in form.ranges:
            int8.through(b, value, form.ranges[value.name])
    b.finish()


def operators(model: ir.Model, method: str) -> Sequence[str]:
    """Return the names of the operators that a method changes, in the order of the graph."""
    return [operator.name for operator in candidates(model, method)]
