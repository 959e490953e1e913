"""What `pinnace tune` measured of models on this machine, kept beside what was compiled of them.

A file of the folder `choices` holds the last tuning of one model: its name says the content of the model
file and the place, which is everything else that the figures rest on. Builds that leave the engine or the
numbers of threads and workers open go by it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pinnace.cache.key import code
from pinnace.cache.store import Store
from pinnace.machine.processor import identity
from pinnace.weights.digest import digest

_ROOM = "choices"
_LEANEST, _WORTH = "onnxruntime", 1.03
"""How many times as fast others have to be: onnxruntime maps its weights, which all processes share, and
OpenVINO packs them into memory of each process. Less than that is in the noise as well.
"""


@dataclass(frozen=True)
class Way:
    """One way to run a model; `threads` are those of each worker."""

    provider: str
    precision: str
    threads: int
    workers: int

    def __str__(self) -> str:
        return f"{self.provider}, {self.precision}, {self.workers} worker(s) of {self.threads} thread(s)"


@dataclass(frozen=True)
class Measurement(Way):
    """How fast a model was in one way to run it.

    `latency` is the median time of an answer in milliseconds, waiting included; `throughput` are answers a
    second; `deviation` is the relative error against onnxruntime in fp32.
    """

    latency: float
    throughput: float
    deviation: float


@dataclass(frozen=True)
class Tuning:
    """What was measured of a model with inputs of `shapes`; `when` is in seconds since 1970."""

    model: str
    shapes: tuple[tuple[int, ...], ...]
    when: float
    measured: tuple[Measurement, ...]

    def best(self, provider: str, precision: str, threads: int, workers: int) -> Measurement | None:
        """The fastest way to run, "" and 0 leave open how; None where nothing fits.

        One worker is there for latency, several are for throughput. Where engines are about as fast it is
        onnxruntime, which takes less memory. Where just these numbers of workers and
        threads were not measured, the nearest ones count, workers first.
        """
        fits = [one for one in self.measured if one.precision == precision and provider in ("", one.provider)]
        fits = _nearest(fits, workers, "workers")
        fits = _nearest(fits, threads, "threads")

        def cost(one: Measurement) -> float:
            time = one.latency if workers == 1 else 1 / one.throughput
            return time if one.provider == _LEANEST else time * _WORTH

        return min(fits, key=cost, default=None)

    def compares(self, threads: int, workers: int) -> bool:
        """Whether these numbers of threads and workers were measured."""
        return any((one.threads, one.workers) == (threads, workers) for one in self.measured)

    def after(self, older: Tuning | None) -> Tuning:
        """This tuning, and what an older one with the same shapes has measured elsewhere.

        Engines are compared within one tuning only: the machine may have been another one's before.
        """
        if older is None or older.shapes != self.shapes:
            return self
        new = {_elsewhere(one) for one in self.measured}
        kept = (one for one in older.measured if _elsewhere(one) not in new)
        return replace(self, measured=(*kept, *self.measured))


def place_of(whole: str, engines: Iterable[str], cores: int) -> str:
    """A name for what figures rest on: the model with its files, versions, the processor and its cores.

    `whole` is that of `pinnace.cache.key.whole_of`, `engines` are names and versions of those installed.
    """
    return digest("\0".join((whole, identity(), str(cores), *sorted(engines), code())).encode())


def any_kept(store: Store) -> bool:
    """Whether something is remembered of any model: where nothing is, no content need be known."""
    return os.path.isdir(store.root / _ROOM)  # False too where the folder may not be looked at


def find(store: Store, content: str, place: str) -> Tuning | None:
    """What is remembered of a model; None where nothing is, or where it is damaged."""
    return _tuning(store.noted(_ROOM, f"{content}-{place}"))


def remember(store: Store, content: str, place: str, tuning: Tuning) -> None:
    """Keep a tuning in the place of the last one; OSError."""
    store.note(_ROOM, f"{content}-{place}", asdict(tuning.after(find(store, content, place))))


def forget(store: Store, content: str) -> int:
    """Forget all that is remembered of a model file, and say how many tunings that were."""
    found = list((store.root / _ROOM).glob(f"{content}-*"))
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def all_kept(store: Store) -> Iterator[Tuning]:
    """All tunings that are whole."""
    for path in sorted((store.root / _ROOM).glob("*")):
        tuning = _tuning(store.noted(_ROOM, path.name))
        if tuning is not None:
            yield tuning


def _nearest(found: Sequence[Measurement], wanted: int, what: str) -> list[Measurement]:
    """Those whose number is nearest to the wanted one, as a ratio; all of them where 0 is wanted."""
    if not wanted:
        return list(found)

    def far(one: Measurement) -> float:
        return abs(math.log(getattr(one, what) / wanted))

    least = min(map(far, found), default=0.0)
    return [one for one in found if far(one) == least]


def _elsewhere(one: Measurement) -> tuple[str, int, int]:
    return one.precision, one.threads, one.workers


def _tuning(said: Any) -> Tuning | None:
    try:
        return Tuning(
            model=said["model"],
            shapes=tuple(map(tuple, said["shapes"])),
            when=said["when"],
            measured=tuple(Measurement(**one) for one in said["measured"]),
        )
    except (KeyError, TypeError):
        return None
