"""Cases in child processes: what kills one is seen, and has a number."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from tests.random_graphs.dress import Case
from tests.random_graphs.judge import Turn, Verdict, judge

SECONDS = 60
_BATCH = 250

Judge = Callable[[int, Callable[[str], None]], Verdict]
"""Judges a case by its number; tells the stage it is in."""


def run(numbers: Iterable[int], judged: Judge) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of cases, some hundred in a process."""
    left = list(numbers)
    while left:
        batch, left = left[:_BATCH], left[_BATCH:]
        done = 0
        for number, verdict in _batch(batch, judged):
            done += 1
            yield number, verdict
        left = batch[done:] + left


def both_turns(
    numbers: Iterable[int], case: Callable[[int], Case], first: Turn
) -> Iterator[tuple[Turn, int, Verdict]]:
    """The verdicts of cases that are compiled, then of those that ran, loaded by other processes."""
    ran: list[int] = []
    for turn, cases in ((first, numbers), (first._replace(loads=True), ran)):
        for number, verdict in run(cases, lambda number, stage, turn=turn: judge(case(number), turn, stage)):
            if verdict.engine and not turn.loads:
                ran.append(number)
            yield turn, number, verdict


def alone(judged: Callable[[Callable[[str], None]], Verdict]) -> Verdict:
    """The verdict of one case, in a process of its own."""
    (found,) = _batch([0], lambda _, stage: judged(stage))
    return found[1]


def _batch(numbers: list[int], judged: Judge) -> Iterator[tuple[int, Verdict]]:
    """Verdicts of one child; the last is that of the case it died of, where it did."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile("w+") as log:
        child = os.fork()
        if not child:
            os.close(reader)
            _child(numbers, judged, os.fdopen(writer, "w", buffering=1), log)
        os.close(writer)
        stage, done = "", 0
        with os.fdopen(reader) as lines:
            for line in lines:
                answer: Any = json.loads(line)
                if isinstance(answer, str):
                    stage = answer
                else:
                    yield numbers[done], Verdict(*answer)
                    done += 1
        _, status = os.waitpid(child, 0)
        if done < len(numbers):
            code = os.waitstatus_to_exitcode(status)
            log.seek(0)
            text = f"{signal.Signals(-code).name if code < 0 else code} {log.read()[-2000:]}"
            kind = ("hung" if -code == signal.SIGALRM else "crashed") if stage == "pinnace" else "uncounted"
            yield numbers[done], Verdict(kind, f"{stage}: {text}")


def _child(numbers: list[int], judged: Judge, out: TextIO, log: TextIO) -> None:
    os.dup2(log.fileno(), 2)

    def say(what: object) -> None:
        out.write(json.dumps(what) + "\n")

    for number in numbers:
        signal.alarm(SECONDS)  # its default action ends the process, whatever that is in
        say("draft")
        try:
            verdict = judged(number, say)
        except Exception as error:  # a mistake of ours, here or in Pinnace
            import traceback

            verdict = Verdict("crashed", "".join(traceback.format_exception(error))[-2000:])
        say(verdict)
    out.flush()
    os._exit(0)
