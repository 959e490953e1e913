"""Damaged models: each is read or refused with one PinnaceError, in bounded time and memory.

`python -m tests.fuzz` makes them; here it runs on as many as CI has a minute for, and on those that once were
in trouble.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pinnace.building.build import build_model as build
from pinnace.errors import PinnaceError, UnsupportedModelError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

ROOT = Path(__file__).parent.parent.parent
FILES = 20_000 if os.environ.get("CI") else 1000
PART = 5000  # files of a test, so that several cores have some
DAMAGED = ROOT / "tests" / "data" / "damaged"
FOUND = sorted(path for path in DAMAGED.iterdir() if path.suffix != ".md")


@pytest.mark.parametrize("first", range(0, FILES, PART))
def test_damaged_files_are_opened_or_refused(first):
    count = min(PART, FILES - first)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--first", str(first), "--files", str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"{count} in all" in done.stdout


# In a process of its own, because the damage was such that the process ended.
OPEN = """
import resource, sys
from pinnace.building.build import build_model as build
from pinnace.options.settings import Settings
from pinnace.errors import PinnaceError, UnsupportedModelError
from pinnace.options.target import Target

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
try:
    build(sys.argv[1], None, Target(threads=1), Settings()).close()
except PinnaceError as error:
    print(type(error).__name__)
with open("/proc/self/status") as lines:  # ru_maxrss counts the process that forked this one, too
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
assert peak < 1 << 20, "took more than 1 GiB"
"""


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_what_once_was_in_trouble(path):
    subprocess.run([sys.executable, "-c", OPEN, str(path)], timeout=300, check=True)


def test_parts_without_end_are_refused():
    """onnxruntime took 10 seconds and more for them."""
    with pytest.raises(UnsupportedModelError, match="splits a dimension of 4 into 65536 equal parts"):
        build(str(DAMAGED / "many_outputs.mindir"), None, Target(), Settings())


@pytest.mark.parametrize("start", [b"", b"\0\0\0\0MSL2", b"\x0a", b"\x08"])
def test_noise_is_refused(start):
    rng = random.Random(7)
    for _ in range(200):
        with pytest.raises(PinnaceError):
            build(start + rng.randbytes(rng.randint(1, 200)), None, Target(), Settings())


def test_text_that_is_none_is_refused_without_protobufs_extension(tmp_path):
    """Where its wheel has no C (free-threaded Python), protobuf raises another error."""
    path = tmp_path / "noise.mindir"
    path.write_bytes(b"\x0a\x01\x95")  # ir_version, a string that is not UTF-8
    done = subprocess.run(
        [sys.executable, "-m", "pinnace", "inspect", str(path)],
        env=os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "is not a MindIR model" in done.stderr
