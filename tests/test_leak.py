"""Opening and closing leaves nothing behind: no memory, thread, file or mapping.

Memory is what malloc has given out: what a process resides in also has the spare of allocators, which depends
on how threads came to run.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
from tests.cache.conftest import make_model
from tests.waiting import LIMIT, until

from pinnace import Context, ModelParallelRunner

MODEL = str(Path(__file__).parent / "data" / "api" / "add.onnx")


class Mallinfo2(ctypes.Structure):
    """See `man mallinfo`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def left() -> dict[str, int]:
    """Memory in bytes, threads, open files and mappings of this process."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo2
    memory = mallinfo()
    return {
        "memory": memory.uordblks + memory.hblkhd,
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "mappings": len(Path("/proc/self/maps").read_text().splitlines()),
    }


def open_and_close(times: int) -> None:
    """Every second one is closed, the others are forgotten."""
    context = Context(thread_num=1)
    context.parallel.workers_num = 2
    for turn in range(times):
        runner = ModelParallelRunner()
        runner.build_from_file(MODEL, context)
        inputs = [np.ones([max(d, 2) for d in t.shape], np.float32) for t in runner.get_inputs()]
        futures = [runner.submit(inputs) for _ in range(4)]
        for future in futures:
            future.result(300)
        if turn % 2:
            runner.close()


def test_a_thousand_times():
    """In a process of its own: threads of other tests' models end in their own time, and move memory."""
    command = [sys.executable, "-c", "from tests.test_leak import check; check()"]
    subprocess.run(command, cwd=Path(__file__).parents[1], timeout=LIMIT, check=True)


def check() -> None:
    open_and_close(100)
    before = left()
    open_and_close(1000)
    # 1,000 models would leave some 50 MB, were only their sessions kept.
    allowed = before | {"memory": before["memory"] + 2_000_000, "mappings": before["mappings"] + 8}
    # Threads of runners that nobody has end in their own time.
    until(lambda: all(now <= allowed[what] for what, now in left().items()), LIMIT / 2)


def test_memory_of_a_closed_model_is_given_back(tmp_path):
    """malloc holds what was freed, if nobody asks it to return that."""
    make_model(tmp_path / "model.onnx", outputs=1 << 15)  # 17 MB
    script = """
        import re, sys, numpy, pinnace
        for _ in range(4):
            with pinnace.Model(sys.argv[1]) as model:
                model.predict([numpy.zeros((1, 128), numpy.float32)])
            print(re.search("Anonymous: +([0-9]+) kB", open("/proc/self/smaps_rollup").read())[1])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "model.onnx")]
    environment = {**os.environ, "PINNACE_CACHE_DIR": "off"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, *later = map(int, done.stdout.split())
    assert max(later) - first < 5000  # kB
