"""The answers to failures: the status of HTTP, gRPC's code, the cause in metrics."""

from __future__ import annotations

import pytest

from pinnace import errors
from pinnace.server import failures
from pinnace.server.failures import answer

# google.rpc.Code's mapping of gRPC's codes to HTTP, but 413 and 408 of RFC 9110 where it is more exact
FAILURES = [
    (errors.QueueFullError("x"), 429, "RESOURCE_EXHAUSTED", "queue full"),
    (errors.PredictTimeoutError("x"), 504, "DEADLINE_EXCEEDED", "timeout"),
    (failures.TooLargeError("x"), 413, "RESOURCE_EXHAUSTED", "too large"),
    (failures.LateError("x"), 408, "DEADLINE_EXCEEDED", "too slow"),
    (failures.UnknownModelError("x"), 404, "NOT_FOUND", "unknown model"),
    (failures.RequestError("x"), 400, "INVALID_ARGUMENT", "invalid"),
    (errors.ArgumentTypeError("x"), 400, "INVALID_ARGUMENT", "invalid"),
    (errors.ArgumentValueError("x"), 400, "INVALID_ARGUMENT", "invalid"),
    (errors.DataMismatchError("x"), 400, "INVALID_ARGUMENT", "invalid"),
    (errors.NotSupportedError("x"), 501, "UNIMPLEMENTED", "not supported"),
    (failures.UnavailableError("x"), 503, "UNAVAILABLE", "unavailable"),
    (errors.ModelStateError("x"), 503, "UNAVAILABLE", "unavailable"),
    (errors.DeviceUnavailableError("x"), 503, "UNAVAILABLE", "unavailable"),
    (failures.AccessError("x"), 401, "UNAUTHENTICATED", "access"),
    (failures.ScopeError("x"), 403, "PERMISSION_DENIED", "access"),
    (failures.LoadError("x"), 500, "INTERNAL", "engine"),
    (errors.EngineError("x"), 500, "INTERNAL", "engine"),
    (ValueError("x"), 500, "INTERNAL", "engine"),
]


@pytest.mark.parametrize(("error", "status", "code", "cause"), FAILURES, ids=lambda one: type(one).__name__)
def test_each_failure_has_its_status_code_and_cause(error, status, code, cause):
    assert answer(error) == (status, code, cause)
