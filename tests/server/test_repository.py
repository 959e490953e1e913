"""Repositories: versions, loading under load, and memory."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto
from tests.server import models
from tests.waiting import until
from tritonclient.utils import InferenceServerException

from pinnace.errors import ConfigError, ModelStateError
from pinnace.server import repository
from pinnace.server.server import Options, Server
from pinnace.server.settings import ModelSettings

X = np.zeros(1, np.float32)


def client_of(server: Server) -> tritonclient.http.InferenceServerClient:
    return tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.http_port}", concurrency=4)


def ask(client, model: str, version: str = "") -> tuple[float, str]:
    given = tritonclient.http.InferInput("x", [1], "FP32")
    given.set_data_from_numpy(X)
    result = client.infer(model, [given], version)
    return float(result.as_numpy("y")[0]), result.get_response()["model_version"]


def test_the_newest_version_answers_and_others_by_number(serving, tmp_path):
    for number in (1, 2, 10):
        models.constant(tmp_path / "m" / str(number) / "model.onnx", number)
    client = client_of(serving(tmp_path))
    assert ask(client, "m") == (10, "10")
    assert ask(client, "m", "2") == (2, "2")
    assert client.get_model_metadata("m")["versions"] == ["2", "10"]
    with pytest.raises(InferenceServerException, match="has no version '3'"):
        ask(client, "m", "3")


def test_load_finds_new_models_and_new_versions(serving, tmp_path):
    models.constant(tmp_path / "m" / "1" / "model.onnx", 1)
    client = client_of(serving(tmp_path))
    models.constant(tmp_path / "m" / "2" / "model.onnx", 2)
    models.constant(tmp_path / "other" / "model.onnx", 7)
    assert ask(client, "m") == (1, "1")
    client.load_model("m")
    client.load_model("other")
    assert ask(client, "m") == (2, "2")
    assert ask(client, "other") == (7, "1")


def test_a_link_to_the_folder_may_change_what_it_leads_to(serving, tmp_path):
    for number in (1, 2):
        models.constant(tmp_path / f"rev{number}" / "m" / str(number) / "model.onnx", number)
    link = tmp_path / "current"
    link.symlink_to("rev1")
    client = client_of(serving(link))
    assert ask(client, "m") == (1, "1")
    link.unlink()
    link.symlink_to("rev2")
    client.load_model("m")
    assert ask(client, "m") == (2, "2")


def test_a_model_may_be_a_link_to_a_file_of_another_name(serving, tmp_path):  # as in Hugging Face's cache
    models.constant(tmp_path / "m.onnx", 1).rename(tmp_path / "0a1b2c")
    (tmp_path / "m.onnx").symlink_to("0a1b2c")
    assert ask(client_of(serving(tmp_path / "m.onnx")), "m") == (1, "1")


def test_a_broken_version_leaves_the_one_before_in_its_place(serving, tmp_path):
    models.constant(tmp_path / "m" / "1" / "model.onnx", 1)
    client = client_of(serving(tmp_path))
    broken = tmp_path / "m" / "2" / "model.onnx"
    broken.parent.mkdir()
    broken.write_bytes(b"no model")
    with pytest.raises(InferenceServerException, match=r"model\.onnx"):
        client.load_model("m")
    assert ask(client, "m") == (1, "1")
    assert client.is_server_ready()
    (index,) = client.get_model_repository_index()
    assert index["state"] == "READY"
    assert "model.onnx" in index["reason"]


def test_versions_change_under_load_without_a_lost_request(serving, tmp_path):
    models.constant(tmp_path / "m" / "1" / "model.onnx", 1)
    server = serving(tmp_path)
    ended, wrong, count = threading.Event(), [], []

    def load() -> None:
        client = client_of(server)
        while not ended.is_set():
            number, version = ask(client, "m")
            count.append(1)
            if number != int(version):
                wrong.append((number, version))

    clients = [threading.Thread(target=load) for _ in range(3)]
    for one in clients:
        one.start()
    control = client_of(server)
    for number in range(2, 7):
        models.constant(tmp_path / "m" / str(number) / "model.onnx", number)
        control.load_model("m")
        assert ask(control, "m") == (number, str(number))
    ended.set()
    for one in clients:
        one.join()
    assert not wrong
    assert len(count) > 5
    (stats,) = control.get_inference_statistics("m")["model_stats"]
    assert stats["inference_stats"]["fail"]["count"] == 0


def test_models_beyond_the_memory_are_opened_on_demand_and_evicted(serving, tmp_path):
    for number in range(6):
        models.constant(tmp_path / f"m{number}" / "model.onnx", number)
    server = serving(tmp_path, memory=1)  # each open model is beyond it
    client = client_of(server)
    for number in (0, 1, 5, 0):
        assert ask(client, f"m{number}")[0] == number
    index = {model["name"]: model["state"] for model in client.get_model_repository_index()}
    assert [name for name, state in index.items() if state == "READY"] == ["m0"]
    assert client.is_model_ready("m3")  # its first request opens it
    assert client.is_model_ready("m3", "1")
    assert not client.is_model_ready("m3", "7")


@pytest.mark.parametrize("memory", [0, 700_000])
def test_a_request_that_names_a_version_leaves_the_others_to_the_newest_that_was_loaded(
    serving, tmp_path, memory
):
    for name, number in (("m", 1), ("m", 2), ("other", 5), ("another", 6)):
        models.constant(tmp_path / name / str(number) / "model.onnx", number)
    client = client_of(serving(tmp_path, memory=memory))
    assert ask(client, "m") == (2, "2")
    models.constant(tmp_path / "m" / "3" / "model.onnx", 3)
    for version in (1, 3):
        assert client.is_model_ready("m", str(version))
        assert ask(client, "m", str(version)) == (version, str(version))
        for name, number in (("other", 5), ("another", 6)):  # for one of which the second version is evicted
            assert ask(client, name) == (number, str(number))
            ask(client, "m", str(version))
        assert ask(client, "m") == (2, "2")
    client.load_model("m")
    assert ask(client, "m") == (3, "3")


@pytest.fixture
def gate(monkeypatch) -> threading.Event:
    """An event that the opening of models waits for."""
    opening, event = repository._opened, threading.Event()
    monkeypatch.setattr(repository, "_opened", lambda *words: event.wait(20) and opening(*words))
    return event


def test_a_version_is_opened_to_its_end_if_the_client_that_loads_it_goes(serving, tmp_path, gate):
    models.constant(tmp_path / "m" / "1" / "model.onnx", 1)
    gate.set()
    server = serving(tmp_path)
    older = server.repository.entry("m").open["1"]
    gate.clear()
    models.constant(tmp_path / "m" / "2" / "model.onnx", 2)
    with pytest.raises(InferenceServerException, match=r"DEADLINE_EXCEEDED|Deadline Exceeded"):
        tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}").load_model(
            "m", client_timeout=0.2
        )
    gate.set()
    until(lambda: list(server.repository.entry("m").open) == ["2"])
    with pytest.raises(ModelStateError):
        until(lambda: older.runner.get_inputs() is None)


def test_a_deadline_counts_while_a_model_is_opened(serving, tmp_path, gate):
    models.constant(tmp_path / "m" / "model.onnx", 1)
    client = client_of(serving(tmp_path, memory=1 << 30))
    given = tritonclient.http.InferInput("x", [1], "FP32")
    given.set_data_from_numpy(X)
    with pytest.raises(InferenceServerException, match="was being opened"):
        client.infer("m", [given], timeout=50_000)
    gate.set()
    assert ask(client, "m") == (1, "1")


def test_a_model_whose_file_has_gone_is_named(serving, tmp_path):
    models.constant(tmp_path / "m" / "model.onnx", 1)
    client = client_of(serving(tmp_path, memory=1 << 30))
    (tmp_path / "m" / "model.onnx").unlink()
    with pytest.raises(InferenceServerException, match="it has no file"):
        ask(client, "m")
    for name in ("a", "b"):
        models.constant(tmp_path / "m" / f"{name}.onnx", 1)
    with pytest.raises(InferenceServerException, match="m: its folder has no model file, or several"):
        client.load_model("m")


def test_a_model_that_cannot_be_opened_and_is_unloaded_keeps_no_server_from_being_ready(serving, tmp_path):
    models.constant(tmp_path / "other" / "model.onnx", 1)
    (tmp_path / "m.onnx").write_bytes(b"no model")
    client = client_of(serving(tmp_path))
    assert not client.is_server_ready()
    client.unload_model("m")
    assert client.is_server_ready()


def test_a_model_has_settings_of_its_own(serving, tmp_path):
    models.simple(tmp_path / "m" / "model.onnx")
    (tmp_path / "m" / "model.toml").write_text("workers = 1\nmax_batch_size = 8\nmax_queue_delay_us = 50\n")
    config = client_of(serving(tmp_path)).get_model_config("m")
    assert config["instance_group"] == [{"name": "m", "count": 1}]
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 50}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wokers = 1", "there is no setting 'wokers'; there are engine"),
        ("workers = -1", "workers must be a whole number from 0 to 2\\^31, not -1"),
        ("workers = true", "workers must be a whole number"),
        ("device_ids = [0, 'x']", "device_ids must be a list of whole numbers"),
        ("workers", "is not TOML"),
        ("isolate = 1", "isolate must be true or false, not 1"),
        ('engine = "tensorflow"', r"engine: cpu_provider must be in \[onnxruntime, openvino\]"),
        ('precision = "half"', "precision: cpu_precision_mode must be in"),
        ('device = "tpu"', "device: target elements must be in"),
        ('labels = "/etc/passwd"', "labels: '/etc/passwd' is not in the folder of the model"),
        ('config = "../other/options.ini"', "is not in the folder of the model"),
        ('labels = "link.txt"', "is not in the folder of the model"),
        ('config = "none.ini"', "config: Set parallel failed, config_path does not exist"),
    ],
)
def test_wrong_settings_name_the_file_and_the_key(tmp_path, text, message):
    file = tmp_path / "model.toml"
    file.write_text(text)
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match=message) as raised:
        ModelSettings().read(file)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize("make", [lambda file: file.mkdir(), lambda file: file.write_text("wokers = 1")])
def test_a_model_with_wrong_settings_is_not_ready_and_keeps_nobody_from_starting(serving, tmp_path, make):
    for name in ("m", "other"):
        models.constant(tmp_path / name / "model.onnx", 1)
    make(tmp_path / "m" / "model.toml")
    client = client_of(serving(tmp_path))
    assert ask(client, "other") == (1, "1")
    assert not client.is_server_ready()
    assert not client.is_model_ready("m")
    index = {one["name"]: one["reason"] for one in client.get_model_repository_index()}
    assert "model.toml" in index["m"]
    with pytest.raises(InferenceServerException, match=r"503.*m cannot be opened: .*model\.toml"):
        ask(client, "m")


def test_a_request_for_what_cannot_be_opened_is_told_all_lines_of_the_reason(serving, tmp_path):
    models.echo(tmp_path / "m.onnx", TensorProto.COMPLEX64)
    with pytest.raises(InferenceServerException, match=r"cannot be opened: .*unsupported .*\n  graph"):
        ask(client_of(serving(tmp_path)), "m")


def test_that_a_model_is_not_ready_names_no_file(serving, tmp_path):
    broken = tmp_path / "m" / "model.onnx"
    broken.parent.mkdir()
    broken.write_bytes(b"no model")
    server = serving(tmp_path)
    for path in ("models/m/ready", "health/ready"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/v2/{path}")
        said = raised.value.read().decode()
        assert raised.value.code == 503
        assert "see /v2/repository/index" in said
        assert str(tmp_path) not in said


def test_a_request_that_waits_opens_no_model_that_is_unloaded_meanwhile(serving, tmp_path, gate):
    for number in (1, 2):
        models.constant(tmp_path / "m" / str(number) / "model.onnx", number)
    server = serving(tmp_path, memory=1 << 30)
    client, ended = client_of(server), []

    def late() -> None:
        with pytest.raises(InferenceServerException, match="m is not loaded"):
            ask(client, "m", "1")
        ended.append(True)

    loading = threading.Thread(target=client.load_model, args=("m",))
    entry = server.repository.entry("m")
    loading.start()
    until(entry.lock.locked)
    unloading = threading.Thread(target=client_of(server).unload_model, args=("m",))
    unloading.start()
    until(lambda: len(entry.lock._waiters or ()) == 1)
    asking = threading.Thread(target=late)
    asking.start()
    until(lambda: len(entry.lock._waiters or ()) == 2)
    gate.set()
    for one in (loading, unloading, asking):
        one.join()
    assert ended
    assert not entry.open


def test_a_load_brings_the_settings_of_a_configuration_of_triton():
    config = {
        "max_batch_size": 4,
        "instance_group": [{"kind": "KIND_CPU"}, {"count": "2"}],
        "dynamic_batching": {"max_queue_delay_microseconds": 50, "default_priority_level": 3},
    }
    assert ModelSettings(threads=1).overridden(json.dumps(config)) == ModelSettings(
        threads=1, max_batch_size=4, workers=3, max_queue_delay_us=50, default_priority=3
    )


@pytest.mark.parametrize("door", [tritonclient.http, tritonclient.grpc])
def test_a_configuration_holds_until_the_next_load_and_a_wrong_one_changes_nothing(serving, simple, door):
    server = serving(simple)
    port = server.http_port if door is tritonclient.http else server.grpc_port
    client = door.InferenceServerClient(f"127.0.0.1:{port}")

    def rows() -> int:
        return client_of(server).get_model_config("simple")["max_batch_size"]

    client.load_model("simple", config='{"max_batch_size": 4}')
    with pytest.raises(InferenceServerException, match="failed to load simple: workers_num 10000000"):
        client.load_model("simple", config='{"instance_group": [{"count": 10000000}]}')
    assert rows() == 4
    for wrong in ("{", '{"max_batch_size": -1}'):
        with pytest.raises(InferenceServerException, match="configuration"):
            client.load_model("simple", config=wrong)
        assert rows() == 4
    with pytest.raises(InferenceServerException, match="a client's file"):
        client.load_model("simple", config="{}", files={"file:1/model.onnx": b""})
    with pytest.raises(InferenceServerException, match="no model of that name"):
        client.load_model("other")
    client.load_model("simple")
    assert rows() == 0
    (index,) = client_of(server).get_model_repository_index()
    assert (index["state"], index["reason"]) == ("READY", "")


def test_a_configuration_file_is_beside_the_settings(serving, tmp_path):
    models.constant(tmp_path / "m" / "model.onnx", 1)
    (tmp_path / "m" / "model.toml").write_text('config = "options.ini"\n')
    (tmp_path / "m" / "options.ini").write_text("[runner]\nmax_queue=much\n")
    (index,) = client_of(serving(tmp_path)).get_model_repository_index()
    assert "[runner] max_queue" in index["reason"]


@pytest.mark.parametrize(
    "option",
    ["[common_context]\nvariable_weights_file", "[ms_cache]\nserialize_path", "[ms_cache]\n Serialize_PATH "],
)
def test_a_configuration_file_chooses_no_files_of_the_server(serving, tmp_path, option):
    models.constant(tmp_path / "m" / "model.onnx", 1)
    (tmp_path / "m" / "model.toml").write_text('config = "options.ini"\n')
    secret = tmp_path / "secret"
    (tmp_path / "m" / "options.ini").write_text(f"{option}={secret}\n")
    secret.write_text("what nobody must see\n")
    (index,) = client_of(serving(tmp_path)).get_model_repository_index()
    assert index["state"] == "UNAVAILABLE"
    assert f"] {option.split()[1]} names files" in index["reason"]


def test_names_of_clients_are_no_paths(serving, tmp_path):
    models.constant(tmp_path / "outside" / "model.onnx", 1)
    models.constant(tmp_path / "inside" / "m" / "model.onnx", 1)
    client = client_of(serving(tmp_path / "inside"))
    for name in ("../outside", "..", ".", "/", str(tmp_path / "outside"), "m/../../outside", ""):
        for act in (client.load_model, client.unload_model, client.get_model_metadata):
            with pytest.raises(InferenceServerException):
                act(name)


@pytest.mark.parametrize("places", [["nothing.onnx"], ["."], ["a/m.onnx", "b/m.onnx"]])
def test_what_is_no_model_is_named_at_the_start(tmp_path: Path, places):
    for place in ("a", "b"):
        models.constant(tmp_path / place / "m.onnx", 1)
    (tmp_path / "a" / "m.onnx").replace(tmp_path / "a.onnx") if places == ["."] else None
    if places == ["."]:
        tmp_path = tmp_path / "empty"
        tmp_path.mkdir()
    with pytest.raises(ConfigError):
        Server([tmp_path / place for place in places], options=Options(http_port=0, grpc_port=0))


def test_open_models_make_no_threads_that_wait_for_work(serving, tmp_path):
    for number in range(11):
        models.constant(tmp_path / f"m{number}" / "model.onnx", number)
    settings = ModelSettings(engine="onnxruntime", workers=2, threads=1)
    server = serving(tmp_path, settings=settings, memory=1 << 30)
    client = client_of(server)
    client.load_model("m10")
    one = len(os.listdir("/proc/self/task"))
    for number in range(10):
        client.load_model(f"m{number}")
    assert len(os.listdir("/proc/self/task")) <= one + 1


def test_ten_models_share_as_many_threads_as_one_has_workers(serving, tmp_path, monkeypatch):
    for number in range(10):
        models.constant(tmp_path / str(number) / "model.onnx", number)
    monkeypatch.setattr("pinnace.serving.worker._BRIEF", 0)  # no request is computed in the event loop
    server = serving(tmp_path)
    clients = [threading.Thread(target=_ask_ten, args=(server,)) for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert [entry.open["1"].counts.served for entry in server.repository.entries] == [8] * 10
    assert 1 <= len(server.repository._threads._threads) <= 2


def _ask_ten(server):
    client = client_of(server)
    for number in [*range(10)] * 2:
        assert ask(client, str(number)) == (number, "1")
