"""Comparison of a converted model with its original on random inputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pinnace.building.build import build_model as build
from pinnace.converter.optimizing import TURNS, Turn, as_narrow
from pinnace.errors import ModelFormatError
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.quantization.accuracy import Likeness, closeness
from pinnace.tensors.gears import limited
from pinnace.types import Array, ModelType, Port
from pinnace.weights.source import Source

_FREE = 2
"""The size of a free dimension."""


def difference(
    source: Source,
    kind: ModelType | None,
    converted: Path,
    target: Target,
    turn: Turn,
) -> float:
    """Return the greatest difference of the results over the greatest value of the original's.

    The original runs on `target`; free dimensions have its first sizes. Inputs are random numbers between
    0 and 1 and integers of 0 and 1, with a seed. Raises ModelFormatError if the results have other types or
    shapes.
    """
    model = source.data if source.path is None else source.path
    (inputs,), (expected,) = _run(model, kind, target)
    _, (given,) = _run(converted, None, Target(), [_turned(inputs, turn)])
    worst = 0.0
    for number, (x, wide) in enumerate(zip(given, expected, strict=True)):
        y = as_narrow(wide, x.dtype)
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            raise ModelFormatError(
                f"{converted}: result {number} is {x.dtype}{list(x.shape)}, and that of the original is "
                f"{y.dtype}{list(y.shape)}"
            )
        if y.size and y.dtype.kind in "biuf":
            most, far = np.abs(y.astype(np.float64)), np.abs(x.astype(np.float64) - y.astype(np.float64))
            worst = max(worst, float(np.nanmax(far, initial=0)) / max(float(np.nanmax(most)), 1e-12))
    return worst


def likeness(
    source: Source,
    kind: ModelType | None,
    converted: Path,
    input_shape: str,
    turn: Turn,
    samples: Sequence[Sequence[Array]],
) -> Likeness:
    """Compare the results for samples of the original's inputs."""
    model = source.data if source.path is None else source.path
    _, wanted = _run(model, kind, Target(input_shape=input_shape), samples)
    turned = [_turned(sample, turn) for sample in samples]
    return closeness(_run(converted, None, Target(), turned)[1], wanted)


def _turned(inputs: Sequence[Array], turn: Turn) -> Sequence[Array]:
    return [x.transpose(TURNS[turn]) if turn and x.ndim == len(TURNS[turn]) else x for x in inputs]


def _run(
    model: Path | memoryview, kind: ModelType | None, target: Target, samples: Sequence[Sequence[Array]] = ()
) -> tuple[Sequence[Sequence[Array]], Sequence[Sequence[Array]]]:
    """Return inputs, random if there are none, and results of a model."""
    executable = build(model, kind, target, Settings().uncached())
    try:
        random = np.random.default_rng(0)
        ports = limited(executable.inputs, *target.gears)
        given = samples or [[_drawn(port, random) for port in ports]]
        runs = [
            [
                as_narrow(np.ascontiguousarray(x), p.dtype.to_numpy())
                for x, p in zip(sample, ports, strict=True)
            ]
            for sample in given
        ]
        return given, [executable.execution().run(sample) for sample in runs]
    finally:
        executable.close()


def _drawn(port: Port, random: np.random.Generator) -> Array:
    free = (size[0] for size in port.sizes[0]) if port.sizes else itertools.repeat(_FREE)
    shape = tuple(next(free) if size < 0 else size for size in port.shape)
    dtype = port.dtype.to_numpy()
    if dtype.kind == "f":
        return random.random(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)
