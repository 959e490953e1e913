"""A contestant as the suite sees it: a process that is asked, and answers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 300  # seconds for an answer


class Failed(Exception):
    """What a contestant could not do, and what it said."""


class Contestant:
    """A process with one library; a context manager that ends it."""

    def __init__(self, python: Path, script: Path) -> None:
        own = script.stem == "with_pinnace"
        hidden = () if own else ("PYTHONPATH",)  # ours is nothing for another Python
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (close does)
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            env=environment | {"GLOG_v": "3"},  # mindspore_lite: errors only
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a command of `contestants/serving.py`. Raises `Failed`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watch = threading.Timer(PATIENCE, self._process.kill)
        watch.start()
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            raise Failed(f"{do}: the process ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise Failed(f"{do}: {answer['failed']}")
        return answer

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().strip().splitlines()
        return lines[-1][:300] if lines else f"status {self._process.wait()}"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()
