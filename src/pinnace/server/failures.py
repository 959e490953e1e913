"""Failures of requests: what clients are told, over HTTP and over gRPC."""

from __future__ import annotations

from typing import NamedTuple

from pinnace.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DataMismatchError,
    DeviceUnavailableError,
    ModelStateError,
    NotSupportedError,
    PinnaceError,
    PredictTimeoutError,
    QueueFullError,
)


class RequestError(PinnaceError, ValueError):
    """A request that breaks the protocol."""


class UnknownModelError(PinnaceError, LookupError):
    """A request for a model or version that the repository does not have."""


class LoadError(PinnaceError, RuntimeError):
    """A model that cannot be loaded as a client asks; INTERNAL over gRPC, as Triton's clients expect."""


class UnavailableError(PinnaceError, RuntimeError):
    """A model that exists and cannot answer now: it is not loaded, or the server ends."""

    _lines = True  # those of the error that kept it from being opened


class AccessError(PinnaceError, PermissionError):
    """A request without a token of the server's."""


class ScopeError(AccessError):
    """A request with a token whose scopes do not suffice."""


class TooLargeError(PinnaceError, ValueError):
    """A request that is larger than the server takes."""


class LateError(PinnaceError, TimeoutError):
    """A request that is sent too slowly."""


class Answer(NamedTuple):
    """The answer to a failure: the status of HTTP, the name of gRPC's code, the cause in metrics."""

    status: int
    code: str
    cause: str


_ANSWERS: tuple[tuple[type[Exception], Answer], ...] = (
    (QueueFullError, Answer(429, "RESOURCE_EXHAUSTED", "queue full")),
    (PredictTimeoutError, Answer(504, "DEADLINE_EXCEEDED", "timeout")),
    (TooLargeError, Answer(413, "RESOURCE_EXHAUSTED", "too large")),
    (LateError, Answer(408, "DEADLINE_EXCEEDED", "too slow")),
    (UnknownModelError, Answer(404, "NOT_FOUND", "unknown model")),
    (RequestError, Answer(400, "INVALID_ARGUMENT", "invalid")),
    (ArgumentTypeError, Answer(400, "INVALID_ARGUMENT", "invalid")),
    (ArgumentValueError, Answer(400, "INVALID_ARGUMENT", "invalid")),
    (DataMismatchError, Answer(400, "INVALID_ARGUMENT", "invalid")),
    (NotSupportedError, Answer(501, "UNIMPLEMENTED", "not supported")),
    (UnavailableError, Answer(503, "UNAVAILABLE", "unavailable")),
    (ModelStateError, Answer(503, "UNAVAILABLE", "unavailable")),
    (DeviceUnavailableError, Answer(503, "UNAVAILABLE", "unavailable")),
    (ScopeError, Answer(403, "PERMISSION_DENIED", "access")),
    (AccessError, Answer(401, "UNAUTHENTICATED", "access")),
)
_FAULT = Answer(500, "INTERNAL", "engine")
GONE = "cancelled"
"""The cause of a request whose client did not wait for the answer."""


def answer(error: Exception) -> Answer:
    """Return how an error is told to the client."""
    return next((found for kind, found in _ANSWERS if isinstance(error, kind)), _FAULT)
