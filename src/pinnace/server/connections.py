"""Connections of HTTP clients, and their limits: their number, the size of a head, the time to send it."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE = 30.0
"""Seconds that a client may take to send a head, and then to send a body."""
_LONGEST = 1 << 16
"""Bytes of a head."""


class Connection(HttpToolsProtocol):
    """A connection that is refused if there are `limit_concurrency`, and closed if a head is long or late.

    What is neither head nor body counts as head: fields behind the body, and the lengths of chunks, of which
    a body in single bytes needs five times its size. A body that comes after its answer has as long as a
    head, and is thrown away: a client that is cut off while it sends would not see the answer.
    """

    _messages = _head = _body = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._refuse("503 Service Unavailable")
        else:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        messages, body = self._messages, self._body
        super().data_received(data)
        if messages == self._messages:  # else it is the beginning of a head
            self._head += len(data) - (self._body - body)
            if self._head > _LONGEST + 8 * self._body:
                self._refuse("431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        self._messages, self._head, self._body = self._messages + 1, 0, 0
        self._expect()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._expect_nothing()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle.response_complete:
            self._expect()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.more_body and self.expect_100_continue and not self._body:
            self.transport.close()  # nobody knows whether the body will come
        elif self.cycle.more_body:
            self._expect()

    def _expect(self) -> None:
        """Wait for a head, or for the end of a body, but not for long."""
        self._expect_nothing()
        self._late = self.loop.call_later(PATIENCE, self._refuse, "408 Request Timeout")

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _refuse(self, status: str) -> None:
        """Close the connection, with an answer unless another one is under way or was given."""
        if self.cycle is None:
            self.transport.write(
                f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
            )
        self.transport.close()
