"""Files that ask for much work with few bytes: each ends in one error that names the bound, or runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz import amplify

from pinnace.build import inspect_model

ROOT = Path(__file__).parent.parent

# In a process of its own, because what is not bounded takes all memory and never ends.
OPEN = """
import resource, sys
from pinnace.build import build
from pinnace.config import Settings
from pinnace.errors import PinnaceError
from pinnace.target import Target

resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
try:
    build(sys.argv[1], None, Target(threads=1), Settings()).close()
    print("built")
except PinnaceError as error:
    print(error)
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20, "took more than 1 GiB"
"""


def opened(tmp_path, model) -> str:
    path = tmp_path / "model"
    path.write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (amplify.tuples(60), "a tuple of 8192 items"),
        (amplify.tuples(60, 1), "33 tuples in each other"),
        (amplify.calls(20, 2), "nodes, with all calls inlined"),
        (amplify.calls(1600), "is one of more than 128 calls in each other"),
        (amplify.functions(30), "nodes, with all functions inlined"),
        (amplify.functions(200), "more than 128 deep, or themselves"),
    ],
    ids=["tuples", "deep tuples", "calls", "deep calls", "functions", "deep functions"],
)
def test_what_never_ended_is_refused(model, said, tmp_path):
    assert said in opened(tmp_path, model)


@pytest.mark.parametrize("model", [amplify.calls(100), amplify.functions(100, 1), amplify.tuples(8)])
def test_what_is_within_bounds_runs(model, tmp_path):
    assert opened(tmp_path, model) == "built\n"


def test_inspect_has_the_same_bounds(tmp_path):
    path = tmp_path / "tuples.mindir"
    path.write_bytes(amplify.tuples(60).SerializeToString())
    (refused,) = inspect_model(path).unsupported
    assert "a tuple of 8192 items" in refused.reason
