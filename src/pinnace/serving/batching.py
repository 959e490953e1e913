"""Batches of waiting requests, joined along the first dimension of all inputs and outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from pinnace.engines.protocol import Executable
from pinnace.errors import ConfigError, EngineError
from pinnace.serving.request import Request
from pinnace.types import Array

_ROUNDING, _COARSE_ROUNDING = {"float32": 1e-3}, 3e-2
"""Relative errors by precision that rounding explains: sums in another order differ by 1e-6 each, those of 16
bits by 1e-2.
"""


@dataclass(frozen=True)
class Batching:
    """Limits of a batch: number of rows, and time in ns that its first request may wait."""

    rows: int
    delay: int

    def check(self, executable: Executable) -> None:
        for port in (*executable.inputs, *executable.outputs):
            if port.shape[:1] != (-1,):
                raise ConfigError(
                    f"[runner] max_batch_size: the first dimension of {port.name!r} is not free "
                    f"({list(port.shape)}), so requests cannot be batched; export the model "
                    f"with a free batch, or leave max_batch_size out"
                )
        if executable.execution().state:
            raise ConfigError(
                "[runner] max_batch_size: this model keeps values from one prediction to the next, so that "
                "requests cannot be computed together; leave max_batch_size out"
            )

    def extend(self, batch: list[Request], waiting: deque[Request]) -> bool:
        """Move requests from the head of the queue to the batch. Returns True if more of them may still fit.

        Requests keep their order: the batch ends at the first request that does not fit.
        """
        rows = sum(map(rows_of, batch))
        while waiting and rows:
            head = waiting[0]
            if not rows_of(head) or _kind(head) != _kind(batch[0]) or rows + rows_of(head) > self.rows:
                return False
            rows += rows_of(head)
            batch.append(waiting.popleft())
        return 0 < rows < self.rows


def rows_of(request: Request) -> int:
    """Return the first dimension of all inputs; 0 if they differ or one is in device memory."""
    if not all(isinstance(array, np.ndarray) for array in request.arrays):
        return 0
    rows = {array.shape[0] for array in request.arrays}
    return rows.pop() if len(rows) == 1 else 0


def _kind(request: Request) -> list[tuple[int, ...]]:
    """Return the shapes that requests of one batch must share. The model fixes the dtypes."""
    return [array.shape[1:] for array in request.arrays]


def joined(requests: Sequence[Request]) -> list[Array]:
    return [np.concatenate(parts) for parts in zip(*(r.arrays for r in requests), strict=True)]


def check_independent(batched: Sequence[Array], alone: Sequence[Array], precision: str) -> None:
    """Raise EngineError if a request's rows of a batch are not those that it gets alone, but for rounding."""
    from pinnace.quantization.accuracy import deviation

    error = deviation(batched, alone)
    if error > _ROUNDING.get(precision, _COARSE_ROUNDING):
        raise EngineError(
            f"a request got other rows than alone (relative error {error:.2g}): rows of this model depend on "
            f"those of other requests"
        )


def split(results: Sequence[Array], requests: Sequence[Request]) -> list[list[Array]]:
    """Split the results of a batch into copies for each request.

    Raises `EngineError` if the results have another first dimension than the inputs.
    """
    ends = [0, *accumulate(map(rows_of, requests))]
    if any(result.shape[:1] != (ends[-1],) for result in results):
        shapes = [list(result.shape) for result in results]
        raise EngineError(f"{ends[-1]} rows were given, but the results have shapes {shapes}")
    return [[result[begin:end].copy() for result in results] for begin, end in pairwise(ends)]
