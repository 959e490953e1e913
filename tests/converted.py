"""Converted models in tests, beside the ONNX models themselves."""

from __future__ import annotations

import numpy as np

from pinnace.building.build import build_model as build
from pinnace.converter.convert import Conversion, convert
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.types import ModelType
from pinnace.weights.source import Source

KINDS = {"mindir": ModelType.MINDIR, "ms": ModelType.MINDIR_LITE}
"""Kinds of converted files, by the ends of their names."""


def run(given, *inputs):
    """Return the results of a model."""
    executable = build(given, None, Target(threads=1), Settings())
    try:
        return executable.execution().run(list(inputs))
    finally:
        executable.close()


def same(original, folder, *requests, kind=ModelType.MINDIR, rtol=1e-5, atol=1e-6):
    """Compare a converted model with the original for the inputs of each request; return what it became.

    The two sum up in orders of their own.
    """
    options = Conversion(save_type=kind)
    summary = convert(Source.of_buffer(original), None, folder / "made", options)
    for inputs in requests:
        pairs = zip(run(summary.files[0], *inputs), run(original, *inputs), strict=True)
        for given, expected in pairs:
            np.testing.assert_allclose(given, expected, rtol=rtol, atol=atol)
    return summary
