"""Ranges of activations, as calibration finds them: the smallest and the largest value over all samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from pinnace.compiler.graph import Compilable
from pinnace.engines.protocol import Engine
from pinnace.options.target import Target
from pinnace.quantising.operators import candidates, weight_of
from pinnace.types import Array, DataType, Port


def ranges(
    graph: Compilable, engine: Engine, samples: Sequence[Sequence[Array]], for_file: bool = False
) -> dict[str, tuple[float, float]]:
    """Run a graph with samples of its inputs. Returns the ends of all that operators of method "int8" read.

    The graph cannot be used afterwards. Raises as `Engine.build` does.
    """
    names = _watch(graph.model, for_file)
    ports = tuple(Port(f"{name}/{end}", DataType.FLOAT32, ()) for name in names for end in ("low", "high"))
    outputs = len(graph.interface.outputs)
    watched = replace(graph, interface=replace(graph.interface, outputs=graph.interface.outputs + ports))
    executable = engine.build(watched, Target())
    try:
        found = [executable.execution().run(sample)[outputs:] for sample in samples]
    finally:
        executable.close()
    ends = [(float(min(one)), float(max(one))) for one in zip(*found, strict=True)]
    lows, highs = ends[::2], ends[1::2]
    return {name: (low[0], high[1]) for name, low, high in zip(names, lows, highs, strict=True)}


def _watch(model: ir.Model, for_file: bool) -> list[str]:
    """Add the smallest and the largest element of what operators read as outputs. Returns the names."""
    read: dict[str, ir.Value] = {}
    for operator in candidates(model, "int8", for_file):
        node = operator.node
        inputs = node.inputs[:1] if weight_of(node) is not None else node.inputs
        read |= {x.name or "": x for x in inputs if x is not None}
        if for_file:
            read[operator.end.name or ""] = operator.end
    for name, x in read.items():
        for op_type, end in (("ReduceMin", "low"), ("ReduceMax", "high")):
            node = ir.node(op_type, [x], {"keepdims": 0})
            output = node.outputs[0]
            output.name, output.type, output.shape = (
                f"{name}/{end}",
                ir.TensorType(ir.DataType.FLOAT),
                ir.Shape([]),
            )
            model.graph.append(node)
            model.graph.outputs.append(output)
    return list(read)
