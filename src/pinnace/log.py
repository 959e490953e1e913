"""Loggers whose messages nobody sees by default, so that most processes need not import `logging` (3 ms)."""

from __future__ import annotations

import sys
from typing import Any


class Log:
    """The logger of a name, once somebody has imported `logging`: handlers and levels come from there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        """Return a method of the logger, before that a function that does nothing."""
        if "logging" not in sys.modules:
            return _unseen
        import logging

        logger = logging.getLogger(self._name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # otherwise Python prints warnings
        return getattr(logger, method)


def _unseen(*_: object) -> None:
    pass
