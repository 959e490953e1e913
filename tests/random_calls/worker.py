"""A side that answers many requests, started anew when it ends or takes too long."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.zoo.talk import Failed, Side


class Worker:
    """One side; `requests` is after how many it is started anew, for what MindSpore keeps of all graphs."""

    def __init__(self, command: Sequence[str], log: Path, requests: int = 0, seconds: float = 60) -> None:
        self._command, self._log, self._requests, self._seconds = command, log, requests, seconds
        self._side: Side | None = None
        self._asked = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process."""
        if self._side is not None:
            self._side.end()
        self._side = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. Raises `Failed`; the next request starts another process."""
        if self._requests and self._asked >= self._requests:
            self.end()
        if self._side is None:
            self._start()
        self._asked += 1
        try:
            return self._side.ask(self._seconds + (60 if self._asked == 1 else 0), request)
        except Failed:
            self.end()
            raise

    def _start(self) -> None:
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
        settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOG_v": "4", "PINNACE_CACHE_DIR": "off"}
        self._side = Side(self._command, self._log, os.environ | settings)
        self._asked = 0
