"""Bodies of HTTP requests and responses: their limit and their compression."""

from __future__ import annotations

import asyncio
import gzip
import zlib

from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pinnace.server.failures import TooLargeError

_SMALL = 1024
"""Bytes of a response that are not worth compressing."""
_PATIENCE = 30.0
"""Seconds that a client may take to send a body."""
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class BodyLimit:
    """Gives the application bodies that are whole, decompressed and within a limit."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app, self._limit = app, limit

    @classmethod
    def at(cls, limit: int) -> Middleware:
        """Return the middleware with a limit in bytes."""
        return Middleware(cls, limit=limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").lower()
        try:
            async with asyncio.timeout(_PATIENCE):
                body = await self._body(receive, encoding, int(headers.get(b"content-length", b"0")))
        except TimeoutError:
            refused = 408, f"the request's body was not there after {_PATIENCE:g} s"
        except TooLargeError as error:
            refused = 413, str(error)
        except ValueError as error:
            refused = 400, str(error)
        else:
            if body is not None:  # the client has not gone
                await self._app(scope, _first(body, receive), send)
            return
        status, why = refused
        await JSONResponse({"error": why}, status, {"connection": "close"})(scope, receive, send)

    async def _body(self, receive: Receive, encoding: str, length: int) -> bytes | None:
        """Return a request's body; None if the client goes. Raises TooLargeError and ValueError."""
        if encoding not in ("identity", *_WINDOWS):
            raise ValueError(f"content-encoding {encoding[:20]!r} is not known: send gzip, deflate or none")
        if length > self._limit:
            raise self._too_large()
        parts, taken, more = list[bytes](), 0, True
        unpacked = None if encoding == "identity" else zlib.decompressobj(_WINDOWS[encoding])
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part, more = message.get("body", b""), message.get("more_body", False)
            if unpacked is not None:
                part = self._unpacked(unpacked, part, self._limit - taken)
            taken += len(part)
            if taken > self._limit:
                raise self._too_large()
            parts.append(part)
        if unpacked is not None and not unpacked.eof:
            raise ValueError(f"the body ends before its {encoding} does")
        return b"".join(parts)

    @staticmethod
    def _unpacked(unpacked: zlib._Decompress, part: bytes, room: int) -> bytes:
        try:
            return unpacked.decompress(part, room + 1)
        except zlib.error as error:
            raise ValueError(f"the body is not compressed as its content-encoding says: {error}") from None

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"the request has more than {self._limit} bytes (pinnace serve --max-bytes)")


def _first(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives the body first."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


def compressed(body: bytes, accepted: str) -> tuple[bytes, str]:
    """Return a response's body as the client accepts it, and its encoding, "" for none."""
    names = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
    if len(body) < _SMALL:
        return body, ""
    if "gzip" in names:
        return gzip.compress(body, 1), "gzip"
    if "deflate" in names:
        return zlib.compress(body, 1), "deflate"
    return body, ""
