"""Bodies of HTTP requests and responses: their limit and their compression."""

from __future__ import annotations

import asyncio
import gzip
import zlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pinnace.server.connections import PATIENCE
from pinnace.server.failures import LateError, RequestError, TooLargeError

MAX_BYTES = 1 << 28
"""Bytes of a request that are taken by default."""
_SMALL = 1024
"""Bytes of a response that are not worth compressing."""
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def limited(app: ASGIApp, limit: int) -> ASGIApp:
    """Give an application bodies that are decompressed, within a limit, and there in time.

    A body is read when the application asks for it: not before it has checked who asks.
    """

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, _Body(scope, receive, limit) if scope["type"] == "http" else receive, send)

    return handle


class _Body:
    """The messages of a body. Raises TooLargeError, LateError, and RequestError for damaged compression."""

    def __init__(self, scope: Scope, receive: Receive, limit: int) -> None:
        headers = dict(scope["headers"])
        self._encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").lower()
        self._length = int(headers.get(b"content-length", b"0"))
        self._receive, self._limit, self._sent, self._taken, self._ended = receive, limit, 0, 0, False
        self._deadline = asyncio.get_running_loop().time() + PATIENCE
        window = _WINDOWS.get(self._encoding)
        self._unpacked = zlib.decompressobj(window) if window else None

    async def __call__(self) -> Message:
        if self._ended:
            return await self._receive()  # that the client goes
        if self._encoding not in ("identity", *_WINDOWS):
            raise RequestError(
                f"content-encoding {self._encoding[:20]!r} is not known: send gzip, deflate or none"
            )
        if self._length > self._limit:
            raise self._too_large()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise LateError(f"the request's body was not there after {PATIENCE:g} s") from None
        if message["type"] != "http.request":
            return message
        part, self._ended = message.get("body", b""), not message.get("more_body", False)
        self._sent += len(part)
        if self._unpacked is not None:
            part = await asyncio.to_thread(self._plain, part)  # a few bytes may become many, and many none
        self._taken += len(part)
        if max(self._sent, self._taken) > self._limit:
            raise self._too_large()
        if self._ended and self._unpacked is not None and not self._unpacked.eof:
            raise RequestError(f"the body ends before its {self._encoding} does")
        return {"type": "http.request", "body": part, "more_body": not self._ended}

    def _plain(self, part: bytes) -> bytes:
        assert self._unpacked is not None
        try:
            plain = self._unpacked.decompress(part, self._limit - self._taken + 1)
        except zlib.error as error:
            raise RequestError(f"the body is not compressed as its content-encoding says: {error}") from None
        if self._unpacked.unused_data:
            raise RequestError(f"the body goes on where its {self._encoding} ends: send one stream")
        return plain

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"the request has more than {self._limit} bytes (pinnace serve --max-bytes)")


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
