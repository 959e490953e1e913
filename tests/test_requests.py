"""A few seconds of wrong requests, and what the memory of their trials shows."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.requests.memory import Fences
from tests.requests.mutate import mutated
from tests.requests.trial import difference

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_a_few_wrong_requests(engine):
    if engine == "openvino":
        pytest.importorskip("openvino")
    command = [sys.executable, "-m", "tests.requests", "--count", "2000", "--cases", "40", "--engine", engine]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]


@pytest.mark.parametrize("at_end", [True, False])
def test_reading_beyond_an_input_ends_the_process(at_end):
    array = Fences().put(0, np.arange(5.0), at_end)
    np.testing.assert_array_equal(array, np.arange(5.0))
    child = os.fork()
    if not child:
        np.lib.stride_tricks.as_strided(array[4:] if at_end else array, (2,), (8 if at_end else -8,)).sum()
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV


def test_answers_differ_where_a_number_does():
    x = np.array([1, np.nan], np.float32)
    assert not difference([x], [x.copy()])
    assert "1 of 2, nan and then 2.0" in difference([x], [np.array([1, 2], np.float32)])
    assert "float32[2] and then float32[1]" in difference([x], [x[:1]])


def test_the_same_numbers_make_the_same_requests():
    feed = {"x": np.ones((2, 3), np.float32), "n": np.array([1, 2])}
    every = [[mutated(np.random.default_rng(i), feed) for i in range(50)] for _ in range(2)]
    for one, other in zip(*every, strict=True):
        assert all(np.array_equal(one[n], other[n], equal_nan=one[n].dtype.kind == "f") for n in feed)
