"""One case: a model is built, and asked what is wrong in some way."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import onnxruntime as ort
from tests.requests.memory import Fences, mark
from tests.requests.models import Subject
from tests.requests.mutate import Feed, mutated

from pinnace import Context, Model, errors
from pinnace.engines.onnxruntime import session

Answer = list[np.ndarray] | str
"""Results, or the name of an error."""


@dataclass
class Tally:
    """What came of the requests of a case."""

    engine: str = ""
    answered: int = 0
    refused: int = 0
    findings: list[str] = field(default_factory=list)


LOOPS = "with loops: "
"""Begins the names of requests for models that may compute for ever."""

Progress = Callable[[str, Feed], None]
"""Gets the name of each request, and the request, before it is sent."""


def tried(
    subject: Subject, engine: str, count: int, seed: list[int], progress: Progress, empty: bool = True
) -> Tally:
    """Build a model and send it requests."""
    rng, tally = np.random.default_rng(seed), Tally()
    label = LOOPS if subject.loops else ""
    progress(f"{subject.name}: build", {})
    try:
        model = _built(subject, engine, arena=bool(rng.random() < 0.5))
    except errors.PinnaceError as error:
        tally.engine = f"refused: {type(error).__name__}"
        return tally
    tally.engine = model.get_model_info("engine").split()[0]
    if tally.engine != engine:
        return tally
    asking = Asking(model, subject.feed)
    for number in range(count):
        request = mutated(rng, subject.feed, empty) if number else subject.feed
        name = f"{label}{subject.name}: request {number}"
        progress(name, request)
        _judge(tally, asking, request, name, bool(rng.random() < 0.7))
    return tally


def _judge(tally: Tally, asking: Asking, request: Feed, name: str, at_end: bool) -> None:
    try:
        first = asking.answer(request, 0, at_end)
        if isinstance(first, str):
            tally.refused += 1
            return
        asking.answer(asking.usual, 1, at_end)
        second = asking.answer(request, 1, at_end)
    except Exception as error:
        tally.findings.append(f"{name}: bare {type(error).__name__}: {error}: {described(request)}")
        return
    tally.answered += 1
    foreign = "then " + second if isinstance(second, str) else difference(first, second)
    if foreign:
        tally.findings.append(f"{name}: foreign numbers: {foreign}: {described(request)}")


class Asking:
    """A model, and the memory in which its requests lie. `usual` is a request that it answers."""

    def __init__(self, model: Model, usual: Feed) -> None:
        self.usual, self._model, self._fences = usual, model, Fences()

    def answer(self, request: Feed, number: int, at_end: bool) -> Answer:
        """The results for a request, with fresh memory full of one of two numbers."""
        arrays = [self._fences.put(i, array, at_end) for i, array in enumerate(request.values())]
        mark(number)
        try:
            return [np.array(output.get_data_to_numpy()) for output in self._model.predict(arrays)]
        except errors.PinnaceError as error:
            return type(error).__name__
        except MemoryError:  # results that are larger than what a case may have
            return "MemoryError"


def _built(subject: Subject, engine: str, arena: bool) -> Model:
    context = Context()
    context.target = ["cpu"]
    context.cpu.thread_num = 1
    context.cpu.provider = engine
    model = Model()
    os.environ["PINNACE_CACHE_DIR"] = "off"
    with warnings.catch_warnings(), patch.object(session, "options", without_arena(arena)):
        warnings.simplefilter("ignore")
        model.build_from_buffer(subject.model, subject.kind, context)
    return model


def without_arena(arena: bool) -> Callable[..., ort.SessionOptions]:
    """The options of a session; without its arena, all that it takes is fresh."""
    options = session.options

    def chosen(*arguments: object) -> ort.SessionOptions:
        found = options(*arguments)
        found.enable_cpu_mem_arena = found.enable_mem_pattern = arena
        return found

    return chosen


def difference(first: list[np.ndarray], second: list[np.ndarray]) -> str:
    """Where two answers differ, "" where they do not."""
    for place, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {place}: {a.dtype}{list(a.shape)} and then {b.dtype}{list(b.shape)}"
        different = np.asarray(a != b)
        if a.dtype.kind in "fcV":
            different &= (a == a) | (b == b)  # no NaN in both
        if different.any():
            at = tuple(np.argwhere(different)[0])
            return f"output {place}: {int(different.sum())} of {a.size}, {a[at]} and then {b[at]} at {at}"
    return ""


def described(request: Feed) -> str:
    """A request in a line."""
    return "; ".join(f"{name} {a.dtype}{list(a.shape)} {_some(a)}" for name, a in request.items())


def _some(array: np.ndarray) -> str:
    return " ".join(str(array.ravel()[:6].tolist()).split())[:100]
