"""Predictions that run while their process ends or forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import onnx
import pytest

_BEGINNING = """
import os, signal, sys, threading, time
import numpy as np
import pinnace

context = pinnace.Context(thread_num=1)
context.parallel.workers_num = 1
runner = pinnace.ModelParallelRunner()
runner.build_from_file(sys.argv[1], context)
many = [np.ones((20_000, 48), np.float32)]

def report(future):
    os.write(1, f"{type(future.exception()).__name__}\\n".encode())  # at once: two threads tell
"""


def run(code, path):
    return subprocess.run(
        [sys.executable, "-c", _BEGINNING + code, str(path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("end", "status"), [("", 0), ("sys.exit(3)", 3), ("raise KeyError", 1)])
def test_python_ends_while_predictions_run_and_wait(slow, end, status):
    """A thread that Python ends within an engine would end the process by SIGABRT."""
    done = run(
        f"""
futures = [runner.submit(many) for _ in range(20)]
for future in futures:
    future.add_done_callback(report)
futures[0].result()
{end}
""",
        slow,
    )
    assert done.returncode == status, done.stderr
    assert len(done.stdout.split()) == 20
    assert set(done.stdout.split()) == {"NoneType", "ModelStateError"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_while_a_prediction_runs(slow):
    """The thread that runs it is not in the child: to wait there for its worker would be to wait forever."""
    done = run(
        """
futures = [runner.submit(many) for _ in range(3)]
child = os.fork()
if not child:
    signal.alarm(20)
    try:
        runner.predict([np.ones((1, 48), np.float32)])
    except pinnace.errors.ModelStateError as error:
        print(error, flush=True)
    runner.close()
    os._exit(0)
print(os.waitpid(child, 0)[1])
for future in futures:
    future.result()
""",
        slow,
    )
    assert done.returncode == 0, done.stderr
    line, status = done.stdout.splitlines()
    assert line.startswith("this process was forked while the model ran a prediction: build the model here")
    assert status == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_of_an_idle_model_predicts(slow):
    done = run(
        """
few = [np.random.default_rng(1).normal(size=(3, 48)).astype(np.float32)]
right = runner.submit(few).result()[0].get_data_to_numpy()
while runner.stats().busy:
    pass
child = os.fork()
if not child:
    signal.alarm(20)
    for outputs in (runner.predict(few), runner.submit(few).result()):
        np.testing.assert_array_equal(outputs[0].get_data_to_numpy(), right)
    runner.close()
    os._exit(0)
print(os.waitpid(child, 0)[1])
""",
        slow,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize(
    ("provider", "threads", "operators", "expected"),
    [
        ("onnxruntime", 4, 1, "right"),
        ("onnxruntime", 4, 2, "this process was forked and lacks the threads of inter_op_parallel_num"),
        ("openvino", 2, 1, "openvino: this process was forked from one that has used openvino"),
    ],
)
def test_a_forked_child_lacks_the_threads_of_engines(slow, tmp_path, provider, threads, operators, expected):
    """Predictions, `close` and the end of the process waited for them forever."""
    if provider == "openvino":
        pytest.importorskip("openvino")
        fixed = onnx.load(slow)
        fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 300
        slow = tmp_path / "fixed.onnx"
        onnx.save(fixed, slow)
    done = run(
        f"""
context.cpu.thread_num, context.cpu.provider = {threads}, {provider!r}
context.cpu.inter_op_parallel_num = {operators}
several, forgotten = pinnace.ModelParallelRunner(), pinnace.ModelParallelRunner()
several.build_from_file(sys.argv[1], context)
forgotten.build_from_file(sys.argv[1], context)
few = [np.random.default_rng(1).normal(size=(300, 48)).astype(np.float32)]
child = os.fork()
if not child:
    signal.alarm(20)
    try:
        several.predict(few)
        print("right", flush=True)
    except pinnace.ModelStateError as error:
        print(error, flush=True)
    several.close()
    del several
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
several.predict(few)
""",
        slow,
    )
    assert done.returncode == 0, done.stderr
    line, status = done.stdout.splitlines()
    assert line.startswith(expected)
    assert status == "3", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_ends_by_itself(slow, monkeypatch):
    """A thread of onnxruntime's that sent reports was waited for in the child, which did not have it."""
    for switch in ("ORT_DISABLE_TELEMETRY", "CI", "GITHUB_ACTIONS", "TF_BUILD"):
        monkeypatch.delenv(switch, raising=False)
    done = run(
        """
child = os.fork()
if not child:
    signal.alarm(20)  # ends it wherever it hangs, with another status
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
        slow,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_the_handler_of_a_signal_closes_the_model_that_it_has_interrupted(slow):
    """The prediction that runs beneath it cannot end before the handler has."""
    done = run(
        """
signal.signal(signal.SIGTERM, lambda *_: runner.close())
signal.alarm(30)

def interrupt():
    while not runner.stats().busy:
        pass
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=interrupt).start()
try:
    while True:
        runner.predict(many)
except pinnace.errors.ModelStateError as error:
    print(error)
""",
        slow,
    )
    assert done.returncode == 0, done.stderr
    assert "close" in done.stdout


def test_ctrl_c_ends_a_process_while_predictions_run(endless):
    """It waited for them, although nobody did."""
    ended = run(
        """
signal.signal(signal.SIGINT, signal.default_int_handler)
futures = [runner.submit([np.array(1 << 62), np.ones(1, np.float32)]) for _ in range(3)]
for future in futures:
    future.add_done_callback(report)
while not runner.stats().busy:
    pass
os.kill(os.getpid(), signal.SIGINT)
futures[0].result()
""",
        endless,
    )
    assert ended.returncode == -signal.SIGINT
    assert ended.stdout.split() == ["ModelStateError"] * 2 + ["EngineError"]


_TERMINATED = """
futures = [runner.submit(many) for _ in range(5)]
for future in futures:
    future.add_done_callback(report)
futures[0].result()
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("before", "after", "status", "done"),
    [
        ("", "time.sleep(30)", -signal.SIGTERM, None),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))", "", 0, {"NoneType", "ModelStateError"}),
        (
            "stop = threading.Event(); signal.signal(signal.SIGTERM, lambda *_: stop.set())",
            "stop.wait(); [future.result() for future in futures]; runner.close()",
            0,
            {"NoneType"},
        ),
    ],
    ids=["without a handler", "sys.exit", "drained"],
)
def test_sigterm_with_requests_in_flight(slow, before, after, status, done):
    """docs/serving.md says what becomes of them."""
    ended = run(f"{before}\n{_TERMINATED}\n{after}\n", slow)
    assert ended.returncode == status, ended.stderr
    outcomes = ended.stdout.split()
    assert len(outcomes) < 5 if done is None else (len(outcomes), set(outcomes)) == (5, done)


def test_sigterm_to_all_processes_of_a_service(slow, monkeypatch):
    """As systemd sends it: processes of devices leave it to the one that drains."""
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    ended = run(
        """
os.setpgid(0, 0)
signal.signal(signal.SIGTERM, lambda *_: None)
context = pinnace.Context()
context.target = ["ascend"]
with pinnace.DataParallel(sys.argv[1], context) as model:
    futures = [model.submit(many) for _ in range(4)]
    pids = model.pids
    os.killpg(0, signal.SIGTERM)
    for future in futures:
        report(future) if future.exception() else print(len(future.result()[0].numpy()))
    assert model.pids == pids and not model.stats().restarts
""",
        slow,
    )
    assert (ended.returncode, ended.stdout.split()) == (0, ["20000"] * 4), ended.stderr
