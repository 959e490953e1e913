"""Fields of a request's JSON, of the type that the protocol says. Functions raise RequestError."""

from __future__ import annotations

import json
from typing import Any

import orjson

from pinnace.server.failures import RequestError, TooLargeError

LONGEST = 1 << 26
"""Bytes of JSON, which takes up to 25 times its size in memory, and of gRPC's messages but for raw bytes."""
_MOST = 4096
"""Inputs or outputs."""


def parsed(data: bytes | memoryview) -> dict[str, Any]:
    if len(data) > LONGEST:
        raise TooLargeError(
            f"the request has {len(data)} bytes of JSON: at most {LONGEST} are taken; send tensors as raw "
            f"bytes (binary_data_size)"
        )
    try:
        found = orjson.loads(data)
    except ValueError:
        found = _parsed_with_nan(data)
    if not isinstance(found, dict):
        raise RequestError("the request must be a JSON object")
    return found


def _parsed_with_nan(data: bytes | memoryview) -> Any:
    """Parse JSON in which NaN and Infinity may be numbers, as Triton's clients write them."""
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the request is not JSON: {error}") from None


def objects(head: dict[str, Any], key: str, needed: bool = True) -> list[dict[str, Any]]:
    found = items(head, key) if needed or key in head else []
    check_count(key, len(found))
    if not all(isinstance(one, dict) for one in found):
        raise RequestError(f"{key} must be a list of objects")
    return found


def check_count(what: str, count: int) -> None:
    """Raise TooLargeError for more inputs or outputs than any model has."""
    if count > _MOST:
        raise TooLargeError(f"the request has {count} {what}: at most {_MOST} are taken")


def items(head: dict[str, Any], key: str) -> list[Any]:
    found = head.get(key)
    if not isinstance(found, list):
        raise RequestError(f"{key} must be a list")
    return found


def mapping(head: dict[str, Any], key: str) -> dict[str, Any]:
    found = head.get(key, {})
    if not isinstance(found, dict):
        raise RequestError(f"{key} must be an object")
    return found


def whole(head: dict[str, Any], key: str) -> int:
    found = head.get(key, 0)
    if type(found) is not int:
        raise RequestError(f"{key} must be a whole number")
    return found


def text(head: dict[str, Any], key: str, default: str | None = None) -> str:
    found = head.get(key, default)
    if not isinstance(found, str):
        raise RequestError(f"{key} must be text")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise RequestError(f"{key} has half a surrogate pair, which is no character") from None
    return found
