"""The log on stderr that `PINNACE_LOG` and `pinnace --log` ask for: as text, or as a line of JSON per event.

Processes that this one starts inherit the variable, and log likewise.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from pinnace.errors import warn
from pinnace.escaping import plain
from pinnace.log import ERROR, WARNING, Log
from pinnace.options.launcher import launched

if TYPE_CHECKING:
    from logging import Formatter, LogRecord
    from types import TracebackType

VARIABLE = "PINNACE_LOG"
FORMATS = TEXT, JSON = ("text", "json")
_log = Log("pinnace.process")


def is_json() -> bool:
    """Return True if stderr has events as JSON, and nothing else."""
    return os.environ.get(VARIABLE) == JSON


def start() -> None:
    """Write what Pinnace logs at INFO and above to stderr, if the variable says so.

    With JSON, warnings, uncaught exceptions, and all else that Python writes to stderr become events too.
    """
    chosen = os.environ.get(VARIABLE)
    if not chosen or sys.stderr is None or isinstance(sys.stderr, _Lines):
        return
    if chosen not in FORMATS:
        warn(f"{VARIABLE}={chosen} has no effect: choose from {', '.join(FORMATS)}")
        return
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(chosen))
    logger = logging.getLogger("pinnace")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    if chosen == JSON:
        import warnings

        logging.lastResort = handler  # warnings of loggers that nobody configured
        sys.excepthook, warnings.showwarning = _uncaught, _warned
        sys.stderr = _Lines(sys.stderr)


def print_faults() -> None:
    """Write errors that nobody foresaw, with their tracebacks, to stderr, unless there is a log."""
    if os.environ.get(VARIABLE) not in FORMATS:
        import logging

        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_formatter(TEXT))
        handler.addFilter(lambda record: bool(record.exc_info))
        logging.getLogger("pinnace").addHandler(handler)


def print_warnings(name: str) -> None:
    """Print warnings on stderr, in one line after a name, unless they become events."""
    if not is_json():
        import warnings

        warnings.showwarning = lambda message, *_: print(f"{name}: {message}", file=sys.stderr)


def as_event(line: str, event: str, **fields: object) -> str:
    """Return a line of another process's stderr as an event: as it is if it is one, else as its message."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "event" not in found:
        import logging

        given = {"name": "pinnace.process", "levelname": "INFO", "event": event, **fields}
        found = _fields(logging.makeLogRecord({"msg": line.rstrip("\n"), **given}))
    return json.dumps({**found, **fields}, default=str)


class _Lines(io.TextIOBase):
    """A stderr whose lines become events."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._rest = stream, ""

    def write(self, text: str) -> int:
        """Log the lines that are complete; those that are events already pass."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            print(as_event(line, "stderr"), file=self._stream, flush=True)
        return len(text)

    def flush(self) -> None:
        """Log a line that was not ended, as at the end of the process."""
        if self._rest:
            self.write("\n")

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def __getattr__(self, name: str) -> Any:
        """Return what a stream has besides, such as its buffer."""
        return getattr(self._stream, name)


def _formatter(chosen: str) -> Formatter:
    import logging

    class JsonLines(logging.Formatter):
        def format(self, record: LogRecord) -> str:
            fields = _fields(record)
            if record.exc_info:
                fields["traceback"] = self.formatException(record.exc_info)
            return json.dumps(fields, default=str)

    class TextLines(logging.Formatter):
        def formatMessage(self, record: LogRecord) -> str:
            record.message = plain(record.message)  # names in it begin no lines
            return super().formatMessage(record)

    text = TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    return JsonLines() if chosen == JSON else text


def _fields(record: LogRecord) -> dict[str, Any]:
    """Return what an event says: time, rank of a process that has one, and the record's own fields."""
    import logging
    from datetime import datetime

    rank = launched("rank", -1)
    standard = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    return {
        "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
        "level": record.levelname,
        "logger": record.name,
        "event": "log",
        **({"rank": rank} if rank >= 0 else {}),
        **{name: value for name, value in vars(record).items() if name not in standard},
        "message": record.getMessage(),
    }


def _warned(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    """Log a warning, in the place of `warnings.showwarning`."""
    _log.event(WARNING, "warning", str(message), category=category.__name__, file=filename, line=lineno)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log the exception that ends the process, in the place of `sys.excepthook`."""
    _log.event(ERROR, "error", str(error), error, kind=kind.__name__)
