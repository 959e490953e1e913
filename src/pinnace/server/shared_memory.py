"""Regions of system shared memory (POSIX) that clients register, for tensors that do not travel.

Off unless the server names a prefix: a client's key must begin with it, so that it reaches no memory of
others. Regions are read and written by calls of the system, not mapped: a client that shortens one gets an
error, where a mapping would end the process. A region that is unregistered is closed once nobody reads or
writes it: a request never gets another one that has its number in the system.

Source: Triton's extension "system shared memory".
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pinnace.errors import NotSupportedError
from pinnace.server.bodies import MAX_BYTES
from pinnace.server.failures import RequestError, TooLargeError

_FOLDER = "/dev/shm"
_KEY = re.compile(r"/[\w.-]{1,250}")
_MOST = 256
"""Regions that are registered at once."""


class Span(NamedTuple):
    """A part of a region, in bytes."""

    region: str
    offset: int
    size: int


@dataclass(eq=False)
class _Region:
    descriptor: int
    key: str
    offset: int
    size: int

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.descriptor)


class SharedMemory:
    """The regions that clients have registered."""

    def __init__(self, prefix: str = "", limit: int = MAX_BYTES) -> None:
        """`prefix` is how keys must begin, such as "/pinnace-"; without one there are no regions.

        `limit` is the number of bytes that all inputs of a request may have there.
        """
        self._prefix, self._limit = prefix, limit
        self._regions: dict[str, _Region] = {}

    def register(self, name: str, key: str, offset: int, size: int) -> None:
        """Open a region. Raises RequestError, and NotSupportedError if shared memory is off."""
        if not self._prefix:
            raise NotSupportedError("shared memory is off here (pinnace serve --shared-memory PREFIX)")
        if not key.startswith(self._prefix) or not _KEY.fullmatch(key):
            raise RequestError(f"the key {key[:50]!r} is no name that begins with {self._prefix!r}")
        if name in self._regions or len(self._regions) >= _MOST:
            raise RequestError(f"region {name[:50]!r} is registered already, or {_MOST} others are")
        try:
            opened = os.open(_FOLDER + key, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise RequestError(f"shared memory {key!r} cannot be opened: {error.strerror}") from None
        there = os.fstat(opened).st_size
        if offset < 0 or size < 1 or offset + size > there:
            os.close(opened)
            raise RequestError(f"region {name[:50]!r}: {size} bytes from {offset} on are not in its {there}")
        self._regions[name] = _Region(opened, key, offset, size)

    def unregister(self, name: str = "") -> None:
        """Forget a region, or all."""
        for one in [name] if name else list(self._regions):
            self._regions.pop(one, None)

    def status(self, name: str = "") -> list[dict[str, Any]]:
        """Return the regions, or that of a name, as the protocol tells them."""
        return [
            {"name": one, "key": region.key, "offset": region.offset, "byte_size": region.size}
            for one, region in self._regions.items()
            if name in ("", one)
        ]

    def read(self, span: Span, before: int = 0) -> memoryview:
        """Return the bytes of a span of a request, whose other spans had so many bytes before it.

        Raises RequestError, and TooLargeError.
        """
        region, place = self._place(span)
        if before + span.size > self._limit:
            raise TooLargeError(f"the request has over {self._limit} bytes in shared memory (--max-bytes)")
        data = os.pread(region.descriptor, span.size, place)
        if len(data) != span.size:
            raise RequestError(f"region {span.region!r} was shortened")
        return memoryview(data)

    def write(self, span: Span, data: bytes | memoryview) -> None:
        """Write the bytes of an output. Raises RequestError if they do not fit."""
        region, place = self._place(span)
        if len(data) > span.size:
            raise RequestError(f"region {span.region!r}: the output has {len(data)} bytes, not {span.size}")
        file = region.descriptor
        if os.fstat(file).st_size < place + len(data) or os.pwrite(file, data, place) < len(data):
            raise RequestError(f"region {span.region!r} was shortened")

    def _place(self, span: Span) -> tuple[_Region, int]:
        region = self._regions.get(span.region)
        if region is None:
            raise RequestError(f"shared memory region {span.region[:50]!r} is not registered")
        if span.offset < 0 or span.size < 0 or span.offset + span.size > region.size:
            raise RequestError(
                f"{span.region!r}: {span.size} bytes from {span.offset} on are beyond its {region.size}"
            )
        return region, region.offset + span.offset


def span_of(parameters: Mapping[str, Any], tensor: str) -> Span | None:
    """Return the part of a region that a tensor's parameters name; None if they name none."""
    region = parameters.get("shared_memory_region")
    if region is None:
        return None
    size, offset = parameters.get("shared_memory_byte_size"), parameters.get("shared_memory_offset", 0)
    if not isinstance(region, str) or type(size) is not int or type(offset) is not int:
        raise RequestError(f"{tensor!r}: shared_memory_region is text, _byte_size and _offset are numbers")
    return Span(region, offset, size)
