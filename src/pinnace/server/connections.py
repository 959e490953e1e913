"""Connections of HTTP clients, and their limits: their number, the size of a head, the time to send it."""

from __future__ import annotations

import asyncio

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE = 30.0
"""Seconds that a client may take to send a head, and then to send a body, and to read part of an answer."""
_LONGEST = 1 << 16
"""Bytes of a head."""


class Connection(HttpToolsProtocol):
    """A connection that is refused if there are `limit_concurrency`, and closed if a head is long or late, or
    if an answer is not read.

    What is neither head nor body counts as head: fields behind the body, and the lengths of chunks, of which
    a body in single bytes needs five times its size. A body that comes after its answer has as long as a
    head, and is thrown away: a client that is cut off while it sends would not see the answer.

    A request to change to another protocol, such as the h2c of Java's HttpClient, is answered in this one.
    """

    _head = _body = _bodies = _unread = 0
    _new = False
    _late: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._refuse("503 Service Unavailable")
        else:
            self._expect()
        self._check_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._reader.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.timeout_keep_alive_task is not None:
            self._expect()
            self._unset_keepalive_if_required()
        self._new, body = False, self._bodies
        try:
            self._parse(memoryview(data))
        except (HttpParserError, HttpParserUpgrade):
            self.send_400_response("Invalid HTTP request received.")
            return
        self._head = (0 if self._new else self._head) + len(data) - (self._bodies - body)
        if self._head > _LONGEST + 8 * self._body:
            self._refuse("431 Request Header Fields Too Large")

    def _parse(self, data: memoryview) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                self._parse_without_upgrade()

    def _parse_without_upgrade(self) -> None:
        """Read a head again, without what made the parser stop before its body."""
        lines = [
            b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        ]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = HttpRequestParser(self)
        self.parser.feed_data(b"\r\n".join([*lines, b"\r\n"]))

    def on_message_begin(self) -> None:
        self._new, self._body = True, 0
        self._expect()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._expect_nothing()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        self._bodies += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
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

    def _check_reader(self) -> None:
        """Close the connection if its client has taken nothing of what waits for it since the last check."""
        unread = self.transport.get_write_buffer_size()
        if unread and unread == self._unread:
            self.transport.abort()
            return
        self._unread = unread
        self._reader = self.loop.call_later(PATIENCE, self._check_reader)

    def _refuse(self, status: str) -> None:
        """Close the connection, with an answer unless another one is under way or was given."""
        if self.cycle is None or not self.cycle.response_started:
            self.transport.write(
                f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
            )
        self.transport.close()
