"""Loggers of events, whose messages nobody sees by default, so that most processes need not import `logging`
(3 ms).
"""

from __future__ import annotations

import sys
from typing import Any

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""Levels, as in `logging`."""


class Log:
    """The logger of a name, once somebody has imported `logging`: handlers and levels come from there.

    An event has a name, a message for people, and fields. All but the message are attributes of the
    `LogRecord`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: Any = None

    def seen(self, level: int) -> bool:
        """Return True if somebody wants events of this level."""
        if self._logger is None:
            if "logging" not in sys.modules:
                return False
            import logging

            self._logger = logging.getLogger(self._name)
            if not self._logger.handlers:
                self._logger.addHandler(logging.NullHandler())  # otherwise Python prints warnings
        return bool(self._logger.isEnabledFor(level))

    def event(
        self, level: int, event: str, message: str, error: BaseException | None = None, /, **fields: object
    ) -> None:
        """Log an event, with the traceback of an error."""
        if self.seen(level):
            extra = {"event": event, **fields}
            self._logger.log(level, message, extra=extra, exc_info=error, stacklevel=2)
