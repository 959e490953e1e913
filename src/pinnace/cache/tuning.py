"""Tunings: what `pinnace tune` measured of models on this machine, stored in the cache.

A file of the folder `choices` holds the last tuning of a model. Its name consists of the digest of the model
file and of everything else that the figures depend on. Builds that leave engine, threads or workers open use
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pinnace.cache.folder import read_record
from pinnace.cache.store import Store

FOLDER = "choices"
_LEANEST, _WORTH = "onnxruntime", 1.03
"""Speed-up that another engine must have over onnxruntime, which maps its weights and shares them between
processes, while OpenVINO packs them into memory of each process; and a form with fewer bits over float32.
Smaller differences are noise, too.
"""


@dataclass(frozen=True)
class Configuration:
    """A configuration to run a model in; `threads` is per worker.

    `form` is the text of a form with fewer bits (`pinnace.quantization.scheme`), "" for the model as it is.
    """

    provider: str
    precision: str
    threads: int
    workers: int
    form: str = field(default="", kw_only=True)

    def __str__(self) -> str:
        bits = f"{self.precision}, fewer bits" if self.form else self.precision
        return f"{self.provider}, {bits}, {self.workers} x {self.threads} (workers x threads)"


@dataclass(frozen=True)
class Measurement(Configuration):
    """Measured speed of a model in one configuration.

    `latency` and `p99` are the median and the 99th percentile in milliseconds, waiting included; `throughput`
    is in predictions per second; `memory` is in bytes; `deviation` is the relative error against onnxruntime
    in fp32.
    """

    latency: float
    throughput: float
    deviation: float
    p99: float
    memory: int


@dataclass(frozen=True)
class Tuning:
    """Measurements of a model with inputs of `shapes`; `when` is in seconds since 1970.

    All have a p99 of at most `max_latency` in milliseconds, None for any.
    """

    model: str
    shapes: tuple[tuple[int, ...], ...]
    when: float
    measured: tuple[Measurement, ...]
    max_latency: float | None = None

    def best(
        self, provider: str, precision: str, threads: int, workers: int, may_round: bool = False
    ) -> Measurement | None:
        """Return the fastest configuration, where "" and 0 match any; None if nothing fits.

        Forms with fewer bits, in any precision, fit if the build `may_round`.

        One worker is compared by latency, several by throughput. If engines are about equally fast it is
        onnxruntime, which needs less memory. If these numbers of workers and threads were not measured, the
        nearest ones count, workers first.
        """
        fits = [
            one
            for one in self.measured
            if (may_round if one.form else one.precision == precision) and provider in ("", one.provider)
        ]
        fits = _nearest(fits, workers, "workers")
        fits = _nearest(fits, threads, "threads")

        def cost(one: Measurement) -> float:
            """Return the time of a prediction, with a handicap for more memory and errors."""
            time = one.latency if workers == 1 else 1 / one.throughput
            worse = (one.provider != _LEANEST) + bool(one.form)
            return float(time * _WORTH**worse)

        return min(fits, key=cost, default=None)

    def exact(self) -> Tuning:
        return replace(self, measured=tuple(one for one in self.measured if not one.form))

    def lean(self) -> Tuning:
        """Return the measurements of the engine whose weights all processes share; all if there are none."""
        lean = tuple(one for one in self.measured if one.provider == _LEANEST)
        return replace(self, measured=lean or self.measured)

    def compares(self, threads: int, workers: int) -> bool:
        """Return True if these numbers of threads and workers were measured, or may have missed the limit."""
        return self.max_latency is not None or any(
            (one.threads, one.workers) == (threads, workers) for one in self.measured
        )

    def after(self, older: Tuning | None) -> Tuning:
        """Merge this tuning with measurements of an older one with the same shapes and limit.

        Engines are compared within one tuning only, as the load of the machine may have changed. Forms with
        fewer bits do not outlast the tuning that found them.
        """
        if older is None or (older.shapes, older.max_latency) != (self.shapes, self.max_latency):
            return self
        new = {_configuration(one) for one in self.measured}
        kept = (one for one in older.measured if not one.form and _configuration(one) not in new)
        return replace(self, measured=(*kept, *self.measured))


def all_kept(store: Store) -> Iterator[Tuning]:
    for path in sorted((store.root / FOLDER).glob("*")):
        tuning = tuning_of(read_record(path))
        if tuning is not None:
            yield tuning


def _nearest(found: Sequence[Measurement], wanted: int, what: str) -> list[Measurement]:
    """Return the measurements whose number is nearest to the wanted one, as a ratio; all for 0."""
    if not wanted:
        return list(found)

    def far(one: Measurement) -> float:
        return abs(math.log(getattr(one, what) / wanted))

    least = min(map(far, found), default=0.0)
    return [one for one in found if far(one) == least]


def _configuration(one: Measurement) -> tuple[str, int, int]:
    return one.precision, one.threads, one.workers


def tuning_of(record: Any) -> Tuning | None:
    """Return the tuning of a JSON value; None for None, and for another value."""
    try:
        return Tuning(
            model=record["model"],
            shapes=tuple(map(tuple, record["shapes"])),
            when=record["when"],
            measured=tuple(Measurement(**one) for one in record["measured"]),
            max_latency=record["max_latency"],
        )
    except (KeyError, TypeError):
        return None
