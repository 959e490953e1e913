"""Calls of clients through either door, and the event in the log with which each ends."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter

from pinnace.errors import PinnaceError, PredictTimeoutError
from pinnace.log import DEBUG, ERROR, WARNING, Log
from pinnace.server.failures import GONE, Answer, answer

_LONGEST = 100
"""Characters of a client's text that the log has."""
_ERROR = 2000
"""Bytes of an error that a client is told: gRPC writes three for one, and refuses more than 8 KB."""
_log = Log("pinnace.server")


class Call:
    """A call from its arrival on; `model`, `version` and `id` are filled in once they are known."""

    def __init__(self, name: str, headers: Mapping[str, str], limit: float = math.inf) -> None:
        """`name` is that of the route or method; `limit` is the seconds from now that the client waits."""
        self.name, self.headers, self.limit = name, headers, limit
        self.model = self.version = self.id = ""
        self._start = perf_counter()

    @property
    def seconds(self) -> float:
        """The time since its arrival."""
        return perf_counter() - self._start

    def within(self, limit: float) -> None:
        """Let the client wait for at most `limit` seconds from now."""
        self.limit = min(self.limit, self.seconds + limit)

    @property
    def left(self) -> float | None:
        """The seconds that the client still waits, above 0; None if it sets no limit."""
        return None if self.limit == math.inf else max(self.limit - self.seconds, 1e-6)

    def check(self) -> None:
        """Raise PredictTimeoutError if its client waits no longer."""
        if self.seconds > self.limit:
            raise PredictTimeoutError("the request's time was over before it was computed")

    def answered(self) -> None:
        """Log it at level DEBUG."""
        self._ended(DEBUG, "answered", "answered")

    def gone(self) -> None:
        """Log that its client did not wait for the answer."""
        self._ended(WARNING, "request failed", "its client has gone", cause=GONE)

    def failed(self, error: Exception) -> tuple[Answer, str]:
        """Log a failure, and return what to tell the client; only the log explains an unforeseen one."""
        failure, foreseen = answer(error), isinstance(error, PinnaceError)
        text = str(error) if foreseen else "the server failed; its log says why"
        level = ERROR if failure.status >= 500 else WARNING
        self._ended(level, "request failed", text, None if foreseen else error, cause=failure.cause)
        return failure, text.encode(errors="replace")[:_ERROR].decode(errors="ignore")

    def _ended(
        self, level: int, event: str, text: str, error: Exception | None = None, **more: object
    ) -> None:
        if _log.seen(level):
            client = {"model": self.model, "version": self.version, "request_id": self.id}
            fields = {name: value[:_LONGEST] for name, value in client.items() if value}
            message = f"{self.name}: {text}"
            _log.event(level, event, message, error, call=self.name, seconds=self.seconds, **fields, **more)


def continued(headers: Mapping[str, str]) -> AbstractContextManager[None]:
    """Let the spans of the block be below the one that headers name (`traceparent`), if there are spans."""
    return _continued(headers) if "pinnace.tracing" in sys.modules else nullcontext()


@contextmanager
def _continued(headers: Mapping[str, str]) -> Iterator[None]:
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)
