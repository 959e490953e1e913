"""A process that answers lines of JSON, started anew when it ends or takes too long."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Ended(Exception):
    """The process ended or took too long; the next request starts another."""


class Worker:
    """One side; `requests` is after how many it is started anew, for what MindSpore keeps of all graphs."""

    def __init__(self, command: Sequence[str], log: Path, requests: int = 0, seconds: float = 60) -> None:
        self._command, self._log, self._requests, self._seconds = command, log, requests, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
        self._process = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. Raises `Ended`."""
        if self._requests and self._asked >= self._requests:
            self.end()
        if self._process is None:
            self._start()
        self._asked += 1
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            return json.loads(self._line())
        except (BrokenPipeError, Ended) as error:
            self.end()
            raise Ended(str(error)) from None

    def _start(self) -> None:
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
        settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOG_v": "4", "PINNACE_CACHE_DIR": "off"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | settings,
                cwd=self._log.parent,
            )
        self._asked = 0

    def _line(self) -> bytes:
        pipe, line = self._process.stdout, b""
        deadline = time.monotonic() + self._seconds + (60 if self._asked == 1 else 0)
        while not line.endswith(b"\n"):
            if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Ended(f"no answer in {self._seconds:.0f} s")
            read = os.read(pipe.fileno(), 1 << 20)
            if not read:
                raise Ended(f"ended with status {self._process.wait()}")
            line += read
        return line
