"""Regions of shared memory that clients register."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from google.protobuf import json_format
from tests.server.test_protocol import A, B
from tritonclient.utils import InferenceServerException

from pinnace.errors import NotSupportedError
from pinnace.server.failures import RequestError, TooLargeError
from pinnace.server.shared_memory import SharedMemory, Span

PREFIX = f"/pinnace-test-{os.getpid()}-"
DOORS = {"http": tritonclient.http, "grpc": tritonclient.grpc}


@pytest.fixture
def key():
    name = f"{PREFIX}region"
    handle = shm.create_shared_memory_region("region", name, 256)
    shm.set_shared_memory_region(handle, [A, B])
    yield name, handle
    shm.destroy_shared_memory_region(handle)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_tensors_stay_in_shared_memory(serving, simple, door, key):
    server = serving(simple, shared_memory=PREFIX)
    port = server.http_port if door is tritonclient.http else server.grpc_port
    client = door.InferenceServerClient(f"127.0.0.1:{port}")
    client.register_system_shared_memory("r", key[0], 250, offset=6)
    client.register_system_shared_memory("s", key[0], 1)
    client.unregister_system_shared_memory("s")
    found = client.get_system_shared_memory_status()
    (region,) = found if door is tritonclient.http else found.regions.values()
    region = region if isinstance(region, dict) else json_format.MessageToDict(region, None, True)
    assert [str(region[name]) for name in ("name", "key", "offset", "byte_size")] == ["r", key[0], "6", "250"]
    client.unregister_system_shared_memory("r")
    client.register_system_shared_memory("r", key[0], 256)
    other = client.get_cuda_shared_memory_status()
    assert not getattr(other, "regions", other)
    client.unregister_cuda_shared_memory()
    given = [door.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    wanted = [door.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")]
    for place, one in enumerate((*given, *wanted)):
        one.set_shared_memory("r", 64, offset=64 * place)
    assert client.infer("simple", given, outputs=wanted).get_output("OUTPUT0") is not None
    np.testing.assert_array_equal(shm.get_contents_as_numpy(key[1], np.int32, [1, 16], 128), A + B)
    np.testing.assert_array_equal(shm.get_contents_as_numpy(key[1], np.int32, [1, 16], 192), A - B)
    given[0].set_shared_memory("r", 64, offset=250)
    with pytest.raises(InferenceServerException, match="beyond its 256"):
        client.infer("simple", given)
    os.truncate(f"/dev/shm{key[0]}", 10)
    given[0].set_shared_memory("r", 64, offset=64)
    with pytest.raises(InferenceServerException, match="was shortened"):
        client.infer("simple", given)
    client.unregister_system_shared_memory()
    with pytest.raises(InferenceServerException, match="is not registered"):
        client.infer("simple", given)


def test_without_the_option_there_are_no_regions():
    with pytest.raises(NotSupportedError, match="shared memory is off"):
        SharedMemory().register("r", "/x", 0, 1)


@pytest.mark.parametrize("name", ["/other", "{}../../etc/passwd", "{}/x", "x{}", "{}\0x", ""])
def test_keys_outside_of_the_prefix_are_refused(name):
    with pytest.raises(RequestError, match="is no name that begins with"):
        SharedMemory(PREFIX).register("r", name.format(PREFIX), 0, 1)


def test_a_link_is_no_region(tmp_path, key):
    link = f"/dev/shm{PREFIX}link"
    os.symlink(f"/dev/shm{key[0]}", link)
    try:
        with pytest.raises(RequestError, match="cannot be opened"):
            SharedMemory(PREFIX).register("r", f"{PREFIX}link", 0, 1)
    finally:
        os.unlink(link)


@pytest.mark.parametrize(("offset", "size"), [(0, 257), (256, 1), (-1, 1), (0, 0), (1 << 62, 1 << 62)])
def test_a_region_lies_in_its_memory(key, offset, size):
    with pytest.raises(RequestError, match="are not in its 256"):
        SharedMemory(PREFIX).register("r", key[0], offset, size)


def test_spans_lie_in_their_region(key):
    memory = SharedMemory(PREFIX)
    memory.register("r", key[0], 64, 128)
    for offset, size in ((0, 129), (128, 1), (-1, 1), (0, -1)):
        with pytest.raises(RequestError, match="beyond its 128"):
            memory.read(Span("r", offset, size))
    with pytest.raises(RequestError, match="has 3 bytes, not 2"):
        memory.write(Span("r", 0, 2), b"abc")
    memory.write(Span("r", 120, 3), b"abc")
    assert bytes(memory.read(Span("r", 120, 3))) == b"abc"
    assert memory.status() == [{"name": "r", "key": key[0], "offset": 64, "byte_size": 128}]
    memory.unregister()
    assert memory.status() == []


def test_a_name_is_registered_once_and_regions_are_closed_by_name(key):
    memory = SharedMemory(PREFIX)

    def held():
        """Descriptors of the region; other threads open and close files of their own meanwhile."""
        return sum(
            os.path.realpath(f"/proc/self/fd/{n}").endswith(key[0]) for n in os.listdir("/proc/self/fd")
        )

    before = held()
    for name in ("a", "b"):
        memory.register(name, key[0], 0, 256)
    with pytest.raises(RequestError, match="'a' is registered already"):
        memory.register("a", key[0], 0, 1)
    assert held() == before + 2
    assert [one["name"] for one in memory.status("b")] == ["b"]
    memory.unregister("nothing")
    memory.unregister("a")
    assert [one["name"] for one in memory.status()] == ["b"]
    memory.unregister()
    assert held() == before


def test_a_request_reads_the_region_that_it_named_whatever_is_registered_meanwhile(key):
    """The system gives the number of a closed file to the next one."""
    memory = SharedMemory(PREFIX)
    memory.register("r", key[0], 0, 256)
    region, _ = memory._place(Span("r", 0, 256))
    memory.unregister("r")
    other = shm.create_shared_memory_region("other", f"{key[0]}-other", 256)
    memory.register("r", f"{key[0]}-other", 0, 256)
    memory.register("s", f"{key[0]}-other", 0, 256)
    assert os.pread(region.descriptor, 64, 0) == A.tobytes()
    memory.unregister()
    shm.destroy_shared_memory_region(other)


def test_the_spans_of_a_request_have_a_limit_together(key):
    memory = SharedMemory(PREFIX, limit=100)
    memory.register("r", key[0], 0, 256)
    assert len(memory.read(Span("r", 0, 60), 40)) == 60
    for size, before in ((101, 0), (60, 41)):
        with pytest.raises(TooLargeError, match="over 100 bytes in shared memory"):
            memory.read(Span("r", 0, size), before)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_span_has_the_size_of_its_shape(serving, simple, door, key):
    server = serving(simple, shared_memory=PREFIX, max_bytes=100_000)
    port = server.http_port if door is tritonclient.http else server.grpc_port
    client = door.InferenceServerClient(f"127.0.0.1:{port}")
    client.register_system_shared_memory("r", key[0], 256)
    given = [door.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    for one in given:
        one.set_shared_memory("r", 65)
    with pytest.raises(InferenceServerException, match=r"has 65 bytes, but \[1, 16\] of INT32 takes 64"):
        client.infer("simple", given)
    os.truncate(f"/dev/shm{key[0]}", 1 << 40)  # of which nothing takes memory
    client.register_system_shared_memory("all", key[0], 1 << 40)
    for one in given:
        one.set_shape([1 << 20, 16])
        one.set_shared_memory("all", 1 << 26)
    with pytest.raises(InferenceServerException, match="over 100000 bytes in shared memory"):
        client.infer("simple", given)


def test_no_more_than_256_regions_are_open(key):
    memory = SharedMemory(PREFIX)
    for number in range(256):
        memory.register(str(number), key[0], 0, 1)
    with pytest.raises(RequestError, match="or 256 others are"):
        memory.register("more", key[0], 0, 1)
    memory.unregister("7")
    memory.register("more", key[0], 0, 1)
    memory.unregister()


def test_an_output_is_not_written_beyond_a_region_that_was_shortened(key):
    memory = SharedMemory(PREFIX)
    memory.register("r", key[0], 0, 256)
    os.truncate(f"/dev/shm{key[0]}", 10)
    memory.write(Span("r", 0, 10), b"0123456789")
    assert bytes(memory.read(Span("r", 0, 10))) == b"0123456789"
    with pytest.raises(RequestError, match="was shortened"):
        memory.write(Span("r", 1, 10), b"0123456789")
    assert os.stat(f"/dev/shm{key[0]}").st_size == 10
    with pytest.raises(RequestError, match="was shortened"):
        memory.read(Span("r", 1, 10))
    memory.unregister()
