"""Calibration: what samples of a model's inputs tell of the values that its operators read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from pinnace.engines.protocol import Engine
from pinnace.graph.editor import Editor
from pinnace.graph.matching import attributes
from pinnace.lowering.graph import Compilable
from pinnace.options.target import Target
from pinnace.quantization.int8 import Rounding, rest
from pinnace.quantization.operators import Floats, Operator, candidates, normalized, weight_of
from pinnace.types import Array, DataType, Port

Samples = Sequence[Sequence[Array]]
Ranges = dict[str, tuple[float, float]]
_OUTLIERS = 1e-4
"""The part of the values on either side that is beyond the range, as in MindSpore Lite."""
_BINS, _LEVELS = 2048, 128
"""Bins of a histogram of values, and of what integers leave of it: no end is below 1/16 of the extremes, as
in MindSpore Lite. With twice as many a tensor takes 1.7 s instead of 0.5."""


def ranges(
    graph: Compilable, engine: Engine, samples: Samples, for_file: bool = False, method: str = "MAX_MIN"
) -> Ranges:
    """Run a graph with samples of its inputs. Returns the ends of all that operators of method "int8" read.

    `method` takes the extremes ("MAX_MIN"), the mean of the samples' quantiles ("REMOVAL_OUTLIER"), or the
    ends with the least loss of information ("KL"); the latter two hold all values of a sample in memory. The
    graph cannot be used afterwards. Raises as `Engine.build` does.
    """
    read = _read(graph.model, for_file)
    if method != "MAX_MIN":
        found = _values(Editor(graph.model, "%watched"), graph, engine, samples, list(read.values()))
        ends = _by_entropy(found) if method == "KL" else _by_quantiles(found)
        return dict(zip(read, ends, strict=True))
    b = Editor(graph.model, "%watched")
    watched = [b.op(kind, x, keepdims=0) for kind in ("ReduceMin", "ReduceMax") for x in read.values()]
    extremes = list(zip(*_values(b, graph, engine, samples, watched), strict=True))
    lows, highs = extremes[: len(read)], extremes[len(read) :]
    return {name: (float(min(a)), float(max(b))) for name, a, b in zip(read, lows, highs, strict=True)}


def corrections(
    graph: Compilable, engine: Engine, samples: Samples, roundings: Mapping[str, Rounding]
) -> dict[str, Floats]:
    """Return the mean that each channel of a convolution loses by the rounding of its weight, over samples.

    The graph cannot be used afterwards. Raises as `Engine.build` does.
    """
    every = candidates(graph.model, "stored", for_file=True)
    chosen = [one for one in every if one.node.op_type == "Conv" and one.name in roundings]
    b = Editor(graph.model, "%watched")
    lost = [_lost(b, one, roundings[one.name]) for one in chosen]
    found = _values(b, graph, engine, samples, lost)
    means = [[y.mean((0, *range(2, y.ndim))) for y in one] for one in found]
    return {one.name: np.mean(m, axis=0) for one, m in zip(chosen, zip(*means, strict=True), strict=True)}


def _lost(b: Editor, operator: Operator, rounding: Rounding) -> ir.Value:
    """Write what the rounding of a weight takes from a convolution, averaged over the picture."""
    node = operator.node
    weight = b.weight(ir.tensor(rest(normalized(operator)[0], node, rounding)))
    return b.op("GlobalAveragePool", b.op("Conv", node.inputs[0], weight, **attributes(node)))


def _read(model: ir.Model, for_file: bool) -> dict[str, ir.Value]:
    """Return what operators read, and for a file what they give, by name."""
    read: dict[str, ir.Value] = {}
    for operator in candidates(model, "int8", for_file):
        node = operator.node
        inputs = node.inputs[:1] if weight_of(node) is not None else node.inputs
        read |= {x.name or "": x for x in inputs if x is not None}
        if for_file:
            read[operator.end.name or ""] = operator.end
    return read


def _values(
    b: Editor, graph: Compilable, engine: Engine, samples: Samples, watched: Sequence[ir.Value]
) -> Iterator[Sequence[Array]]:
    """Run a graph with each sample, and yield values of the graph, also such as were written for it."""
    own = len(graph.interface.outputs)
    for place, value in enumerate(watched):
        output = b.op("Identity", value)
        output.name, output.type = f"watched/{place}", ir.TensorType(ir.DataType.FLOAT)
        graph.model.graph.outputs.append(output)
    b.append()
    b.finish()
    ports = tuple(Port(f"watched/{place}", DataType.FLOAT32, ()) for place in range(len(watched)))
    whole = graph._replace(interface=graph.interface._replace(outputs=graph.interface.outputs + ports))
    executable = engine.build(whole, Target())
    try:
        for sample in samples:
            yield executable.execution().run(sample)[own:]
    finally:
        executable.close()


def _by_quantiles(found: Iterable[Sequence[Array]]) -> list[tuple[float, float]]:
    parts = (_OUTLIERS, 1 - _OUTLIERS)
    ends = [[np.quantile(x, parts, method="lower") for x in one] for one in found]
    return [(float(low), float(high)) for low, high in np.mean(ends, axis=0)]


def _by_entropy(found: Iterable[Sequence[Array]]) -> list[tuple[float, float]]:
    from onnxruntime.quantization.calibrate import HistogramCollector

    collector = HistogramCollector(
        method="entropy",
        symmetric=False,
        num_bins=_BINS,
        num_quantized_bins=_LEVELS,
        percentile=0,
        scenario="",
    )
    for values in found:  # zeros are exact in any range
        collector.collect_value({place: x[x != 0] for place, x in enumerate(values)})
    kept = [
        collector.get_entropy_threshold(histogram, _LEVELS) for histogram in collector.histogram_dict.values()
    ]
    return [(float(low), float(high)) for low, high in kept]
