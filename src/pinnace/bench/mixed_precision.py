"""Search for the fastest forms with fewer bits whose outputs stay within an error.

Each method is tried on the whole model first. One that is faster and errs too much is mixed: the error of
each group of operators alone says which to leave as they are, or in the fastest form of the engine within the
error. Errors of groups add as squares.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pinnace import engines
from pinnace.api.cache import Configuration
from pinnace.bench.tuning import REFERENCE
from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.building.spec import Spec, Stages, lowered
from pinnace.errors import EngineError, PinnaceError, collected_warnings
from pinnace.machine.processor import sixteen_bit_type
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.quantization import operators
from pinnace.quantization.accuracy import Likeness, closeness
from pinnace.quantization.ranges import ranges
from pinnace.quantization.scheme import QuantizationScheme
from pinnace.types import Array

Samples = Sequence[Sequence[Array]]

_FP32, _FP16 = "enforce_fp32", "preferred_fp16"
_METHODS = (
    ("bits16", "openvino", _FP16),
    ("int8", "openvino", _FP16),
    ("int8", "openvino", _FP32),
    ("int8", "onnxruntime", _FP32),
    ("dynamic8", "onnxruntime", _FP32),
    ("weights8", "onnxruntime", _FP32),
    ("weights4", "onnxruntime", _FP32),
    ("weights16", "openvino", _FP32),
    ("held8", "openvino", _FP32),
)
_GROUPS, _PARTS = 8, 4
_FASTER = 0.95
"""Time over that of float32 from which a form is worth its error."""
_HOPE = 1.1
"""Time over that of the best form up to which another one is mixed, by its expected time, and kept."""
_RUNS, _LEAST = 5, 0.1  # runs and seconds of one measurement
_MARGIN = 0.9  # sums of errors are estimates


@dataclass(frozen=True)
class Tried:
    """A form on an engine: the time of a prediction in ms, and how close its outputs are."""

    setup: Configuration
    ms: float
    closeness: Likeness


class Search:
    """The forms of one model. `samples` are inputs of predictions, `bound` is the largest error.

    `deadline` is a `time.monotonic()` after which nothing is mixed; `watch` receives progress messages.
    """

    def __init__(
        self, path: str, config: str, samples: Samples, bound: float, threads: int,
        deadline: float, watch: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._path, self._samples, self._bound, self._threads = path, samples, bound, threads
        self._deadline, self._watch = deadline, watch
        self._settings = Settings.load(config).uncached()
        self._ranges: Mapping[str, tuple[float, float]] = {}
        self._wanted: list[list[Array]] = []
        whole = [self._tried(replace(REFERENCE, provider=name)) for name in sorted(engines.installed())]
        self._least = min((one.ms for one in whole if one is not None), default=math.inf)

    def found(self) -> Iterator[Tried]:
        """Return forms within the error that may be the fastest."""
        tried = [one for one in map(self._tried, self._configurations()) if one is not None]
        within = [one for one in tried if one.closeness.error <= self._bound]
        fastest = min(within, key=lambda one: one.ms, default=None)
        best = _FASTER * self._least
        if fastest is not None and fastest.ms < best:
            best = fastest.ms
            yield fastest
        for setup, base in self._worth_mixing(tried, best):
            mixed = self._mixed(setup, base)
            if mixed is not None and mixed.ms < _HOPE * best:
                best = min(mixed.ms, best)
                yield mixed

    def _worth_mixing(self, tried: Sequence[Tried], best: float) -> list[tuple[Configuration, float]]:
        """Return what may beat `best` if a part of it has another form, the most promising first.

        With each comes the error if all of it had that form.
        """
        promising: dict[str, tuple[float, Configuration, float]] = {}
        for one in tried:
            base, form = self._base(one, tried), QuantizationScheme.of(one.setup.form)
            ms, error = (self._least, 0.0) if base is None else (base.ms, base.closeness.error)
            part = self._bound / max(one.closeness.error, self._bound)
            expected = part * one.ms + (1 - part) * ms
            if part < 1 and error < self._bound and expected < _HOPE * best:
                rest = "" if base is None else QuantizationScheme.of(base.setup.form).method
                setup = replace(one.setup, form=replace(form, rest=rest).text)
                found = promising.get(form.method, (math.inf, setup, 0.0))
                promising[form.method] = min(found, (expected, setup, error), key=lambda x: x[0])
        return [(setup, error) for _, setup, error in sorted(promising.values(), key=lambda x: x[0])]

    def _base(self, of: Tried, tried: Sequence[Tried]) -> Tried | None:
        """Return the form of what is left where `of` is mixed; None for float32."""
        others = [one for one in tried if _can_be_rest(one.setup, of.setup)]
        if of.setup.precision == _FP32:
            fits = [one for one in others if one.closeness.error < self._bound and one.ms < self._least]
            return min(fits, key=lambda one: one.ms, default=None)
        return others[0] if others else None

    def _configurations(self) -> Iterator[Configuration]:
        """Return the methods that change the model, with the engines that are installed."""
        for method, provider, precision in _METHODS:
            if provider not in engines.installed() or (precision == _FP16 and not sixteen_bit_type()):
                continue
            names = self._names(method)
            if names:
                form = QuantizationScheme(method, (), self._ranges_for(method))
                yield Configuration(provider, precision, self._threads, 1, form=form.text)

    def _names(self, method: str) -> Sequence[str]:
        return operators(lowered(self._spec(REFERENCE), Stages(), ()).model, method)

    def _ranges_for(self, method: str) -> Mapping[str, tuple[float, float]]:
        if method != "int8":
            return {}
        if not self._ranges:
            self._watch(f"calibrating with {len(self._samples)} input(s)")
            spec = self._spec(REFERENCE)
            self._ranges = ranges(lowered(spec, Stages(), ()), spec.engine, self._samples)
        return self._ranges

    def _mixed(self, setup: Configuration, base: float) -> Tried | None:
        """Return the form with the most operators that stays within the error; None if there is none.

        `base` is the error if the method changes nothing.
        """
        method = QuantizationScheme.of(setup.form).method
        names = self._names(method)
        if method == "bits16":  # what is no product or convolution stays in 16 bits
            rest = self._tried(_changing(setup, (), names), timed=False)
            base = self._bound if rest is None else rest.closeness.error
        bound = math.sqrt(max(self._bound**2 - base**2, 0.0))
        groups = self._rated(setup, _split([names], _GROUPS), base)
        chosen = _within(groups, bound)
        left = [group.names for group in groups if group not in chosen and len(group.names) > 1]
        chosen = _within([*chosen, *self._rated(setup, _split(left, _PARTS), base)], bound)
        while chosen:
            tried = self._tried(_changing(setup, [name for group in chosen for name in group.names], names))
            if tried is None or tried.closeness.error <= self._bound:
                return tried
            chosen = chosen[:-1]
        return None

    def _rated(self, setup: Configuration, groups: Sequence[Sequence[str]], base: float) -> list[_Group]:
        """Return the error that each group alone adds, as far as there is time."""
        rated = []
        names = self._names(QuantizationScheme.of(setup.form).method)
        for group in groups:
            if time.monotonic() > self._deadline:
                break
            tried = self._tried(_changing(setup, group, names), timed=False)
            if tried is not None:
                error = math.sqrt(max(tried.closeness.error**2 - base**2, 0.0))
                rated.append(_Group(tuple(group), error))
        return rated

    def _tried(self, setup: Configuration, timed: bool = True) -> Tried | None:
        """Build and run a configuration; None if it cannot be built."""
        form = QuantizationScheme.of(setup.form) if setup.form else "float32"
        self._watch(f"trying {form} on {setup.provider}")
        try:
            with collected_warnings():
                built = build(self._spec(setup))
        except PinnaceError:
            return None
        executable = built.executable
        try:
            runs_on = executable.info["engine"].partition(" ")[0]
            if (built.spec.target.form, runs_on) != (setup.form, setup.provider):
                return None
            execution = executable.execution()
            got = [execution.run(sample) for sample in self._samples]
            self._wanted = self._wanted or got
            ms = _milliseconds(lambda: execution.run(self._samples[0])) if timed else math.inf
        except EngineError:
            return None
        finally:
            executable.close()
        return Tried(setup, ms, closeness(got, self._wanted))

    def _spec(self, setup: Configuration) -> Spec:
        target = Target(
            provider=setup.provider, precision=setup.precision, threads=self._threads, form=setup.form
        )
        return open_model(self._path, None, target, self._settings)


@dataclass(frozen=True)
class _Group:
    """Operators, and the error if they alone are changed."""

    names: tuple[str, ...]
    error: float


def _split(groups: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """Return each group in so many parts of neighbors."""
    return [list(part) for group in groups for part in np.array_split(group, min(count, len(group)))]


def _can_be_rest(setup: Configuration, of: Configuration) -> bool:
    """Return True if what `of` leaves can be as `setup` is."""
    same = (setup.provider, setup.precision) == (of.provider, of.precision)
    return (
        same and QuantizationScheme.of(setup.form).method != QuantizationScheme.of(of.form).method != "bits16"
    )


def _changing(setup: Configuration, names: Sequence[str], all_names: Sequence[str]) -> Configuration:
    changed = set(names)
    kept = tuple(name for name in all_names if name not in changed)
    form = replace(QuantizationScheme.of(setup.form), kept=kept, share=len(changed) / len(all_names))
    return replace(setup, form=form.text)


def _within(groups: Sequence[_Group], bound: float) -> list[_Group]:
    """Return the groups with the least error an operator whose errors stay within `bound`, least first."""
    chosen: list[_Group] = []
    left = (_MARGIN * bound) ** 2
    for group in sorted(groups, key=lambda group: group.error**2 / len(group.names)):
        if group.error**2 <= left:
            chosen.append(group)
            left -= group.error**2
    return chosen


def _milliseconds(run: Callable[[], object]) -> float:
    times: list[float] = []
    while len(times) < _RUNS or sum(times) < _LEAST:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3
