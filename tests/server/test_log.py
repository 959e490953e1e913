"""Events of requests in the log."""

from __future__ import annotations

import pytest
import tritonclient.grpc
import tritonclient.http
from tests.server import models
from tests.server.test_limits import connected, endless
from tests.server.test_protocol import A, B, inputs
from tests.waiting import until
from tritonclient.utils import InferenceServerException

from pinnace.server import messages
from pinnace.server.settings import ModelSettings

DOORS = {
    "POST /v2/models/{model}/infer": tritonclient.http,
    "POST /v2/models/{model}/versions/{version}/infer": tritonclient.http,
    "ModelInfer": tritonclient.grpc,
}


@pytest.fixture(params=DOORS)
def call(request, caplog):
    caplog.set_level("DEBUG", "pinnace.server")
    return request.param


def events(caplog, name: str) -> list[dict]:
    return [vars(record) for record in caplog.records if getattr(record, "event", "") == name]


def test_an_answer_is_an_event_with_what_was_asked(serving, simple, call, caplog):
    client = connected(DOORS[call], serving(simple))
    version = "1" if "version" in call else ""
    client.infer("simple", inputs(DOORS[call], A, B), version, request_id="seven")
    (found,) = events(caplog, "answered")
    assert {"call": call, "model": "simple", "version": "1", "request_id": "seven"}.items() <= found.items()
    assert 0 < found["seconds"] < 300
    assert found["levelname"] == "DEBUG"


@pytest.mark.parametrize(
    ("given", "timeout", "level", "cause"),
    [("wrong", 0, "WARNING", "invalid"), ("endless", 50_000, "ERROR", "timeout")],
)
def test_a_failure_is_an_event_with_what_was_asked_and_its_cause(
    serving, rounds, call, caplog, given, timeout, level, cause
):
    client = connected(DOORS[call], serving(rounds, settings=ModelSettings(workers=1, threads=1)))
    asked = endless(DOORS[call])[: 1 if given == "wrong" else 2]
    version = "1" if "version" in call else ""
    with pytest.raises(InferenceServerException):
        client.infer("rounds", asked, version, request_id="x" * 1000, timeout=timeout)
    (found,) = events(caplog, "request failed")
    wanted = {"call": call, "model": "rounds", "version": "1", "request_id": "x" * 100, "cause": cause}
    assert wanted.items() <= found.items()
    assert found["levelname"] == level
    assert found["seconds"] >= timeout / 1e6
    assert not events(caplog, "answered")


def test_a_request_of_a_stream_has_events_of_its_own(serving, simple, caplog):
    caplog.set_level("DEBUG", "pinnace.server")
    client = connected(tritonclient.grpc, serving(simple))
    client.start_stream(lambda result, error: None)
    for model, id_ in (("simple", "a"), ("none", "b"), ("simple", "c")):
        client.async_stream_infer(model, inputs(tritonclient.grpc, A, B), request_id=id_)
    client.stop_stream()
    assert [found["request_id"] for found in events(caplog, "answered")] == ["a", "c"]
    assert [found["request_id"] for found in events(caplog, "request failed")] == ["b"]


@pytest.mark.parametrize("door", [tritonclient.http, tritonclient.grpc])
def test_only_the_log_says_what_nobody_foresaw(serving, simple, door, caplog, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("a secret")

    client = connected(door, serving(simple))
    monkeypatch.setattr(messages, "server", fail)
    with pytest.raises(InferenceServerException, match="the server failed; its log says why"):
        client.get_server_metadata()
    (found,) = events(caplog, "request failed")
    assert found["cause"] == "engine"
    assert "a secret" in str(found["exc_info"][1])


def test_a_client_that_goes_is_an_event(serving, rounds, caplog):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1))
    with pytest.raises(InferenceServerException):
        connected(tritonclient.grpc, server).infer(
            "rounds", endless(tritonclient.grpc), request_id="gone", client_timeout=0.2
        )
    until(lambda: events(caplog, "request failed"))
    assert events(caplog, "request failed")[0]["request_id"] == "gone"


def test_models_that_open_and_leave_are_events(serving, tmp_path, caplog):
    caplog.set_level("INFO", "pinnace.server")
    for name in ("first", "second"):
        models.constant(tmp_path / name / "model.onnx", 1)
    server = serving(tmp_path, memory=1)  # each open model is beyond it
    for name in ("first", "second"):
        connected(tritonclient.grpc, server).load_model(name)
    found = [(vars(one)["event"], one.model) for one in caplog.records if hasattr(one, "model")]
    assert found == [
        ("warm", "first"),
        ("opened", "first"),
        ("evicted", "first"),
        ("warm", "second"),
        ("opened", "second"),
    ]
    assert all(one["bytes"] > 0 for name in ("opened", "evicted") for one in events(caplog, name))
    (serves,) = events(caplog, "serving")
    assert (serves["http"], serves["grpc"]) == (server.http_port, server.grpc_port)


def test_a_model_that_does_not_open_is_an_event(serving, tmp_path, caplog):
    for name in ("broken", "whole"):
        models.constant(tmp_path / name / "model.onnx", 1)
    (tmp_path / "broken" / "model.onnx").write_bytes(b"no model")
    serving(tmp_path)
    (found,) = events(caplog, "not opened")
    assert (found["levelname"], found["model"]) == ("ERROR", "broken")
