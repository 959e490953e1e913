"""The stages of a build, and the seconds that each took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stages(dict[str, float]):
    """Seconds by stage, in the order in which the stages began first."""

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        before, start = self.setdefault(stage, 0.0), perf_counter()
        try:
            yield
        finally:
            self[stage] = before + perf_counter() - start

    def __str__(self) -> str:
        """Return the stages in one line: "reading 2 ms, loading 13 ms"."""
        return ", ".join(f"{stage} {seconds * 1e3:.3g} ms" for stage, seconds in self.items())
