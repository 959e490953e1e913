"""Memory of results is used again, and never while anybody has them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from pinnace import Context, Model
from pinnace.tensors.results import Results

FLOATS = np.dtype(np.float32)
KIND = (1, 1 << 16), FLOATS
WIDE = '<ir_version: 10, opset_import: ["": 20]> g (float[1,65536] x) => (float[1,65536] y) {y = Neg(x)}'


def test_memory_of_a_dropped_result_is_used_again():
    results = Results([KIND, ((3,), FLOATS)])
    large, small = results.new()
    where = large.ctypes.data
    assert (large.shape, large.dtype, small.shape) == (*KIND, (3,))
    del large
    assert results.new()[0].ctypes.data == where


@pytest.mark.parametrize(
    "hold", [np.asarray, memoryview, lambda x: x[0, 5:7], lambda x: x.__dlpack__(), lambda x: x.ctypes]
)
def test_memory_of_a_referenced_result_is_not_used(hold):
    results = Results([KIND])
    made = results.new()[0]
    where, held = made.ctypes.data, hold(made)
    del made
    later = [results.new()[0] for _ in range(5)]
    assert len({array.ctypes.data for array in later} | {where}) == 6
    del held


@pytest.mark.parametrize("size", [100, 1 << 23])
def test_small_and_large_ones_are_not_kept(size):
    results = Results([((size,), FLOATS)])
    results.new()
    assert not results._kept[0]


def test_at_most_two_are_kept():
    results = Results([KIND])
    held = [results.new()[0] for _ in range(9)]
    assert len(results._kept[0]) == 2
    assert len({array.ctypes.data for array in held}) == 9


def test_results_that_a_caller_keeps_do_not_change():
    context = Context()
    context.cpu.thread_num = 1
    context.cpu.provider = "onnxruntime"
    with Model(ir.to_proto(ir.from_onnx_text(WIDE)).SerializeToString(), context) as model:
        kept, places = {}, []
        for turn in range(40):
            outputs = model.predict([np.full((1, 65536), turn, np.float32)])
            array = outputs[0].get_data_to_numpy()
            places.append(array.ctypes.data)
            match turn % 4:
                case 0:
                    kept[turn] = outputs
                case 1:
                    kept[turn] = array[0, -3:]
            del outputs, array
        last = model.predict([np.zeros((1, 65536), np.float32)])
        assert last[0].get_data_to_numpy().max() == 0
    for turn, held in kept.items():
        values = held[0].get_data_to_numpy() if turn % 4 == 0 else held
        assert (values == -turn).all()
    assert len(set(places)) < len(places)
