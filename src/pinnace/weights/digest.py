"""Digests of contents."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from blake3 import blake3

_PIECE = 32 << 20  # bytes hashed in one go; a file of one piece is hashed by the calling thread


def digest(data: memoryview | bytes) -> str:
    """Return the digest of `data` as hexadecimal digits: BLAKE3 over the BLAKE3s of its pieces.

    Pieces allow several cores to work on one file. BLAKE3's own threads do not survive a fork: a child
    process that hashed would wait for them forever.
    """
    starts = range(0, max(len(data), 1), _PIECE)

    def part(start: int) -> bytes:
        with memoryview(data)[start : start + _PIECE] as piece:
            return blake3(piece).digest()

    if len(starts) == 1:
        return blake3(part(0)).hexdigest()
    from concurrent.futures import ThreadPoolExecutor  # small files need none

    with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), len(starts))) as pool:
        return blake3(b"".join(pool.map(part, starts))).hexdigest()


def digest_of_file(path: Path) -> str:
    """Return the `digest` of a file's content. Raises OSError."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return digest(b"")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            return digest(view)
