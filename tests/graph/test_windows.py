"""Padding of windows, compared with what onnxruntime gives for `auto_pad`."""

import graphs
import numpy as np
import pytest

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.windows import windows


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
