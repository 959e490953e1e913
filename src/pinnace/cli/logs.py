"""The log of a command, on stderr: as text, or as lines of JSON for programs that collect logs."""

from __future__ import annotations

import json
import logging
from enum import StrEnum


class LogFormat(StrEnum):
    """Formats of `--log`."""

    TEXT = "text"
    JSON = "json"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(line)


def start(chosen: LogFormat) -> None:
    """Write what Pinnace logs at INFO and above to stderr."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_JsonLines() if chosen is LogFormat.JSON else text)
    logger = logging.getLogger("pinnace")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
