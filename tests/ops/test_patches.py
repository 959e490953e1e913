"""Windows that slide over images, beside numpy."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.ops.applied import results

from pinnace.graph.failures import Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.program import Dialect

IMAGE = np.random.default_rng(23).normal(size=(2, 3, 9, 8)).astype(np.float32)


def columns(x: np.ndarray, kernel, stride, dilation, padding) -> np.ndarray:
    """(n, c, places of a window, windows)."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    found = [
        x[:, :, row : row + reach[0] : dilation[0], column : column + reach[1] : dilation[1]]
        for row in range(0, x.shape[2] - reach[0] + 1, stride[0])
        for column in range(0, x.shape[3] - reach[1] + 1, stride[1])
    ]
    return np.stack([window.reshape(*x.shape[:2], -1) for window in found], -1)


WINDOWS = [
    ((3, 2), (2, 1), (1, 3), (1, 0)),
    ((2, 2), (1, 1), (1, 1), (0, 0)),
    ((1, 4), (3, 2), (2, 1), (0, 2)),
]


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), WINDOWS)
def test_windows_are_columns(kernel, stride, dilation, padding, free):
    window = {"kernel_size": kernel, "stride": stride, "dilation": dilation}
    expected = columns(IMAGE, kernel, stride, dilation, padding)
    (found,) = results(Dialect.MINDSPORE, "Im2Col", [IMAGE], free=free, ksizes=kernel, strides=stride,
                       dilations=dilation, pads=padding)  # fmt: skip
    np.testing.assert_array_equal(found, expected)
    if free:
        with pytest.raises(Unsupported, match="needs the number of channels fixed"):
            results(Dialect.MINDSPORE, "Im2ColExt", [IMAGE], free=True, padding=padding, **window)
    else:
        (flat,) = results(Dialect.MINDSPORE, "Im2ColExt", [IMAGE], padding=padding, **window)
        np.testing.assert_array_equal(flat, expected.reshape(2, -1, expected.shape[-1]))


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), WINDOWS)
@pytest.mark.parametrize("form", ["apart", "flat", "of one image"])
@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
def test_columns_are_summed_up_to_an_image(kernel, stride, dilation, padding, form, free):
    given = columns(IMAGE, kernel, stride, dilation, padding)
    places = columns(np.arange(72.0).reshape(1, 1, 9, 8) + 1, kernel, stride, dilation, padding)[0, 0].astype(
        int
    )
    expected = np.zeros((2, 3, 73))
    for place, window in np.ndindex(places.shape):
        expected[:, :, places[place, window]] += given[:, :, place, window]
    flat = given.reshape(2, -1, given.shape[-1])
    x = {"apart": given, "flat": flat, "of one image": flat[0]}[form]
    (found,) = results(Dialect.MINDSPORE, "Col2Im", [x, (9, 8)], kernel_size=kernel, stride=stride,
                       dilation=dilation, padding=padding, free=free)  # fmt: skip
    expected = expected[..., 1:].reshape(2, 3, 9, 8)
    np.testing.assert_allclose(
        found, expected[0] if form == "of one image" else expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_patches_of_an_image(padding):
    kernel, stride, rate = (3, 2), (2, 3), (2, 1)
    x = IMAGE
    if (
        padding == "SAME"
    ):  # the windows begin at every third or second place, the rest around them is shared out
        total = [max((-(-n // s) - 1) * s + r * (k - 1) + 1 - n, 0)
                 for n, k, s, r in zip(x.shape[2:], kernel, stride, rate, strict=True)]  # fmt: skip
        x = np.pad(x, ((0, 0), (0, 0), *((n // 2, n - n // 2) for n in total)))
    expected = columns(x, kernel, stride, rate, (0, 0))
    (found,) = results(Dialect.MINDSPORE, "ExtractImagePatches", [IMAGE], ksizes=kernel, strides=stride,
                       rates=rate, padding=padding)  # fmt: skip
    assert found.shape[1] == 18
    np.testing.assert_array_equal(found.reshape(2, 6, 3, -1), expected.swapaxes(1, 2))


AROUND = (0, 0, 1, 2, 0, 0, 3, 1)


@pytest.mark.parametrize(
    ("operator", "more", "pads", "filler", "taken"),
    [
        ("Relu", (), AROUND, None, True),
        ("Relu", (), AROUND, 0.0, True),
        ("Sigmoid", (), AROUND, 0.0, True),
        ("Abs", (), AROUND, 0.0, True),
        ("Clip", (0.0,), AROUND, 0.0, True),
        ("Clip", (0.5, 2.0), AROUND, 0.0, True),
        ("Clip", (-1.0,), AROUND, 0.0, False),
        ("Clip", (), AROUND, 0.0, False),
        ("Neg", (), AROUND, 0.0, False),
        ("Relu", (), AROUND, 1.0, False),
        ("Relu", (), (0, 1, 1, 2, 0, 0, 3, 1), 0.0, False),
        ("Relu", (), (0, 0, -1, 2, 0, 0, 3, 1), 0.0, False),
    ],
)
def test_a_max_pool_takes_up_zeros_around_what_is_not_below_them(operator, more, pads, filler, taken):
    b = LoweringBuilder()
    x = ir.Value(name="x", shape=ir.Shape(IMAGE.shape), type=ir.TensorType(ir.DataType.FLOAT))
    image = b.op(operator, x, *(b.constant(n, np.float32) for n in more))
    padded = b.op("Pad", image, b.constant(pads, np.int64), *([] if filler is None else [b.like(filler, x)]))
    window = {"kernel_size": (1, 1, 4, 4), "strides": (1, 1, 2, 2), "pad_mode": "valid", "format": "NCHW"}
    find(Dialect.MINDSPORE, "MaxPool").lower(b, [padded], window)
    (pool,) = (node for node in b.nodes if node.op_type == "MaxPool")
    assert (pool.inputs[0] is image) is taken
    assert pool.attributes.get_ints("pads", ()) == ((1, 2, 3, 1) if taken else ())
