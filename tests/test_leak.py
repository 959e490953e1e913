"""Opening and closing leaves nothing behind: no memory, thread, file or mapping."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import numpy as np

from pinnace import Context, ModelParallelRunner

MODEL = str(Path(__file__).parent / "data" / "api" / "add.onnx")


def left() -> dict[str, int]:
    """Resident memory in bytes, threads, open files and mappings of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
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
            future.result(20)
        if turn % 2:
            runner.close()


def test_a_thousand_times():
    open_and_close(100)
    before = left()
    open_and_close(1000)
    after = left()
    # 1,000 models would leave some 50 MB, were only their sessions kept; allocators keep some spare.
    assert after["memory"] - before["memory"] < 20_000_000
    assert after["threads"] <= before["threads"]
    assert after["files"] <= before["files"]
    assert after["mappings"] <= before["mappings"] + 8
