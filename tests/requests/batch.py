"""Cases in child processes: what ends one is seen, with the number of the request."""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO

import numpy as np
from tests.requests.mutate import Feed
from tests.requests.trial import LOOPS, Progress, Tally

SECONDS = 20  # of computing, before a build or a request counts as one that never ends
_MEMORY = 3 << 30
_BATCH = 40

Trial = Callable[[int, Progress], Tally]
"""Tries a case by its number."""


def run(numbers: range, trial: Trial) -> Iterator[tuple[int, Tally]]:
    """The tallies of cases, some in a process; that of a case that ended its process says so."""
    first = numbers.start
    while first < numbers.stop:
        for number, tally in _batch(range(first, min(first + _BATCH, numbers.stop)), trial):
            yield number, tally
            first = number + 1


def _batch(numbers: range, trial: Trial) -> Iterator[tuple[int, Tally]]:
    reader, writer = os.pipe()
    at = mmap.mmap(-1, mmap.PAGESIZE)
    with tempfile.TemporaryFile("w+") as log:
        child = os.fork()
        if not child:
            os.close(reader)
            _child(numbers, trial, os.fdopen(writer, "w", buffering=1), log, at)
        os.close(writer)
        done = 0
        with os.fdopen(reader) as lines:
            for line in lines:
                yield numbers[done], Tally(**json.loads(line))
                done += 1
        _, status = os.waitpid(child, 0)
        if done < len(numbers):
            log.seek(0)
            yield numbers[done], _ended(os.waitstatus_to_exitcode(status), at, log.read()[-1500:])


def _ended(code: int, at: mmap.mmap, output: str) -> Tally:
    name, how = at.readline().decode().strip(), signal.Signals(-code).name if code < 0 else f"status {code}"
    if -code == signal.SIGPROF and name.startswith(LOOPS):
        return Tally("too many rounds of a loop")
    kind = "hung" if -code == signal.SIGPROF else "ended the process"
    return Tally("ended", findings=[f"{name}: {kind}: {how} {output}"])


def _child(numbers: range, trial: Trial, out: IO[str], log: IO[str], at: mmap.mmap) -> None:
    def say(name: str, request: Feed) -> None:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its default action ends the process
        line = name.encode()[:1000] + b"\n"
        at[: len(line)] = line

    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    np.seterr(all="ignore")
    for number in numbers:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            tally = trial(number, say)
        except Exception:  # a mistake of ours, here or in Pinnace
            tally = Tally("raised", findings=[traceback.format_exc()[-1500:]])
        out.write(json.dumps(asdict(tally)) + "\n")
    out.flush()
    os._exit(0)
