"""Limits of calls, parameters of requests, and compressed answers, without a server."""

from __future__ import annotations

import asyncio
import gzip
import math
import zlib

import pytest

from pinnace.errors import EngineError, NotSupportedError, PredictTimeoutError
from pinnace.server import calls, inference
from pinnace.server.bodies import compressed, limited
from pinnace.server.failures import LoadError, RequestError
from pinnace.server.shared_memory import Span


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(calls, "perf_counter", lambda: Clock.now)
    return Clock


def test_a_client_waits_for_the_shorter_of_its_limits(clock):
    call = calls.Call("ModelInfer", {})
    assert call.left is None
    call.within(10)
    clock.now += 4
    assert call.left == 6
    call.within(math.inf)
    assert call.left == 6
    call.within(2)
    assert (call.left, call.limit, call.seconds) == (2, 6, 4)
    clock.now += 2
    call.check()
    assert 0 < call.left < 1e-3
    clock.now += 1
    assert 0 < call.left < 1e-3
    with pytest.raises(PredictTimeoutError, match="was over before it was computed"):
        call.check()


@pytest.mark.parametrize("name", ["timeout", "priority"])
def test_numbers_among_parameters_are_whole_and_from_0_on(name):
    assert [inference.number_of(one, name) for one in ({}, {name: 0}, {name: 7})] == [0, 0, 7]
    for wrong in (-1, 1.0, True, "1", None):
        with pytest.raises(RequestError, match=f"parameter {name}: .* is no whole number"):
            inference.number_of({name: wrong}, name)


@pytest.mark.parametrize("name", ["sequence_id", "classification"])
def test_parameters_that_would_change_the_result_are_refused(name):
    inference.check({name: 0, "other": 1})
    with pytest.raises(RequestError, match=f"parameter {name}: "):
        inference.check({name: 1})


def test_outputs_take_no_sequence_and_no_wrong_number_of_classes():
    for wrong in ({"sequence_id": 1}, {"classification": -1}, {"classification": "3"}):
        with pytest.raises(RequestError, match="parameter "):
            inference.wanted_of({"x": {}, "y": wrong})


def test_outputs_may_name_classes_or_a_part_of_a_region():
    part = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    wanted = {"x": {}, "y": part, "z": part | {"shared_memory_offset": 16}}
    assert inference.wanted_of(wanted) == {
        "x": (None, 0),
        "y": (Span("r", 0, 8), 0),
        "z": (Span("r", 16, 8), 0),
    }
    assert inference.wanted_of({"x": {"classification": 3}}) == {"x": (None, 3)}
    with pytest.raises(RequestError, match="classes are not written to shared memory"):
        inference.wanted_of({"x": part | {"classification": 3}})
    for wrong in (
        {"shared_memory_region": 1},
        {"shared_memory_byte_size": None},
        {"shared_memory_offset": 1.0},
    ):
        with pytest.raises(RequestError, match="shared_memory_region is text"):
            inference.wanted_of({"x": part | wrong})


def test_a_client_loads_no_files_of_its_own():
    inference.check_load({"config": "{}"})
    with pytest.raises(LoadError, match=r"'file:1/model\.onnx' is a client's file"):
        inference.check_load({"config": "{}", "file:1/model.onnx": b""})


BODY = b"0" * 1024


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("deflate, GZIP;q=0.5", "gzip"),
        ("br, Deflate ;q=1", "deflate"),
        ("", ""),
        ("identity", ""),
        ("br", ""),
    ],
)
def test_answers_are_compressed_as_the_client_accepts_them(accepted, encoding):
    unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress, "": bytes}[encoding]
    body, used = compressed(BODY, accepted)
    assert (used, unpack(body)) == (encoding, BODY)
    assert (len(body) < len(BODY)) == bool(encoding)
    assert compressed(BODY[1:], accepted) == (BODY[1:], "")


@pytest.mark.parametrize(
    ("error", "level", "told"),
    [
        (RequestError("wrong"), "WARNING", "wrong"),
        (EngineError("broken"), "ERROR", "broken"),
        (NotSupportedError("not here"), "ERROR", "not here"),
        (KeyError("a secret"), "ERROR", "the server failed; its log says why"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else None,
)
def test_faults_of_the_server_are_errors_and_those_of_clients_warnings(caplog, error, level, told):
    caplog.set_level("DEBUG", "pinnace.server")
    call = calls.Call("infer", {})
    call.model, call.id = "m" * 200, "7"
    found, text = call.failed(error)
    call.gone()
    call.answered()
    first, second, third = caplog.records
    assert (text, first.levelname, first.event) == (told, level, "request failed")
    assert (first.cause, first.call, first.model, first.request_id) == (found.cause, "infer", "m" * 100, "7")
    assert first.getMessage() == f"infer: {told}"
    assert not hasattr(first, "version")
    assert bool(first.exc_info) is isinstance(error, KeyError)
    assert first.seconds >= 0
    assert (second.levelname, second.event, second.cause) == ("WARNING", "request failed", "cancelled")
    assert (third.levelname, third.event) == ("DEBUG", "answered")


@pytest.mark.parametrize("character", ["n", "é", "\ud800", "\U0001f6a2"])
def test_the_error_that_a_client_is_told_is_utf_8_and_short(character):
    _, text = calls.Call("infer", {}).failed(RequestError(character * 20_000))
    assert 1900 < len(text.encode()) <= 2000


def test_the_application_sees_that_a_client_goes_within_a_body():
    told = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}]
    waiting, seen = iter(told), []

    async def receive() -> dict:
        return next(waiting)

    async def app(scope, receive, send) -> None:
        seen.extend([await receive(), await receive()])

    asyncio.run(limited(app, 10)({"type": "http", "headers": []}, receive, None))
    assert seen == told
