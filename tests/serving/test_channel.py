"""Messages, memory and errors between a process and its device processes."""

from __future__ import annotations

import json
import os

import ml_dtypes
import numpy as np
import pytest

from pinnace import errors
from pinnace.errors import EngineError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.serving.channel import (
    Channel,
    Memory,
    Slot,
    decode_error,
    encode_error,
)
from pinnace.types import DataType, Format, Port


def test_messages_arrive_until_the_other_end_is_closed():
    one, other = Channel.pair()
    for message in ({}, {"text": "two\nlines"}, {"n": [1, 2]}):
        one.send(message)
    assert [other.receive() for _ in range(3)] == [{}, {"text": "two\nlines"}, {"n": [1, 2]}]
    one.close()
    assert other.receive() is None
    with pytest.raises(OSError, match="Broken pipe"):
        other.send({})
    other.hang_up()
    other.close()
    assert other.receive() is None


def test_a_line_that_was_cut_is_no_message():
    one, other = Channel.pair()
    one._socket.sendall(b'{"cut": 1}')
    one.hang_up()
    assert other.receive() is None


def test_a_forked_child_has_none_of_the_ends():
    """So that the other end sees the parent's death; one that is closed already stays closed."""
    one, other = Channel.pair()
    closed, _ = Channel.pair()
    closed.close()
    ends = [channel.fileno() for channel in (one, other)]
    child = os.fork()
    if not child:
        found = 0
        for number in ends:
            try:
                os.fstat(number)
                found += 1
            except OSError:
                pass
        os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    one.send({"still": "there"})
    assert other.receive() == {"still": "there"}


KINDS = [np.dtype(kind) for kind in (np.uint8, np.float64, np.int16, np.float32, ml_dtypes.bfloat16)]
SHAPES = [(3,), (2, 5), (), (0, 7), (65,)]


def test_both_processes_have_the_same_arrays():
    slot = Slot()
    other = Slot(*map(os.dup, slot.descriptors))
    ours, theirs = slot.inputs.views(SHAPES, KINDS), other.inputs.views(SHAPES, KINDS)
    for number, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        assert (mine.shape, mine.dtype) == (yours.shape, yours.dtype)
        assert mine.__array_interface__["data"][0] % 64 == 0  # a cache line, which suits kernels
        mine[...] = number
    for number, yours in enumerate(theirs):
        assert (yours == number).all()
    slot.outputs.views([(1,)], KINDS[:1])[0][...] = 9
    assert other.outputs.views([(1,)], KINDS[:1])[0] == 9


def test_memory_grows_and_never_shrinks():
    memory = Memory()
    sizes = []
    for elements in (1, 4096, 4097, 1):
        memory.views([(elements,)], [np.dtype(np.uint8)])
        sizes.append(os.fstat(memory.descriptor).st_size)
    assert sizes == [4096, 4096, 8192, 8192]


def test_arrays_larger_than_the_usable_memory_are_refused():
    """The kernel would fill the memory for them, and kill processes."""
    with pytest.raises(OSError, match="Cannot allocate memory"):
        Memory().views([(1 << 62,)], [np.dtype(np.uint8)])


def test_ports_arrive_as_they_were():
    ports = (
        Port("x", DataType.FLOAT16, (-1, 3), Format.NHWC, ((range(1, 5),), (range(8, 9),)), ("batch", "")),
        Port("y", DataType.STRING, ()),
    )
    records = json.loads(json.dumps([port.record() for port in ports]))
    assert tuple(map(Port.of_record, records)) == ports


@pytest.mark.parametrize(
    "kind", ["EngineError", "DataMismatchError", "PredictTimeoutError", "QueueFullError"]
)
def test_errors_of_pinnace_keep_their_class(kind):
    decoded = decode_error(encode_error(getattr(errors, kind)("why")), "cpu:1")
    assert (type(decoded).__name__, str(decoded)) == (kind, "cpu:1: why")


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError("x"), RuntimeError("x")])
def test_other_errors_are_those_of_an_engine_and_named(error):
    decoded = decode_error(encode_error(error), "cpu:1")
    assert type(decoded) is EngineError
    assert str(decoded) == f"cpu:1: {type(error).__name__}: {error}"


def test_names_that_are_no_error_are_not_called():
    for name in ("warn", "annotations", "PinnaceWarning", "nothing"):
        assert type(decode_error({"kind": name, "text": "x"}, "cpu:1")) is EngineError


def test_a_long_text_is_cut_and_primitives_arrive():
    assert len(encode_error(EngineError("x" * 20_000))["text"]) == 1 << 14
    primitives = [UnsupportedPrimitive(f"P{number}", 1, "node", "why") for number in range(101)]
    decoded = decode_error(encode_error(UnsupportedModelError("m.ms", primitives)), "cpu:1")
    assert isinstance(decoded, UnsupportedModelError)
    assert decoded.model == "cpu:1: m.ms"
    assert list(decoded.primitives) == primitives[:100]


def test_an_end_of_a_parent_is_closed_in_its_child():
    one, other = Channel.pair()
    one.renew()
    assert other.receive() is None
    one.renew()  # it is closed already
    other.close()
