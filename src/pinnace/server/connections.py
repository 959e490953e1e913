"""Connections of HTTP clients, and their limits: their number, the size of a head, the time to send it."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE = 30.0
"""Seconds that a client may take to send a head, and then to send a body, and to read part of an answer."""
_LONGEST = 1 << 16
"""Bytes of a head."""
_DAY = 86400.0
_INFO = struct.Struct("=24xI92xQ16xI")
"""Of Linux's `struct tcp_info`: segments without an answer, bytes that have one, bytes not sent."""


class HttpServer(uvicorn.Server):
    """Accepts connections at sockets that listen.

    asyncio would cut off an answer over TLS that is still being read 30 s after its end was written; that it
    is read is checked by `Connection`.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        config, loop = self.config, asyncio.get_running_loop()

        def accepted() -> Connection:
            return Connection(config, self.server_state, {})

        self.servers = [
            await loop.create_server(
                accepted, sock=one, backlog=config.backlog, ssl=config.ssl,
                ssl_handshake_timeout=PATIENCE if config.ssl else None,
                ssl_shutdown_timeout=_DAY if config.ssl else None,
            )
            for one in sockets or ()
        ]  # fmt: skip
        self.started = True


class Connection(HttpToolsProtocol):
    """A connection that is refused if there are `limit_concurrency`, and closed if a head is long or late, or
    if an answer is not read.

    What is neither head nor body counts as head: fields behind the body, and the lengths of chunks, of which
    a body in single bytes needs five times its size. A body that comes after its answer has as long as a
    head, and is thrown away: a client that is cut off while it sends would not see the answer.

    A request to change to another protocol, such as the h2c of Java's HttpClient, is answered in this one.
    """

    _head = _body = _rest = _read = 0
    _is_long = False
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
        self._rest = len(data)
        try:
            self._parse(memoryview(data))
        except (HttpParserError, HttpParserUpgrade):
            if not self._is_long:
                self.send_400_response("Invalid HTTP request received.")
                return
        self._head += max(0, self._rest)
        if self._is_long or self._head > _LONGEST + 8 * self._body:
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
        self._head = self._body = self._rest = 0  # data with its beginning does not count
        self._expect()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > _LONGEST:
            self._is_long = True
            raise ValueError  # which ends the parser
        if not self.parser.should_upgrade():
            self._expect_nothing()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        self._rest -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        if self.cycle.response_complete:
            self._expect()
        else:
            self._expect_nothing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.cycle.response_complete:
            return  # it is that of a request behind this one
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

    def timeout_keep_alive_handler(self) -> None:
        if self._progress()[1]:  # the answer is still being read
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def _check_reader(self) -> None:
        """End the connection if its client has taken nothing of what waits for it since the last check.

        Over TLS one that was closed waits for the client to say so, too, which it need not.
        """
        before, (self._read, waits) = self._read, self._progress()
        if self._read == before and (waits or self.transport.is_closing()):
            self.transport.abort()
        else:
            self._reader = self.loop.call_later(PATIENCE, self._check_reader)

    def _progress(self) -> tuple[int, int]:
        """Return the bytes that the client's system has taken, and above 0 if others wait for it.

        Only the kernel knows: what asyncio holds says nothing where there is TLS, and falls in steps of
        megabytes.
        """
        place = self.transport.get_extra_info("socket")
        with suppress(OSError, ValueError):  # it is a Unix socket, or uvloop has just closed it
            if place is not None:
                info = place.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
                flying, taken, unsent = _INFO.unpack(info)
                return taken, flying + unsent
        waits = self.transport.get_write_buffer_size()
        return -waits, waits

    def _refuse(self, status: str) -> None:
        """Close the connection, with an answer unless another one is under way or was given."""
        if self.cycle is None or not self.cycle.response_started:
            self.transport.write(
                f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
            )
        self.transport.close()
