"""Encrypted model files, as MindSpore and MindSpore Lite write and read them.

A file is a sequence of pieces. Numbers are little-endian and of 32 bits:

    mark    0x7F3A5ED8 for AES-GCM, 0x7F3A5ED9 for AES-CBC, 0x7F3A5EDA for SM4-CBC
    tag     16 bytes, of AES-GCM only
    size    of the rest of the piece
    size of the initial vector, initial vector, size of the encrypted bytes, encrypted bytes

The layout was observed in files of MindSpore 2.10, of whose vectors AES-GCM uses the first 12 bytes. Of a
wrong key or a changed byte AES-GCM always tells; the others tell by their padding, which may by chance (1 in
256) be right.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from pinnace.errors import ArgumentValueError, ModelFormatError, NotSupportedError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher

MODES = ("AES-GCM", "AES-CBC", "SM4-CBC")
_MARKS = dict(zip(MODES, (0x7F3A5ED8, 0x7F3A5ED9, 0x7F3A5EDA), strict=True))
_SM4_KEY = 16
"""Bytes of a key of SM4."""
_PIECE = 1 << 25
_TAG, _VECTOR, _BLOCK = 16, 16, 16
_USED = 12
"""Bytes of the initial vector that AES-GCM uses."""
_NUMBER = struct.Struct("<I")


def key_of(text: str, name: str) -> bytes:
    """Return a key given in hexadecimal digits. Raises ArgumentValueError, without the key."""
    try:
        return check_key(bytes.fromhex(text), name)
    except ValueError:
        raise ArgumentValueError(f"{name} must be 32, 48 or 64 hexadecimal digits.") from None


def check_key(key: bytes, name: str) -> bytes:
    """Return a key if it has a length of AES. Raises ArgumentValueError, without the key."""
    if len(key) not in (16, 24, 32):
        raise ArgumentValueError(f"{name} must have 16, 24 or 32 bytes, but got {len(key)}.")
    return key


def is_encrypted(data: memoryview) -> bool:
    """Return True for the first bytes of an encrypted file."""
    return len(data) >= _NUMBER.size and _NUMBER.unpack_from(data)[0] in _MARKS.values()


def encrypt(source: BinaryIO, target: BinaryIO, key: bytes, mode: str) -> None:
    """Write an encrypted copy of a file, piece by piece."""
    while piece := source.read(_PIECE):
        vector = os.urandom(_VECTOR)
        encryptor = _cipher(key, mode, vector).encryptor()
        text = encryptor.update(_padded(piece, mode)) + encryptor.finalize()
        tag = encryptor.tag if mode == "AES-GCM" else b""
        inside = b"".join((_NUMBER.pack(len(vector)), vector, _NUMBER.pack(len(text))))
        target.write(_NUMBER.pack(_MARKS[mode]) + tag + _NUMBER.pack(len(inside) + len(text)) + inside)
        target.write(text)


def decrypt(data: memoryview, key: bytes, mode: str, name: str) -> bytes:
    """Return the bytes of an encrypted file. Raises ModelFormatError if the key or the file is wrong."""
    return b"".join(_pieces(data, key, mode, name))


def _pieces(data: memoryview, key: bytes, mode: str, name: str) -> Iterator[bytes]:
    place = 0

    def take(count: int) -> memoryview:
        nonlocal place
        place += count
        if place > len(data):
            raise ModelFormatError(f"{name}: the encrypted file ends at byte {len(data)}, inside of a piece")
        return data[place - count : place]

    while place < len(data):
        begin = place
        mark, *_ = _NUMBER.unpack(take(4))
        if mark != _MARKS[mode]:
            other = next((m for m, number in _MARKS.items() if number == mark), None)
            what = f"was encrypted with {other}, not {mode}" if other else "is not encrypted"
            raise ModelFormatError(f"{name}: {what} (byte {begin})")
        tag = bytes(take(_TAG)) if mode == "AES-GCM" else b""
        take(4)
        vector = bytes(take(*_NUMBER.unpack(take(4))))
        text = take(*_NUMBER.unpack(take(4)))
        yield _piece(text, key, mode, vector, tag, f"{name}: the key does not fit, or the file was changed")


def _piece(text: memoryview, key: bytes, mode: str, vector: bytes, tag: bytes, problem: str) -> bytes:
    try:
        decryptor = _cipher(key, mode, vector, tag).decryptor()
        plain: bytes = decryptor.update(text) + decryptor.finalize()
    except (NotSupportedError, ArgumentValueError):
        raise
    except Exception:  # of the package's own kinds, and ValueError for a vector or text of a wrong size
        raise ModelFormatError(problem) from None
    if mode == "AES-GCM":
        return plain
    count = plain[-1] if plain else 0
    if not 0 < count <= _BLOCK or plain[-count:] != bytes([count]) * count:
        raise ModelFormatError(problem)
    return plain[:-count]


def _padded(piece: bytes, mode: str) -> bytes:
    """Return a piece in whole blocks, which CBC needs: PKCS #7."""
    count = _BLOCK - len(piece) % _BLOCK
    return piece if mode == "AES-GCM" else piece + bytes([count]) * count


def _cipher(key: bytes, mode: str, vector: bytes, tag: bytes = b"") -> Cipher[Any]:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise NotSupportedError("encrypted models need cryptography: pip install cryptography") from None
    if mode == "SM4-CBC":
        if len(key) != _SM4_KEY:
            raise ArgumentValueError(f"the key of SM4-CBC must have {_SM4_KEY} bytes, but got {len(key)}.")
        return Cipher(algorithms.SM4(key), modes.CBC(vector))
    kind = modes.GCM(vector[:_USED], tag or None) if mode == "AES-GCM" else modes.CBC(vector)
    return Cipher(algorithms.AES(key), kind)
