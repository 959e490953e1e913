"""Damaged models: each is read or refused with one PinnaceError, in bounded time and memory.

Every example takes a real file and damages it: bits flip, numbers become the largest and smallest there
are, pieces go missing, are doubled or change places. What can still be read is lowered, and its weights
are looked at, as building it would do.

The examples are the same on every run. PINNACE_FUZZ=20000 runs that many new ones for each kind of file.
"""

from __future__ import annotations

import os
import resource
import signal
from contextlib import contextmanager, suppress
from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinnace.compiler.graph import compilable
from pinnace.errors import PinnaceError
from pinnace.formats import read
from pinnace.types import ModelType
from pinnace.weights.source import Source

DATA = Path(__file__).parent.parent / "data"
MEMORY = 1 << 30  # bytes that one example may take; the files have some thousand
SECONDS = 20  # before an example counts as one that never ends

_WANTED = int(os.environ.get("PINNACE_FUZZ", "0"))
_EXAMPLES = settings(
    max_examples=_WANTED or (6000 if os.environ.get("CI") else 300),
    derandomize=not _WANTED,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def corpus(*patterns: str) -> list[bytes]:
    """The files of the test data that match and are small, so that damage hits what matters."""
    paths = sorted({p for pattern in patterns for p in DATA.glob(pattern)})
    files = [p.read_bytes() for p in paths if p.stat().st_size < 6000]
    assert files
    return files


MS = corpus("ms/*.ms", "lite_ops/*.ms", "lite_layers/*.ms")
MINDIR = corpus("lite_ops/*.mindir", "lite_layers/*.mindir", "mindspore_ops/*.mindir", "split/*.mindir")
ONNX = corpus("**/*.onnx")

NUMBERS = [
    n.to_bytes(size, "little")
    for size in (1, 2, 4, 8)
    for n in (0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)
]
# ... and what protobuf makes of large and small numbers.
NUMBERS += [b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x07", b"\x80" * 12]


@st.composite
def damaged(draw, files):
    """A real file with up to eight injuries."""
    data = bytearray(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["flip", "number", "cut", "drop", "double", "move", "mix"]))
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.integers(1, 64))
        piece = bytes(data[at : at + length])
        if kind == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "number":
            number = draw(st.sampled_from(NUMBERS))
            data[at : at + len(number)] = number
        elif kind == "cut":
            del data[at:]
        elif kind == "drop":
            del data[at : at + length]
        elif kind == "double":
            data[at:at] = piece
        elif kind == "move":
            del data[at : at + length]
            place = draw(st.integers(0, len(data)))
            data[place:place] = piece
        else:
            other = draw(st.sampled_from(files))
            data[at : at + length] = other[at : at + length]
    return bytes(data)


@contextmanager
def bounded():
    """MemoryError beyond `MEMORY` more than now, TimeoutError after `SECONDS`."""

    def stop(*_):
        raise TimeoutError(f"still busy after {SECONDS} seconds")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def build(data: bytes, kind: ModelType) -> None:
    """What building the model does, but for the engine."""
    graph = compilable(read(Source.of_buffer(data), kind), "model buffer", None)
    for value in graph.model.graph.initializers.values():
        if isinstance(value.const_value, ir.TensorProtocol):
            value.const_value.numpy()


def reads_or_refuses(data: bytes, kind: ModelType) -> None:
    with bounded(), suppress(PinnaceError):
        build(data, kind)


@_EXAMPLES
@given(damaged(MS))
def test_damaged_ms(data):
    reads_or_refuses(data, ModelType.MINDIR_LITE)


@_EXAMPLES
@given(damaged(MINDIR))
def test_damaged_mindir(data):
    reads_or_refuses(data, ModelType.MINDIR)


@_EXAMPLES
@given(damaged(ONNX))
def test_damaged_onnx(data):
    reads_or_refuses(data, ModelType.ONNX)


@_EXAMPLES
@given(st.binary(max_size=200), st.sampled_from([b"", b"\0\0\0\0MSL2", b"\x0a", b"\x08"]))
def test_noise(noise, start):
    with bounded(), pytest.raises(PinnaceError):
        build(start + noise, None)
