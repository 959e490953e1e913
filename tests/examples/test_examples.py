"""The examples run unchanged under `pinnace exec`, and print what MindSpore computes.

`examples/input.bin` is the picture of the cat as the golden file has it.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pinnace import Context, DataParallel, Model, ModelType

ROOT = Path(__file__).parents[2]
GOLDEN = np.load(ROOT / "tests" / "data" / "efficientnet_lite0_expected.npz")

TOLERANCE = 1e-5  # what the project promises against MindSpore


# Threads and processes that print at the same time mix even what one print writes: where Python is told not
# to buffer (PYTHONUNBUFFERED), the end of a line is a write of its own. This makes a print one write.
WHOLE_PRINTS = """
import builtins, io, runpy, sys

def print_whole(*values, print=print, **options):
    text = io.StringIO()
    print(*values, file=text, **options)
    sys.stdout.write(text.getvalue())
    sys.stdout.flush()

builtins.print = print_whole
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def example():
    def run(*arguments):
        command = [sys.executable, "-m", "pinnace", "exec", *arguments]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
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


def test_multicard_inference(example, monkeypatch, tmp_path):
    """Two models with a batch of 1 on two devices give what MindSpore computes with a batch of 2."""
    golden = np.load(ROOT / "tests" / "data" / "small_diffusion.npz")
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    out = example("-c", WHOLE_PRINTS, "examples/multicard_inference.py", str(tmp_path / "joined.npy"))
    first, second, total, *leave, end = out.splitlines()
    assert (first, second) == ("Success to build model 0", "Success to build model 1")
    assert re.fullmatch(r"Total predict time =  \d+\.\d+(e-\d+)?", total)
    assert leave == ["Receive exit message  and start to exit"] * 2
    assert end == "=========== success ==========="
    joined = np.load(tmp_path / "joined.npy")
    np.testing.assert_allclose(joined[:, :, ::8, ::8], golden["y"], rtol=0, atol=TOLERANCE)
    both = Model()
    both.build_from_file(str(ROOT / "examples" / "small_diffusion_bs2.mindir"), ModelType.MINDIR)
    random = np.random.default_rng(1)
    sample = random.normal(size=(2, 4, 64, 64)).astype(np.float32)
    states = random.normal(size=(2, 77, 64)).astype(np.float32)
    (whole,) = both.predict([sample, np.array([981], np.int32), states])
    np.testing.assert_allclose(joined, whole.get_data_to_numpy(), rtol=0, atol=TOLERANCE)
    context = Context()
    context.target = ["ascend"]
    one = str(ROOT / "examples" / "small_diffusion_bs1.mindir")
    with DataParallel(one, context) as model:  # the same in three lines
        (result,) = model.predict([sample, np.array([981], np.int32), states])
    np.testing.assert_allclose(result.get_data_to_numpy(), joined, rtol=0, atol=TOLERANCE)


def test_without_devices_the_example_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("PINNACE_SIMULATE", raising=False)
    command = [sys.executable, "-m", "pinnace", "exec", "examples/multicard_inference.py"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert answer.returncode == 1
    assert "ascend:0 is not available: it needs an Ascend device" in answer.stderr
