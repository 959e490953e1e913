"""Quantization of a model before it is written, by the same steps as `pinnace tune --max-error`."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from pinnace import engines
from pinnace.errors import ConfigError
from pinnace.lowering.graph import compilable
from pinnace.options.target import Target
from pinnace.quantization import hold
from pinnace.quantization.calibration import Calibration
from pinnace.quantization.int8 import Rounding, channels, rest
from pinnace.quantization.operators import Operator, candidates, normalized, weight_of
from pinnace.quantization.ranges import Ranges, Samples, corrections, ranges
from pinnace.quantization.scheme import METHODS, QuantizationScheme
from pinnace.types import Array
from pinnace.weights.source import Source
from pinnace.writing import replacing

_MIXED = range(2, 9)
"""The bits of weights if their errors decide."""


@dataclass(frozen=True)
class Quantization:
    """The choices of a quantization: "stored" (weights only), "dynamic8" or "int8", and the bits of weights.

    With 0 bits each weight has the fewest with which its relative error is at most `error`. Weights with at
    most `least_size` elements or `least_channels` output channels, and the operators `skipped`, stay as they
    are. `notes` is a folder for a table of the operators, or "". A weight has a scale for each output channel
    (`per_channel`), or one. `ends` is the method of `ranges`; with `corrected` and samples, biases make up
    for the mean that convolutions lose.
    """

    method: str
    bits: int = 8
    least_size: int = 0
    least_channels: int = 0
    skipped: Collection[str] = frozenset()
    error: float = 0.02
    notes: str = ""
    calibration: Calibration | None = None
    per_channel: bool = True
    ends: str = "MAX_MIN"
    corrected: bool = True


def quantized(model: ir.Model, how: Quantization, source: Source) -> tuple[str, Sequence[Sequence[Array]]]:
    """Write steps from and to integers into a graph. Return what was done, and the samples for it.

    Raises ConfigError, and as building a model does.
    """
    every = candidates(model, how.method, for_file=True)
    _check_names(model, how.skipped)
    chosen = [operator for operator in every if _wanted(operator, how)]
    roundings = {one.name: Rounding(_bits_of(one, how), how.per_channel) for one in chosen}
    samples: Samples = ()
    found: Ranges = {}
    if how.calibration is not None:
        folder = None if source.folder is None else str(source.folder)
        graph, again = (compilable(model.clone(), source.name, folder) for _ in range(2))
        samples, engine = (
            how.calibration.samples(graph.interface.inputs),
            engines.choose(Target(), source.name),
        )
        if how.method == "int8":
            found = ranges(graph, engine, samples, for_file=True, method=how.ends)
        if how.corrected and how.method != "dynamic8":
            for name, lost in corrections(again, engine, samples, roundings).items():
                roundings[name] = replace(roundings[name], correction=lost)
    if how.notes:
        _note(Path(how.notes), chosen, QuantizationScheme(how.method, (), found), roundings)
    hold(model, QuantizationScheme(how.method, (), found), roundings)
    word = {"stored": f"weights of {how.bits or '2 to 8'} bits"}.get(how.method) or METHODS[how.method]
    return f"{word}: {len(chosen)} of {len(every)} operators", samples


def _check_names(model: ir.Model, names: Collection[str]) -> None:
    unknown = set(names) - {name for node in model.graph for name in (node.name, node.outputs[0].name)}
    if unknown:
        raise ConfigError(
            f"[common_quant_param] skip_quant_node names {', '.join(sorted(unknown))}, which the model lacks"
        )


def _wanted(operator: Operator, how: Quantization) -> bool:
    weight = weight_of(operator.node)
    if not {operator.node.name, operator.name}.isdisjoint(how.skipped):
        return False
    if weight is None:
        return True
    scales = weight.shape.numpy()[channels(operator.node)]
    return weight.size > how.least_size and scales > how.least_channels


def _bits_of(operator: Operator, how: Quantization) -> int:
    if how.bits or weight_of(operator.node) is None:
        return how.bits
    tried = (bits for bits in _MIXED if _error(operator, Rounding(bits, how.per_channel)) <= how.error)
    return next(tried, _MIXED[-1])


def _error(operator: Operator, rounding: Rounding) -> float:
    """Return the error of a rounded weight over its size, in the Euclidean norm."""
    weight = normalized(operator)[0]
    return float(np.linalg.norm(rest(weight, operator.node, rounding)) / (np.linalg.norm(weight) + 1e-20))


def _note(
    folder: Path, chosen: Sequence[Operator], form: QuantizationScheme, roundings: Mapping[str, Rounding]
) -> None:
    """Write `quantized.csv`: operators with the bits and error of their weights, and ranges of results."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "quantized.csv") as place, place.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["operator", "type", "bits", "error", "low", "high"])
        for one in chosen:
            known = weight_of(one.node) is not None
            rounding = roundings[one.name]
            error = f"{_error(one, rounding):.3g}" if known else ""
            row = [one.node.name or one.name, one.node.op_type, rounding.bits if known else "", error]
            table.writerow([*row, *form.ranges.get(one.end.name or "", ("", ""))])
