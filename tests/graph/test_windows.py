"""Padding of windows, compared with what onnxruntime gives for `auto_pad`."""

import graphs
import numpy as np
import pytest

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.windows import overhang, windows


@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (9, 4, 3), (5, 2, 1)])
def test_pads_written_out_give_what_auto_pad_gives(padding, size, kernel, stride):
    form = f"kernel_shape = [{kernel}], strides = [{stride}]"
    m = graphs.model(f'y = MaxPool<auto_pad = "{padding}", {form}>(x)', f"float[1, 1, {size}] x")
    pads = windows(Builder(), graphs.node(m, "MaxPool")).padded([size])
    same = graphs.model(f"y = MaxPool<pads = {pads}, {form}>(x)", f"float[1, 1, {size}] x")
    x = np.random.default_rng(0).normal(size=(1, 1, size)).astype(np.float32)
    wanted, got = (graphs.session(one).run(None, {"x": x})[0] for one in (m, same))
    np.testing.assert_array_equal(got, wanted)


def test_a_convolution_has_the_windows_of_its_weight():
    m = graphs.model("y = Conv<dilations = [2, 1]>(x, w)", "float[1, 1, 9, 9] x, float[1, 1, 3, 3] w")
    over = windows(Builder(), graphs.node(m, "Conv"))
    assert (over.kernel, over.reach, over.strides, over.pads) == ((3, 3), (5, 3), (1, 1), (0, 0, 0, 0))


def test_windows_of_unknown_size_or_of_several_ranks_are_refused():
    free = graphs.model("y = Conv(x, w)", "float[1, 1, 9, 9] x, float[1, 1, K, 3] w")
    mixed = graphs.model("y = MaxPool<kernel_shape = [2, 2], strides = [1]>(x)", "float[1, 1, 9, 9] x")
    for m in (free, mixed):
        with pytest.raises(Unsupported):
            windows(Builder(), m.graph[0])


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "before", "after"),
    [(7, 3, 2, 0, 0), (8, 3, 2, 0, 0), (9, 2, 3, 0, 0), (10, 2, 3, 0, 0), (11, 2, 3, 0, 0), (5, 3, 3, 1, 1),
     (6, 3, 3, 1, 1), (7, 3, 3, 1, 1), (8, 4, 4, 0, 3), (9, 4, 4, 3, 0), (4, 2, 2, 0, 1), (3, 2, 4, 1, 1)],
)  # fmt: skip
def test_rounded_up_windows_reach_as_far_as_those_of_onnxruntime(length, kernel, stride, before, after):
    form = f"kernel_shape = [{kernel}], strides = [{stride}], pads = [{before}, {after}], ceil_mode = 1"
    m = graphs.model(f"y = MaxPool<{form}>(x)", f"float[1, 1, {length}] x")
    count = graphs.session(m).run(None, {"x": np.zeros((1, 1, length), np.float32)})[0].shape[-1]
    beyond = (count - 1) * stride + kernel - (length + before + after)
    assert overhang(length, kernel, stride, before, after) == max(0, beyond)


def test_pads_that_a_node_has_are_its_padding():
    m = graphs.model("y = MaxPool<kernel_shape = [3, 2], pads = [1, 0, 2, 1]>(x)", "float[1, 1, 9, 9] x")
    over = windows(Builder(), graphs.node(m, "MaxPool"))
    assert not over.is_same
    assert over.padded([9, 9]) == [*over.pads] == [1, 0, 2, 1]
    for wrong in ("MaxPool(x)", "MaxPool<kernel_shape = [3, 2], pads = [1, 0]>(x)",
                  "MaxPool<kernel_shape = [3, 2], dilations = [1]>(x)"):  # fmt: skip
        with pytest.raises(Unsupported):
            windows(Builder(), graphs.model(f"y = {wrong}", "float[1, 1, 9, 9] x").graph[0])
