"""The examples run unchanged under `pinnace exec`, and print what MindSpore computes.

`examples/input.bin` is the picture of the cat as the golden file has it.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = np.load(ROOT / "tests" / "data" / "efficientnet_lite0_expected.npz")

TOLERANCE = 1e-5  # what the project promises against MindSpore


# Threads that print at the same time mix even what one print writes. This makes a print one write.
WHOLE_PRINTS = """
import builtins, io, runpy, sys

def print_whole(*values, print=print, **options):
    text = io.StringIO()
    print(*values, file=text, **options)
    sys.stdout.write(text.getvalue())

builtins.print = print_whole
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def example():
    def run(*arguments):
        command = [sys.executable, "-m", "pinnace", "exec", *arguments]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def printed_values(out):
    return [np.array(values.split(), float) for values in re.findall(r"output data is: (.*)", out)]


def test_the_input_is_the_golden_one():
    values = np.fromfile(ROOT / "examples" / "input.bin", np.float32)
    np.testing.assert_array_equal(values, GOLDEN["chelsea_input"].ravel())


def test_single_inference(example):
    out = example("examples/single_inference.py")
    assert re.match(r"tensor's name is:\S+ data size is:4000 tensor elements num is:1000\n", out)
    (values,) = printed_values(out)
    np.testing.assert_allclose(values, GOLDEN["chelsea_mindspore"][:50], rtol=0, atol=TOLERANCE)


def test_concurrent_inference(example):
    out = example("-c", WHOLE_PRINTS, "examples/concurrent_inference.py")
    tasks = re.findall(r"parallel id:  (\d)  \| task index:  (\d)", out)
    assert sorted(tasks) == [(str(client), str(task)) for client in range(5) for task in (1, 2)]
    assert len(re.findall(r"tensor size is:4000 tensor elements num is:1000", out)) == 10
    assert "total run time: " in out
    numbers = np.array(re.findall(r"\d+\.\d+(?:e-\d\d)?", out), float)
    wanted = GOLDEN["chelsea_mindspore"][:5]
    for value in wanted:
        assert np.sum(np.abs(numbers - value) < TOLERANCE) >= 10


def test_shared_weights_inference(example):
    """The master and two slaves; the tutorial feeds random numbers, so that values are for other tests."""
    out = example("-c", WHOLE_PRINTS, "examples/shared_weights_inference.py")
    assert len(re.findall(r"share +\d +spend time: ", out)) == 3
    handle = int(re.search(r"int shareable_handle: (\d+)", out)[1])
    assert 0 < handle < 2**63
    assert out.count(f"sub process sharehandle: {handle}") == 2
