"""Trials in child processes: what kills one is seen, and has a number."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.fuzz.trial import MEMORY, outcome, trial

SECONDS = 10  # of computing, before a trial counts as one that never ends; of sleeping six times as many
_BATCH = 500


@dataclass(frozen=True)
class Result:
    """How one trial ended. `trouble` is "" or the trace of a finding.

    Memory is the peak of its process, and by how much this trial raised it.
    """

    number: int
    outcome: str
    trouble: str
    seconds: float
    peak_bytes: int
    grown_bytes: int


def run(first: int, count: int, show: Callable[[Result], None], engine: bool = False) -> None:
    """Run trials one after the other, some hundred in a process, and show how each ended.

    `engine`: build the engine in all of them.
    """
    number, end = first, first + count
    while number < end:
        number = _batch(number, min(number + _BATCH, end), show, engine)


def _batch(first: int, end: int, show: Callable[[Result], None], engine: bool) -> int:
    """Trials in one child; returns the number of the next, which is sooner than `end` where one died."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile("w+") as log:
        # A fork has all modules and the corpus already; the engine has made no threads here.
        child = os.fork()
        if not child:
            os.close(reader)
            _child(range(first, end), os.fdopen(writer, "w", buffering=1), log, engine)
        os.close(writer)
        number, started = first, time.monotonic()
        with os.fdopen(reader) as lines:
            for line in lines:
                name, peak, grown, *trouble = line.rstrip("\n").split("\t")
                text = trouble[0].replace("\v", "\n") if trouble else ""
                now = time.monotonic()
                show(Result(number, name, text, now - started, int(peak), int(grown)))
                number, started = number + 1, now
        _, status = os.waitpid(child, 0)
        if number < end:
            log.seek(0)
            code = os.waitstatus_to_exitcode(status)
            how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            show(Result(number, "died", f"{how}\n{log.read()[-4000:]}", time.monotonic() - started, 0, 0))
            number += 1
    return number


def _child(numbers: Iterable[int], out: IO[str], log: IO[str], engine: bool) -> None:
    """Run the trials of one child and end the process."""
    os.dup2(log.fileno(), 2)
    faulthandler.enable(log)
    faulthandler.register(signal.SIGPROF, log, chain=True)  # and then the signal ends the process
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    for number in numbers:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        faulthandler.dump_traceback_later(6 * SECONDS, exit=True, file=log)
        before = _peak()
        name, trouble = _tried(number, engine)
        peak = _peak()
        out.write(f"{name}\t{peak}\t{peak - before}\t{trouble}\n".replace("\t\n", "\n"))
    out.flush()
    os._exit(0)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _tried(number: int, engine: bool) -> tuple[str, str]:
    try:
        case = trial(number, engine)
        result = outcome(case.data, case.model_type, case.folder, case.with_engine)
        return f"{case.family} {result}", ""
    except BaseException:
        return "trouble", traceback.format_exc().replace("\n", "\v").replace("\t", " ")
