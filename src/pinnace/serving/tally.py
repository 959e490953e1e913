"""The counts of one worker, which each request changes."""

from __future__ import annotations

BITS = 5
"""A power of 2 is divided into 2**BITS equal steps, so that a step is at most 1/32 of its values."""
STEPS = (65 - BITS) << BITS  # up to 2**64 ns


class Tally:
    """Counts of one worker; only one thread at a time writes them."""

    __slots__ = ("batches", "failed", "steps", "total", "withdrawn")

    def __init__(self) -> None:
        self.failed = self.withdrawn = self.batches = self.total = 0
        self.steps = [0] * STEPS

    @property
    def served(self) -> int:
        """Number of served requests."""
        return sum(self.steps)

    def count(self, nanoseconds: int) -> None:
        """Count a served request."""
        self.total += nanoseconds
        shift = nanoseconds.bit_length() - 6  # literals for BITS: each prediction waits for this
        self.steps[(shift << 5) + (nanoseconds >> shift) if shift > 0 else nanoseconds] += 1
