"""What goes in and out of models: free dimensions, tuples, scalars, None, state; and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pinnace as mslite
from pinnace.building.opening import inspect_model
from pinnace.errors import UnsupportedModelError

DATA = Path(__file__).parent / "data"
EDGES = DATA / "edges"
RIGHT = sorted(p.with_suffix(".mindir") for p in EDGES.glob("*.npz"))
STATE = DATA / "versions" / "2.10.0" / "state.mindir"


def opened(path: Path) -> mslite.Model:
    model = mslite.Model()
    model.build_from_file(str(path), mslite.ModelType.MINDIR)
    return model


def numbered(golden, letter: str, run: int) -> list[np.ndarray]:
    count = sum(key.startswith(f"{letter}{run}_") for key in golden.files)
    return [golden[f"{letter}{run}_{i}"] for i in range(count)]


def test_all_files_are_there():
    assert len(RIGHT) == 12


@pytest.mark.parametrize("path", RIGHT, ids=lambda p: p.stem)
def test_gives_what_mindspore_gives(path):
    golden = np.load(path.with_suffix(".npz"))
    model = opened(path)
    for run in range(sum(key.startswith("y") and key.endswith("_0") for key in golden.files)):
        inputs, expected = numbered(golden, "x", run), numbered(golden, "y", run)
        assert [i.dtype.to_numpy() for i in model.get_inputs()] == [x.dtype for x in inputs]
        outputs = [o.get_data_to_numpy() for o in model.predict([mslite.Tensor(x) for x in inputs])]
        assert [(o.shape, o.dtype) for o in outputs] == [(y.shape, y.dtype) for y in expected]
        for output, y in zip(outputs, expected, strict=True):
            # fp32 sums of six products, in another order than MindSpore's.
            np.testing.assert_allclose(output, y, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["range", "free"])
def test_a_free_dimension_is_shown_as_such(name):
    (x,) = opened(EDGES / f"{name}.mindir").get_inputs()
    assert list(x.shape) == [-1, 6]


def test_the_items_of_a_tuple_are_inputs_of_their_own():
    names = [i.name for i in opened(EDGES / "nested.mindir").get_inputs()]
    assert names == ["a_0", "a_1_0", "a_1_1", "y"]


@pytest.mark.parametrize(
    ("name", "reason"), [("complex", "complex64"), ("recursion", "calls itself before its end")]
)
def test_what_cannot_be_is_refused_with_the_node(name, reason):
    path = EDGES / f"{name}.mindir"
    with pytest.raises(UnsupportedModelError, match=reason) as caught:
        opened(path)
    (found,) = caught.value.primitives
    assert f"first at node {found.first_node!r}" in str(caught.value)
    assert inspect_model(path).unsupported == caught.value.primitives


def test_each_worker_of_a_runner_has_a_state_of_its_own():
    golden = np.load(STATE.with_suffix(".npz"))
    context = mslite.Context()
    context.target = ["cpu"]
    context.cpu.thread_num = 1
    context.parallel.workers_num = 2
    runner = mslite.ModelParallelRunner()
    runner.build_from_file(str(STATE), context)

    def predict(_):
        (output,) = runner.predict([mslite.Tensor(golden["x0"])])
        return output.get_data_to_numpy()

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(predict, range(40)))
    # total = total / 2 + x, given doubled: each result of a worker tells its next.
    known = [golden["run0_y0"]]
    for _ in range(39):
        known.append(known[-1] / 2 + 2 * golden["x0"])
    np.testing.assert_allclose(known[2], golden["run2_y0"], rtol=1e-5)
    # Two workers begin at most, and whoever has made a run has made the ones before.
    counts = [sum(np.allclose(r, k, rtol=1e-5, atol=1e-6) for r in results) for k in known[:8]]
    assert 1 <= counts[0] <= 2
    assert counts == sorted(counts, reverse=True)
    assert all(any(np.allclose(r, k, rtol=1e-5, atol=1e-6) for k in known) for r in results)
