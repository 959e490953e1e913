"""Memory of this process, as the kernel counts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from pinnace.machine.memory import private_memory


def test_private_memory_is_what_the_process_alone_has():
    """RssAnon of proc_pid_status(5); the two are read one after the other, so they may differ a little."""

    def of_the_kernel():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))

    kept = np.ones(1 << 24, np.uint8)
    assert abs(private_memory() - of_the_kernel()) < 1 << 23
    assert private_memory() > kept.nbytes


def test_a_process_that_ends_first_tells_the_kernel_so():
    code = (
        "from pinnace.machine.memory import end_first\n"
        "end_first(700)\n"
        "print(open('/proc/self/oom_score_adj').read())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 700
