"""Models that `pinnace shard` cut, served by a process for each rank, beside onnxruntime and the whole."""

from __future__ import annotations

import os
import signal

import numpy as np
import onnxruntime
import pytest
import tritonclient.http
from onnx import TensorProto, helper
from tests.server.models import value, write
from tests.server.test_repository import client_of
from tests.waiting import is_alive, until
from tritonclient.utils import InferenceServerException

from pinnace.converter.convert import save_mindir
from pinnace.distributed.shard.cutting import save_onnx, shard

SETTINGS = "ranks = 2\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two products, of which rows are picked: numbers that are not there are an error of the engine."""
    random = np.random.default_rng(0)
    weights = [random.normal(size=size).astype(np.float32) / 16 for size in ((64, 384), (384, 64))]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["c"]),
        helper.make_node("Gather", ["c", "pick"], ["y"]),
    ]
    held = [
        helper.make_tensor(f"w{number}", TensorProto.FLOAT, one.shape, one.tobytes(), raw=True)
        for number, one in enumerate(weights)
    ]
    inputs = [value("x", [4, 64]), value("pick", [2], TensorProto.INT64)]
    return write(tmp_path_factory.mktemp("whole") / "m.onnx", nodes, inputs, [value("y", [2, 64])], held)


def cut(whole, folder, strategy="tensor", ranks=2, save=save_onnx, settings=SETTINGS):
    (folder / "m" / "1").mkdir(parents=True)
    shard(whole, ranks, folder / "m" / "1", strategy, {}, save)
    (folder / "m" / "model.toml").write_text(settings)
    return folder


def asked(server, pick=(0, 3)):
    x, rows = np.linspace(-1, 1, 256, dtype=np.float32).reshape(4, 64), np.array(pick)
    given = [tritonclient.http.InferInput(*one) for one in (("x", [4, 64], "FP32"), ("pick", [2], "INT64"))]
    for one, array in zip(given, (x, rows), strict=True):
        one.set_data_from_numpy(array)
    return client_of(server).infer("m", given).as_numpy("y"), {"x": x, "pick": rows}


def check(server, whole):
    result, given = asked(server)
    session = onnxruntime.InferenceSession(whole, providers=["CPUExecutionProvider"])
    # sums of 384 numbers of about 1 in another order
    np.testing.assert_allclose(result, session.run(None, given)[0], rtol=1e-4, atol=1e-5)


def pids(server):
    (replica,) = server.repository.entry("m").open["1"].runner._live.workers.replicas._replicas
    return [rank.pid for rank in replica._ranks]


@pytest.mark.parametrize(
    ("strategy", "ranks", "save"),
    [("tensor", 2, save_onnx), ("pipeline", 2, save_onnx), ("tensor", 3, save_mindir)],
)
def test_ranks_give_what_the_whole_gives_and_end_with_the_server(
    serving, whole, tmp_path, strategy, ranks, save
):
    server = serving(cut(whole, tmp_path, strategy, ranks, save, f"ranks = {ranks}\n"))
    for _ in range(3):
        check(server, whole)
    processes = pids(server)
    assert len(set(processes)) == ranks
    server.stop()
    until(lambda: not any(map(is_alive, processes)))


def test_a_killed_rank_and_an_error_start_all_again(serving, whole, tmp_path):
    server = serving(cut(whole, tmp_path))
    first = pids(server)
    os.kill(first[1], signal.SIGKILL)
    until(lambda: not is_alive(first[0]))
    until(lambda: not set(pids(server)) & set(first))
    check(server, whole)

    second = pids(server)
    with pytest.raises(InferenceServerException, match=r"500.*out of data bounds"):
        asked(server, (0, 77))
    check(server, whole)
    assert not set(pids(server)) & set(second)


@pytest.mark.parametrize(
    ("settings", "spoil", "named"),
    [
        ("", None, "the model is one rank's part of a whole"),
        ("ranks = 3\n", None, "m_2.onnx, the file of one of 3 ranks"),
        ("ranks = 2\nisolate = true\n", None, r"\[runner\] ranks: not with isolate"),
        ("ranks = 2\n", "m_1.onnx", "not the file of rank 0"),
    ],
)
def test_what_does_not_fit_is_named(serving, whole, tmp_path, settings, spoil, named):
    folder = cut(whole, tmp_path, settings=settings)
    if spoil:
        (folder / "m" / "1" / "m_1.onnx").unlink()
        (folder / "m" / "1" / "m_0.onnx").rename(folder / "m" / "1" / "model.onnx")
    server = serving(folder)
    with pytest.raises(InferenceServerException, match=named):
        client_of(server).load_model("m")
