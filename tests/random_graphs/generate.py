"""Case number N of a seed."""

from __future__ import annotations

import numpy as np
from tests.random_graphs.chains import add_chain
from tests.random_graphs.draft import Draft, Refused
from tests.random_graphs.dress import Case, dress
from tests.random_graphs.operators import add_any
from tests.random_graphs.quantized import add_quantized

OPSETS = range(7, 27)
"""Those that onnxruntime 1.31 runs."""


_MISFITS = (IndexError, KeyError, NotImplementedError, TypeError, ValueError, ZeroDivisionError)
"""What numpy and onnx raise where drawn shapes and numbers do not go together."""


def case(seed: int, number: int, tame: bool = False, quantized: bool = False) -> Case:
    """The case; the same one for the same versions of onnx, onnxruntime and numpy.

    `tame`, for OpenVINO: of its operators and fixed shapes, without NaN, infinities and large integers.
    `quantized`: most of its steps are those of quantized models.
    """
    rng = np.random.default_rng([seed, number])
    while True:
        try:
            return dress(_draft(rng, tame, quantized))
        except Refused:
            pass


def _draft(rng: np.random.Generator, tame: bool, quantized: bool) -> Draft:
    d = Draft(rng, int(rng.choice(OPSETS)), tame)
    wanted, chained = int(rng.integers(1, 9)), rng.random() < 0.55
    for _ in range(4 * wanted):
        try:
            if quantized and rng.random() < 0.85:
                add_quantized(d)
            elif chained and not quantized:
                add_chain(d)
                chained = bool(rng.random() < 0.1)
            else:
                add_any(d)
        except (Refused, *_MISFITS):
            pass
        if len(d.nodes) >= wanted:
            break
    return d
