"""Trials in child processes: what ends one is seen, and costs the rest of no other call."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import TextIO

_BATCH, SECONDS = 50, 10

Trials = Callable[[int], Iterator[tuple[object, Callable[[], str]]]]
"""The trials of a call by its number: a label for each, and what tries it."""


def run(count: int, trials: Trials) -> Iterator[tuple[int, object, str]]:
    """Yield number, label and verdict of each trial; a trial that ends its process has "ended: SIGNAL"."""
    number = trial = 0
    while number < count:
        stop, began = min(number + _BATCH, count), None
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            _child(range(number, stop), trial, trials, os.fdopen(writer, "w", buffering=1))
        os.close(writer)
        with os.fdopen(reader) as lines:
            for line in lines:
                which, place, label, verdict = json.loads(line)
                began = which, place, label
                if verdict:
                    yield which, label, verdict
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not code or began is None:
            number, trial = stop, 0
            continue
        which, place, label = began
        yield which, label, f"ended: {signal.Signals(-code).name if code < 0 else code}"
        number, trial = (which + 1, 0) if place < 0 else (which, place + 1)


def _child(numbers: range, first: int, trials: Trials, out: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number in numbers:
        out.write(json.dumps((number, -1, None, "")) + "\n")
        signal.alarm(6 * SECONDS)
        for place, (label, tried) in enumerate(trials(number)):
            signal.alarm(SECONDS)
            if number > numbers[0] or place >= first:
                out.write(json.dumps((number, place, label, "")) + "\n")
                out.write(json.dumps((number, place, label, tried())) + "\n")
    out.flush()
    os._exit(0)
