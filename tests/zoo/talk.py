"""How the runner talks to a side: a process that answers each line with one line of JSON, in bounded time."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


class Failed(Exception):
    """The side ended, or took too long."""


class Side:
    """A running side, seen from the runner."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            cwd=log.parent,
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()

    def next(self, seconds: float) -> Answer:
        """The answer that is due."""
        pipe = self._process.stdout
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Failed(f"no answer in {seconds:.0f} s")
            read = os.read(pipe.fileno(), 1 << 20)
            if not read:
                raise Failed(f"ended with status {self._process.wait()}")
            line += read
        return json.loads(line)

    def ask(self, seconds: float, request: object = None) -> Answer:
        """Ask for another answer, and wait for it."""
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError as error:
            raise Failed(str(error)) from None
        return self.next(seconds)


def serve(first: Callable[[], Answer], further: Callable[[], Answer]) -> None:
    """Be a side: say what `first` gives, then what `further` gives for each line of the standard input.

    What libraries print goes to the standard error. An answer with "stop" is the last.
    """
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)
        answer = first()
        print(json.dumps(answer), file=out)
        for _ in sys.stdin:
            if "stop" in answer:
                break
            print(json.dumps(further()), file=out)
    os._exit(0)  # MindSpore's own end takes seconds, and may fail


def seconds_of(call: Callable[[], object], at_least: float = 0.2) -> float:
    """Median time of one call, of as many as fill `at_least` seconds."""
    times: list[float] = []
    while sum(times) < at_least or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
