"""Weights that one process lends to others, through real processes."""

import gc
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pinnace
from pinnace import engines
from pinnace.building.build import build_model as build
from pinnace.cache import handover
from pinnace.engines.onnxruntime.engine import Onnxruntime
from pinnace.errors import ConfigError, DeviceUnavailableError, ModelStateError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

from .conftest import X, close_to, make_model, predict

SLAVE = """
    import sys
    import numpy as np
    import pinnace
    from pinnace.engines.onnxruntime.engine import Onnxruntime

    def no(*arguments):
        raise AssertionError("a slave compiles nothing")
    Onnxruntime.compile = Onnxruntime.build = no

    print(pinnace.Model().get_model_info("current_pid"), flush=True)
    for line in sys.stdin:
        path, config, device, x = eval(line)
        model, context = pinnace.Model(), pinnace.Context()
        kind, _, number = device.partition(":")
        context.target = [kind]
        if number:
            getattr(context, kind).device_id = int(number)
        try:
            model.build_from_file(path, pinnace.ModelType.ONNX, context, config_dict=config)
            print(model.predict([np.load(x)])[0].get_data_to_numpy().tolist(), flush=True)
        except Exception as error:
            print(repr(f"{type(error).__name__}: {error}"), flush=True)
"""


class Slave:
    """A process that builds models when it is told to."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None):
        self._x = folder / "x.npy"
        np.save(self._x, X)
        self._process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SLAVE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        self.pid = int(self._process.stdout.readline())

    def predict(self, path, config, device="cpu"):
        """Outputs, or an error as text."""
        self._process.stdin.write(f"{(str(path), config, device, str(self._x))!r}\n")
        self._process.stdin.flush()
        answer = eval(self._process.stdout.readline())
        return answer if isinstance(answer, str) else np.array(answer, np.float32)

    def end(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def slave(tmp_path):
    running = Slave(tmp_path)
    yield running
    running.end()


def master(path, pids, **others):
    model = pinnace.Model()
    model.build_from_file(str(path), pinnace.ModelType.ONNX, config_dict={"pids": pids, **others})
    return model, int(model.get_model_info("shareable_weight_mem_handle"))


def in_ascend_spelling(handle):
    return {"ascend_context": {"shareable_weight_mem_handle": str(handle)}}


@pytest.mark.parametrize("spelling", [lambda handle: {"shared_mem_handle": handle}, in_ascend_spelling])
def test_an_admitted_process_has_the_weights(cache, product, slave, spelling):
    path, weight = product
    model, handle = master(path, f"0, {slave.pid}, {os.getpid()}")
    assert 0 < handle < 2**63
    assert slave.predict(path, spelling(handle)) == close_to(weight)
    model.close()


def test_a_process_with_a_cache_of_its_own_or_none_has_them_too(cache, tmp_path):
    path = tmp_path / "outside.onnx"
    weight = make_model(path, external="weights.bin")
    for place in ("off", str(tmp_path / "other")):
        slave = Slave(tmp_path, {"PINNACE_CACHE_DIR": place})
        model, handle = master(path, str(slave.pid))
        assert slave.predict(path, {"shared_mem_handle": handle}) == close_to(weight)
        model.close()
        slave.end()


def test_a_model_may_have_many_files(cache, tmp_path, slave):
    path = tmp_path / "many.onnx"
    weight = make_model(path)
    whole = onnx.load(path)
    for number in range(300):  # their names have more bytes than a message of the socket
        name = f"{number:0250}"
        whole.graph.initializer.append(numpy_helper.from_array(np.full(512, number, np.float32), name))
        last = whole.graph.node[-1].output[0]
        whole.graph.node.append(helper.make_node("Add", [last, name], [f"sum{number}"]))
    whole.graph.output[0].name = "sum299"
    onnx.save(whole, path, save_as_external_data=True, all_tensors_to_one_file=False)
    model, handle = master(path, str(slave.pid))
    expected = model.predict([X])[0].get_data_to_numpy()
    assert expected - sum(range(300)) == pytest.approx(X @ weight, abs=0.05)  # of numbers around 45,000
    np.testing.assert_array_equal(slave.predict(path, {"shared_mem_handle": handle}), expected)
    model.close()


def test_other_processes_are_refused(cache, product, slave, tmp_path):
    path, _ = product
    admitted = Slave(tmp_path)
    model, handle = master(path, str(admitted.pid))
    answer = slave.predict(path, {"shared_mem_handle": handle})
    assert answer.startswith("ModelStateError")
    assert f"process {slave.pid} is not in its shareable_weight_pid_list" in answer
    admitted.end()
    model.close()


def test_strangers_do_not_keep_the_admitted_out(cache, product, slave):
    """They connect and say nothing; the master looks who they are, and does not wait for them."""
    path, weight = product
    model, handle = master(path, str(slave.pid))
    stranger = f"""
        import socket, sys
        lines = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(400)]
        for line in lines:
            line.connect({handover._address(handle)!r})
        print("here", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(stranger)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as crowd:
        assert crowd.stdout.readline() == b"here\n"
        assert slave.predict(path, {"shared_mem_handle": handle}) == close_to(weight)
        crowd.stdin.close()
    model.close()


def test_an_admitted_process_waits_for_a_place_in_the_queue():
    """Strangers can fill it: connecting fails at once then, and not because nobody listens."""
    address = handover._address(secrets.randbelow(1 << 60))
    kind = socket.AF_UNIX, socket.SOCK_SEQPACKET
    with socket.socket(*kind) as listening, socket.socket(*kind) as stranger, socket.socket(*kind) as line:
        listening.bind(address)
        listening.listen(0)
        stranger.connect(address)
        accepts = threading.Timer(0.1, lambda: listening.accept()[0].close())
        accepts.start()
        line.settimeout(10)
        handover._connect(line, address)
        accepts.join()


def test_a_wrong_handle_is_refused(cache, product, slave):
    path, _ = product
    model, handle = master(path, str(slave.pid))
    answer = slave.predict(path, {"shared_mem_handle": handle ^ 1})
    assert "no process offers weights under this shareable_weight_mem_handle" in answer
    for nonsense in ("0", str(2**63), "-1", "x"):
        answer = slave.predict(path, {"shared_mem_handle": nonsense})
        assert answer.startswith("ConfigError: shareable_weight_mem_handle must be the number")
    model.close()


@pytest.mark.parametrize(
    ("field", "refusal"),
    [
        ("handle", "the handle is wrong"),
        ("content", "it offers another model"),
        ("device", "it built this model for cpu, and this process for other"),
        ("made_for", "it built this model for another target"),
    ],
)
def test_request_that_differs_in_one_field_is_refused(field, refusal):
    offer = {"handle": "12", "content": "c", "device": "cpu", "made_for": "k"}
    assert handover._difference(json.dumps(offer).encode(), offer) == ""
    assert handover._difference(json.dumps(offer | {field: "other"}).encode(), offer).startswith(refusal)


def test_another_model_is_refused(cache, product, slave, tmp_path):
    path, _ = product
    other = tmp_path / "other.onnx"
    make_model(other, seed=9)
    model, handle = master(path, str(slave.pid))
    answer = slave.predict(other, {"shared_mem_handle": handle})
    assert "it offers another model: both must be built from the same file" in answer
    model.close()


def test_other_weights_beside_the_same_graph_are_refused(cache, slave, tmp_path):
    path = tmp_path / "outside.onnx"
    make_model(path, external="weights.bin")
    model, handle = master(path, str(slave.pid))
    (tmp_path / "weights.bin").unlink()
    make_model(path, seed=9, external="weights.bin")
    answer = slave.predict(path, {"shared_mem_handle": handle})
    assert "its weight files are not those of the master's model" in answer
    model.close()


def test_a_master_that_was_closed_or_collected_is_told(cache, product, slave):
    path, _ = product
    model, handle = master(path, str(slave.pid))
    model.close()
    assert "was closed or has ended" in slave.predict(path, {"shared_mem_handle": handle})
    model, handle = master(path, str(slave.pid))
    del model
    assert "was closed or has ended" in slave.predict(path, {"shared_mem_handle": handle})


MASTER = """
    import sys
    import pinnace
    model = pinnace.Model()
    model.build_from_file(sys.argv[1], pinnace.ModelType.ONNX, config_dict={"pids": sys.argv[2]})
    print(model.get_model_info("shareable_weight_mem_handle"), flush=True)
    sys.stdin.read()
"""


def test_a_slave_outlives_a_master_that_is_killed(cache, product, slave):
    path, weight = product
    command = [sys.executable, "-c", textwrap.dedent(MASTER), str(path), str(slave.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        config = {"shared_mem_handle": running.stdout.readline().strip()}
        assert slave.predict(path, config) == close_to(weight)
        running.send_signal(signal.SIGKILL)
    assert "was closed or has ended" in slave.predict(path, config)


def test_a_child_of_the_master_does_not_take_the_offer_with_it(cache, product, slave):
    path, weight = product
    model, handle = master(path, str(slave.pid))
    child = os.fork()
    if child == 0:
        model.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert slave.predict(path, {"shared_mem_handle": handle}) == close_to(weight)
    model.close()


def sockets():
    """Names of the sockets of this machine by their inode."""
    lines = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
    return {fields[6]: fields[7] for fields in lines if len(fields) == 8}


def own_offers():
    """Names of the sockets at which this process, and no other on this machine, offers weights."""
    folder, named = Path("/proc/self/fd"), sockets()
    links = [os.readlink(folder / fd) for fd in os.listdir(folder) if (folder / fd).is_symlink()]
    found = {named.get(link.removeprefix("socket:[").rstrip("]"), "") for link in links}
    return {name for name in found if name.startswith("@pinnace-")}


@pytest.mark.parametrize(
    "message", [b"", b"{", b"[" * 60_000, b"1", b'{"handle": "\xc3\xa9"}', b"{}"], ids=["nothing", *"abcde"]
)
def test_nonsense_of_an_admitted_process_hinders_no_other(cache, product, slave, message, monkeypatch):
    path, weight = product
    own, of_text = os.getpid(), handover.admitted
    monkeypatch.setattr(handover, "admitted", lambda text: {**of_text(text), own: os.pidfd_open(own)})
    model, handle = master(path, f"{slave.pid}")
    (name,) = own_offers()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(f"\0{name.removeprefix('@')}")
        line.send(message)
        assert slave.predict(path, {"shared_mem_handle": handle}) == close_to(weight)
    model.close()


def test_an_offer_whose_entry_was_cleared_says_so(cache, product, slave):
    path, _ = product
    model, handle = master(path, str(slave.pid))
    shutil.rmtree(cache / "entries")
    answer = slave.predict(path, {"shared_mem_handle": handle})
    assert "the shared weights are no longer in the compile cache" in answer
    model.close()


def test_nothing_stays_open(cache, product, slave):
    path, _ = product
    master(path, str(slave.pid))[0].close()
    gc.collect()  # what other tests have left
    before = sorted(os.listdir("/proc/self/fd"))
    offers = set()
    for _ in range(3):
        model, handle = master(path, str(slave.pid))
        offers |= own_offers()
        slave.predict(path, {"shared_mem_handle": handle})
        model.close()
    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert len(offers) == 3
    assert offers.isdisjoint(sockets().values()), "no process has them open"


@pytest.mark.parametrize("pids", ["one", "1,,x", "1.5"])
def test_a_list_that_is_none(cache, product, pids):
    with pytest.raises(ConfigError, match="shareable_weight_pid_list must be numbers"):
        master(product[0], pids)


def test_a_process_that_is_not_there(cache, product):
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(ConfigError, match=f"names process {gone.pid}: No such process"):
        master(product[0], str(gone.pid))


@pytest.fixture
def uncached(tmp_path, monkeypatch):
    """No compile cache, and an empty folder for temporary files."""
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


def test_without_the_cache_the_files_are_the_masters(uncached, product, slave):
    path, weight = product
    model, handle = master(path, str(slave.pid))
    (folder,) = uncached.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    child = os.fork()
    if child == 0:
        model.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert slave.predict(path, {"shared_mem_handle": handle}) == close_to(weight)
    model.close()
    del model
    assert not list(uncached.iterdir())


@pytest.mark.parametrize("kept", [True, False])
def test_with_a_cache_that_is_only_read(uncached, product, slave, tmp_path, monkeypatch, kept):
    """What is kept there is lent from there, and the rest from temporary files."""
    path, weight = product
    other = tmp_path / "other.onnx"
    make_model(other, 2)
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "image"))
    predict(path if kept else other)
    monkeypatch.setenv("PINNACE_CACHE_DIR", f"off{os.pathsep}{tmp_path / 'image'}")
    model, handle = master(path, str(slave.pid))
    assert bool(list(uncached.glob("*/entries/*"))) != kept
    assert slave.predict(path, {"shared_mem_handle": handle}) == close_to(weight)
    model.close()


def test_what_a_killed_master_has_left_goes_with_the_next(uncached, product, slave):
    command = [sys.executable, "-c", textwrap.dedent(MASTER), str(product[0]), str(slave.pid)]
    environment = os.environ | {"TMPDIR": str(uncached)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as running:
        running.stdout.readline()
        (left,) = uncached.iterdir()
        os.utime(left, (0, 0))
        model, _ = master(product[0], str(slave.pid))
        assert left.exists(), "its owner lives"
        model.close()
        del model
        running.send_signal(signal.SIGKILL)
    model, _ = master(product[0], str(slave.pid))
    assert not left.exists()
    model.close()


def test_without_cache_and_room_nothing_is_shared(product, monkeypatch):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    with pytest.raises(ConfigError, match=r"\(TMPDIR\), which failed: .*/dev/null"):
        master(product[0], "0")


@pytest.mark.parametrize("key", ["shareable_weight_pid_list", "shareable_weight_mem_handle"])
@pytest.mark.parametrize("device", ["gpu", "ascend"])
def test_weights_in_the_memory_of_a_device_are_not_shared(cache, product, device, key, monkeypatch):
    settings, target = (
        Settings.load(options={"ascend_context": {key: "12"}}),
        Target(device=device, device_id=9),
    )
    with pytest.raises(DeviceUnavailableError, match=f"{device}:9 is not available"):
        build(str(product[0]), None, target, settings)
    monkeypatch.setattr(engines, "choose", lambda target, name: Onnxruntime())
    with pytest.raises(ConfigError, match=f"{key}: no engine shares the memory of {device}:9"):
        build(str(product[0]), None, target, settings)


def test_master_and_slave_are_on_the_same_device(cache, product, tmp_path, monkeypatch):
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    path, weight = product
    slave = Slave(tmp_path)
    context = pinnace.Context()
    context.target = ["ascend"]
    model = pinnace.Model()
    model.build_from_file(str(path), pinnace.ModelType.ONNX, context, config_dict={"pids": str(slave.pid)})
    config = {"shared_mem_handle": int(model.get_model_info("shareable_weight_mem_handle"))}
    assert "it built this model for ascend:0, and this process for cpu:0" in slave.predict(path, config)
    message = slave.predict(path, config, "ascend:1")
    assert "for ascend:0, and this process for ascend:1: set the same target and device_id" in message
    assert slave.predict(path, config, "ascend") == close_to(weight)
    model.close()
    slave.end()


@pytest.mark.parametrize(
    "options",
    [
        {"pids": ""},
        {"pids": " , "},
        {"ascend_context": {"shareable_weight_pid_list": ""}},
        {"shared_mem_handle": ""},
    ],
)
def test_an_empty_list_of_processes_is_an_error_of_the_build(product, options):
    (key,) = options
    wanted = "shareable_weight_mem_handle" if key == "shared_mem_handle" else "shareable_weight_pid_list"
    with pytest.raises(ConfigError, match=rf"\[ascend_context\] {wanted} is empty: give"):
        pinnace.Model().build_from_file(str(product[0]), pinnace.ModelType.ONNX, config_dict=options)


def test_a_master_that_admitted_nobody_says_so(cache, product):
    model = pinnace.Model()
    model.build_from_file(str(product[0]), pinnace.ModelType.ONNX)
    with pytest.raises(ModelStateError, match="name the processes that may use its weights"):
        model.get_model_info("shareable_weight_mem_handle")
