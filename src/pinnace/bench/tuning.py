"""Comparison of configurations of a model.

Those with the same numbers of threads and workers are open at the same time and take turns, A B A B, so that
other load on the machine affects all of them; figures are medians over the turns. A pause separates turns:
idle threads of an engine spin for a while, and would take cores from the next one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from statistics import geometric_mean, median

import numpy as np
import numpy.typing as npt

from pinnace.api.cache import Configuration, Measurement
from pinnace.api.runner import ModelParallelRunner
from pinnace.bench.throughput import caller, served, throughput
from pinnace.bench.timing import RunLimit, collector_off, milliseconds, resident
from pinnace.errors import EngineError, PinnaceError, PinnaceWarning, warn
from pinnace.options.context import Context
from pinnace.quantization.accuracy import deviation
from pinnace.types import Array

REFERENCE = Configuration("onnxruntime", "enforce_fp32", 1, 1)
"""The configuration whose outputs are the reference."""

FEWER = "fewer bits"
"""Key of the largest deviation of forms with fewer bits, beside those of precisions."""

_TURNS, _LEAST_TURNS = 20, 3  # many and short: other load comes and goes within seconds
_PAUSE = 0.02  # seconds; onnxruntime's threads spin for about a millisecond
_SHORTEST = 0.001  # seconds of a turn; at least one prediction


@dataclass(frozen=True)
class Subject:
    """The model to measure: its file, its inputs of each case, and a configuration file or ""."""

    path: str
    cases: Sequence[Sequence[Array]]
    config: str = ""


@dataclass(frozen=True)
class Outcome:
    """Result of one configuration: figures, None if it failed, and the type that the engine computes in.

    `reason` is why it must not be chosen.
    """

    setup: Configuration
    measured: Measurement | None = None
    computes_in: str = ""
    reason: str = ""


def configurations(
    providers: Sequence[str],
    precisions: Sequence[str],
    threads: Sequence[int],
    workers: Sequence[int],
    cores: int,
    others: Sequence[Configuration] = (),
) -> list[Configuration]:
    """Return all combinations, except several workers with more threads in total than cores.

    `others` are configurations with fewer bits, to be combined with the numbers too.
    """
    plain = [Configuration(engine, precision, 1, 1) for precision in precisions for engine in providers]
    return [
        replace(setup, threads=count, workers=places)
        for places in workers
        for count in threads
        if places == 1 or places * count <= cores
        for setup in (*plain, *others)
    ]


def compete(
    subject: Subject,
    contestants: Sequence[Configuration],
    seconds: float,
    bounds: Mapping[str, float],
    watch: Callable[[str], None],
    max_latency: float | None = None,
) -> Iterator[Outcome]:
    """Measure all configurations within about `seconds`, opening included, grouped by threads and workers.

    Of several cases, latencies and throughputs are geometric means, other figures the largest. `bounds` are
    the largest deviations by precision and of `FEWER`, `max_latency` is the largest p99 in ms. `watch`
    receives progress messages. Raises the errors of the reference, and KeyboardInterrupt after what was
    measured until then.
    """
    deadline = time.monotonic() + seconds
    watch(f"Opening {subject.path}")
    wanted = []
    for arrays in subject.cases:
        with _opened(subject, REFERENCE, arrays) as reference:
            wanted.append(reference.outputs())
    groups = [list(group) for _, group in groupby(contestants, lambda one: (one.threads, one.workers))]
    for index, group in enumerate(groups):
        threads, workers = group[0].threads, group[0].workers
        watch(f"workers x threads: {workers} x {threads} ({index + 1} of {len(groups)})")
        share = (deadline - time.monotonic()) / (len(groups) - index) / len(wanted)
        found: list[list[Outcome]] = [[] for _ in wanted]
        stopped: KeyboardInterrupt | None = None
        try:
            for outcomes, arrays, outputs in zip(found, subject.cases, wanted, strict=True):
                for one in _compete(subject, group, share, arrays, outputs, bounds):
                    outcomes.append(one)
        except KeyboardInterrupt as error:
            stopped = error
        for of_one in zip(*found, strict=stopped is None):
            yield _limited(_together(of_one), max_latency)
        if stopped is not None:
            raise stopped


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    bad = next((one for one in outcomes if one.reason), None)
    measured = [one.measured for one in outcomes if one.measured]
    if len(measured) < len(outcomes):
        return bad or outcomes[0]
    total = Measurement(
        **asdict(outcomes[0].setup),
        latency=geometric_mean(one.latency for one in measured),
        throughput=geometric_mean(one.throughput for one in measured),
        deviation=max(one.deviation for one in measured),
        p99=max(one.p99 for one in measured),
        memory=max(one.memory for one in measured),
    )
    return replace(outcomes[0], measured=total, reason=bad.reason if bad else "")


class _Contestant:
    """An open model of one configuration, and the figures of its turns."""

    def __init__(self, setup: Configuration, model: ModelParallelRunner, arrays: Sequence[Array]) -> None:
        self.setup, self._model, self._arrays = setup, model, arrays
        self.computes_in = model.get_model_info("precision")
        inputs = model.get_inputs()
        shapes = [list(array.shape) for array in arrays]
        if [list(tensor.shape) for tensor in inputs] != shapes:
            model.resize(inputs, shapes)
        clients = 1 if setup.workers == 1 else 2 * setup.workers  # one waits for each that is served
        self._calls = [caller(model, arrays) for _ in range(clients)]
        self._latencies: list[float] = []
        self._throughputs: list[float] = []
        self._times: list[npt.NDArray[np.float64]] = []

    def outputs(self) -> list[Array]:
        return [output.get_data_to_numpy() for output in self._model.predict(list(self._arrays))]

    def turn(self, seconds: float) -> None:
        served(self._calls, RunLimit(0.0, 1))  # warm up: the caches hold another model's data
        clients = served(self._calls, RunLimit(max(seconds, _SHORTEST)))
        figures = throughput(clients)
        self._times += map(milliseconds, clients)
        self._latencies.append(figures.p50)
        self._throughputs.append(figures.per_second)

    @property
    def has_figures(self) -> bool:
        return bool(self._throughputs)

    def measured(self, deviation: float, memory: int) -> Measurement:
        return Measurement(
            **asdict(self.setup),
            latency=median(self._latencies),
            throughput=median(self._throughputs),
            deviation=deviation,
            p99=float(np.percentile(np.concatenate(self._times), 99)),
            memory=memory,
        )


def _compete(
    subject: Subject,
    group: Sequence[Configuration],
    seconds: float,
    arrays: Sequence[Array],
    wanted: Sequence[Array],
    bounds: Mapping[str, float],
) -> Iterator[Outcome]:
    deadline = time.monotonic() + seconds
    failed: dict[Configuration, str] = {}
    deviations: dict[Configuration, float] = {}
    memory: dict[Configuration, int] = {}
    running: list[_Contestant] = []
    stopped: KeyboardInterrupt | None = None
    with ExitStack() as stack:
        for setup in group:
            before = resident()
            try:
                contestant = stack.enter_context(_opened(subject, setup, arrays))
                deviations[setup] = deviation(contestant.outputs(), wanted)
                memory[setup] = max(0, resident() - before)
                running.append(contestant)
            except PinnaceError as error:
                failed[setup] = str(error).removeprefix(f"{subject.path}: ")
        try:
            _take_turns(running, deadline)
        except KeyboardInterrupt as error:
            if not all(contestant.has_figures for contestant in running):
                raise
            stopped = error
    ran = {contestant.setup: contestant for contestant in running}
    for setup in group:
        if setup in failed:
            yield Outcome(setup, reason=failed[setup])
            continue
        bound = bounds[FEWER if setup.form else setup.precision]
        reason = f"deviates by more than {bound:g}" if deviations[setup] > bound else ""
        figures = ran[setup].measured(deviations[setup], memory[setup])
        yield Outcome(setup, figures, ran[setup].computes_in, reason)
    if stopped is not None:
        raise stopped


def _limited(outcome: Outcome, max_latency: float | None) -> Outcome:
    """Return the outcome, refused if its p99 is above `max_latency`."""
    measured = outcome.measured
    if outcome.reason or measured is None or max_latency is None or measured.p99 <= max_latency:
        return outcome
    return replace(outcome, reason=f"its p99 is above {max_latency:g} ms")


def _take_turns(running: Sequence[_Contestant], deadline: float) -> None:
    share = (deadline - time.monotonic()) / (_TURNS * max(1, len(running)))
    with collector_off():
        for turn in range(_TURNS):
            if turn >= _LEAST_TURNS and time.monotonic() > deadline:
                break
            for contestant in running:
                time.sleep(_PAUSE)
                contestant.turn(share - _PAUSE)


@contextmanager
def _opened(subject: Subject, setup: Configuration, arrays: Sequence[Array]) -> Iterator[_Contestant]:
    context = Context()
    context.target = ["cpu"]
    context.cpu.provider, context.cpu.precision_mode = setup.provider, setup.precision
    context.cpu._form = setup.form  # no option: only tunings know it
    context.cpu.thread_num, context.parallel.workers_num = setup.threads, setup.workers
    context.parallel.config_path = subject.config
    with ModelParallelRunner() as model:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.build_from_file(subject.path, context)
        # Skip other warnings, such as Python's about forks in modules that OpenVINO imports.
        messages = [str(one.message) for one in caught if issubclass(one.category, PinnaceWarning)]
        if model.get_model_info("engine").partition(" ")[0] != setup.provider:  # another engine took over
            raise EngineError("; ".join(messages))
        for message in messages:
            warn(message)
        yield _Contestant(setup, model, arrays)
