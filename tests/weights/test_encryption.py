"""Encrypted files: the layout that MindSpore has, their keys, and what is said of damage."""

from __future__ import annotations

import io
import struct

import pytest
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from pinnace.errors import ArgumentValueError, ModelFormatError
from pinnace.weights import encryption

KEY = bytes(range(32))
MARKS = {"AES-GCM": 0x7F3A5ED8, "AES-CBC": 0x7F3A5ED9, "SM4-CBC": 0x7F3A5EDA}
PLAIN = bytes(range(100)) * 3


def key_of(mode):
    return KEY[:16] if mode == "SM4-CBC" else KEY


def piece(mode, plain):
    """One piece of a file, by the description of its layout."""
    vector = b"0123456789abcdef"
    if mode == "AES-GCM":
        encryptor = Cipher(algorithms.AES(KEY), modes.GCM(vector[:12])).encryptor()
        text = encryptor.update(plain) + encryptor.finalize()
        tag = encryptor.tag
    else:
        kind = algorithms.SM4 if mode == "SM4-CBC" else algorithms.AES
        encryptor = Cipher(kind(key_of(mode)), modes.CBC(vector)).encryptor()
        padder = padding.PKCS7(128).padder()
        text = encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()
        tag = b""
    rest = struct.pack("<I", len(vector)) + vector + struct.pack("<I", len(text)) + text
    return struct.pack("<I", MARKS[mode]) + tag + struct.pack("<I", len(rest)) + rest


def decrypted(data, mode, key=None):
    return encryption.decrypt(memoryview(data), key or key_of(mode), mode, "m.mindir")


@pytest.mark.parametrize("mode", MARKS)
def test_pieces_of_a_file_are_joined(mode):
    data = piece(mode, PLAIN) + piece(mode, b"") + piece(mode, PLAIN[:16])
    assert decrypted(data, mode) == PLAIN + PLAIN[:16]
    assert encryption.is_encrypted(memoryview(data))
    assert encryption.is_encrypted(memoryview(data[:4]))


@pytest.mark.parametrize("data", [b"", b"\xd8\x5e\x3a", b"\xd7\x5e\x3a\x7f", b"\x08\x07\x12\x04"])
def test_other_files_are_not_encrypted(data):
    assert not encryption.is_encrypted(memoryview(data))


@pytest.mark.parametrize("mode", MARKS)
@pytest.mark.parametrize("length", [0, 1, 15, 16, 63, 64, 65, 200])
def test_what_is_written_in_pieces_is_read(monkeypatch, mode, length):
    monkeypatch.setattr(encryption, "_PIECE", 64)
    target = io.BytesIO()
    encryption.encrypt(io.BytesIO(PLAIN[:length]), target, key_of(mode), mode)
    data = target.getvalue()
    assert decrypted(data, mode) == PLAIN[:length]
    assert data.count(struct.pack("<I", MARKS[mode])) == -(-length // 64)
    if length:
        whole, written = len(piece(mode, PLAIN[: min(length, 64)])), 4 + (16 if mode == "AES-GCM" else 0)
        assert struct.unpack_from("<I", data, written) == (whole - written - 4,)


@pytest.mark.parametrize("mode", MARKS)
def test_a_file_that_ends_early_is_refused(mode):
    data = piece(mode, PLAIN)
    for end in (3, 5, 19, 30, 44, len(data) - 1):
        with pytest.raises(
            ModelFormatError, match=f"m.mindir: the encrypted file ends at byte {end}, inside"
        ):
            decrypted(data[:end], mode)


def test_the_mode_of_a_file_is_named():
    data = piece("AES-CBC", PLAIN)
    with pytest.raises(ModelFormatError, match=r"was encrypted with AES-CBC, not AES-GCM \(byte 0\)"):
        decrypted(data, "AES-GCM")
    with pytest.raises(ModelFormatError, match=rf"is not encrypted \(byte {len(data)}\)"):
        decrypted(data + b"1234", "AES-CBC")


@pytest.mark.parametrize("mode", MARKS)
def test_a_wrong_key_is_named(mode):
    with pytest.raises(ModelFormatError, match="the key does not fit, or the file was changed"):
        decrypted(piece(mode, PLAIN), mode, key_of(mode)[::-1])


@pytest.mark.parametrize("last", [0, 17, 3])
def test_padding_that_is_none_is_refused(last):
    plain = bytes([last]) * (2 if last == 3 else 16)
    block = (bytes(16) + plain)[-16:]
    vector = bytes(16)
    encryptor = Cipher(algorithms.AES(KEY), modes.CBC(vector)).encryptor()
    text = encryptor.update(block) + encryptor.finalize()
    data = struct.pack("<III", MARKS["AES-CBC"], 40, 16) + vector + struct.pack("<I", 16) + text
    with pytest.raises(ModelFormatError, match="the key does not fit"):
        decrypted(data, "AES-CBC")


@pytest.mark.parametrize("length", [16, 24, 32])
def test_keys_have_the_lengths_of_aes(length):
    assert encryption.check_key(KEY[:length], "key") == encryption.key_of(KEY[:length].hex(), "key")
    for other in (length - 1, length + 1):
        with pytest.raises(ArgumentValueError, match=f"key must have 16, 24 or 32 bytes, but got {other}"):
            encryption.check_key(bytes(other), "key")
        with pytest.raises(ArgumentValueError, match="key must be 32, 48 or 64 hexadecimal digits"):
            encryption.key_of("00" * other, "key")


def test_a_key_of_sm4_has_16_bytes():
    with pytest.raises(ArgumentValueError, match=r"the key of SM4-CBC must have 16 bytes, but got 32"):
        decrypted(piece("SM4-CBC", PLAIN), "SM4-CBC", KEY)
