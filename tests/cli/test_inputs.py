"""Inputs of commands: which file goes where, and the arrays that files and numbers become."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from pinnace import DataType, Format, Tensor
from pinnace.cli import inputs
from pinnace.cli.inputs import Pictures, assign, feed
from pinnace.cli.opening import batched, context_for
from pinnace.errors import ArgumentValueError, ConfigError


def tensor(shape=(2, 3), dtype=DataType.FLOAT32, name="x"):
    made = Tensor(dtype=dtype, shape=list(shape))
    made.name = name
    return made


def fed(file, shape, dtype=DataType.FLOAT32, pictures=None, layout=Format.NCHW):
    """Return what a file becomes for an input of a shape, which may be free."""
    one = tensor([max(size, 1) for size in shape], dtype)
    one.format = layout
    files = {} if file is None else {"x": Path(file)}
    (found,) = feed([one], files, {"x": tuple(shape)}, pictures or Pictures())
    return found


def test_files_go_to_the_inputs_that_they_name_and_others_are_in_order(tmp_path):
    equal = tmp_path / "a=1.npy"
    equal.touch()
    found = assign(["b=x.npy", "y.npy", str(equal)], ["a", "b", "c"])
    assert found == {"b": Path("x.npy"), "a": Path("y.npy"), "c": equal}
    assert assign([], ["a"]) == assign([], []) == {}
    for given, message in (
        (["d=x.npy"], "there is no input 'd', only 'a', 'b'"),
        (["a=x.npy", "a=y.npy"], "'a' was given x.npy already"),
        (["x", "y", "z"], "--input z: too many; there is only 'a', 'b'"),
    ):
        with pytest.raises(ArgumentValueError, match=message):
            assign(given, ["a", "b"])


def test_arrays_of_an_npz_file_go_to_their_names_if_they_fit_into_the_memory(tmp_path, monkeypatch):
    path = str(tmp_path / "both.npz")
    np.savez(path, b=np.zeros(4), a=np.zeros(4))
    assert assign([path], ["a", "b"]) == {"a": Path(path), "b": Path(path)}
    size = 2 * (128 + 4 * 8)  # of two files .npy, heads and numbers
    monkeypatch.setattr(inputs, "usable_memory", lambda: size)
    assert assign([path], ["a", "b"])
    monkeypatch.setattr(inputs, "usable_memory", lambda: size - 1)
    with pytest.raises(ArgumentValueError, match="larger than the usable memory"):
        assign([path], ["a", "b"])


@pytest.mark.parametrize(
    ("shape", "size", "result"),
    [
        ((2, 3), 24, (2, 3)),
        ((2, 3), 48, "has 48 bytes, but the input [2, 3] takes 24"),
        ((2, 3), 20, "has 20 bytes, but the input [2, 3] takes 24"),
        ((-1, 3), 48, (4, 3)),
        ((-1, 3), 44, "takes a multiple of 12"),
        ((-1, -1), 24, "give --shape"),
        ((0, -1), 0, "has 0 elements"),
        ((0, 3), 0, (0, 3)),
        ((0, 3), 4, "takes 0"),
    ],
)
def test_raw_values_have_the_size_of_the_input(tmp_path, shape, size, result):
    path = tmp_path / "x.bin"
    path.write_bytes(np.arange(size // 4, dtype=np.float32).tobytes())
    if isinstance(result, tuple):
        found = fed(path, shape).array
        assert (found.shape, found.ravel().tolist()) == (result, list(range(size // 4)))
    else:
        with pytest.raises(ArgumentValueError) as raised:
            fed(path, shape)
        assert result in str(raised.value)


@pytest.mark.parametrize(
    ("text", "dtype", "values"),
    [
        ("16000", DataType.FLOAT32, [16000]), ("-1,+2", DataType.INT8, [-1, 2]),
        (".5,1e-3", DataType.FLOAT64, [0.5, 0.001]), ("18446744073709551615", DataType.UINT64, [2**64 - 1]),
        ("nan,-inf,Inf", DataType.FLOAT32, [np.nan, -np.inf, np.inf]),
        ("true,False,1", DataType.BOOL, [True, False, True]), ("true", DataType.FLOAT32, None),
        ("nan", DataType.INT32, None), ("300", DataType.UINT8, None),
        ("1.5", DataType.INT32, None), ("1,,2", DataType.INT32, None),
    ],
)  # fmt: skip
def test_numbers_in_the_place_of_a_file_are_exact(text, dtype, values):
    if values is None:
        with pytest.raises(ArgumentValueError, match=f"input 'x' from {text}"):
            fed(text, (1,), dtype)
    else:
        found = fed(text, (len(values),), dtype).array
        np.testing.assert_array_equal(found, np.array(values, dtype.to_numpy()), strict=True)


@pytest.mark.parametrize(
    ("dtype", "written"),
    [
        (DataType.FLOAT32, ">f4"),
        (DataType.INT64, ">i8"),
        (DataType.BFLOAT16, "<f4"),
        (DataType.BFLOAT16, ">f4"),
    ],
)
def test_arrays_of_other_bytes_and_bfloat16_as_it_is_saved_are_taken(tmp_path, dtype, written):
    np.save(tmp_path / "x.npy", np.array([1, -2, 3]).astype(written))
    found = fed(tmp_path / "x.npy", (3,), dtype).array
    assert (found.tolist(), found.dtype) == ([1, -2, 3], dtype.to_numpy())


@pytest.mark.parametrize(
    ("dtype", "is_random"),
    [
        (DataType.FLOAT16, True), (DataType.FLOAT32, True), (DataType.FLOAT64, True),
        (DataType.BFLOAT16, True), (DataType.INT32, False), (DataType.BOOL, False), (DataType.UINT8, False),
    ],
)  # fmt: skip
def test_floats_without_a_file_are_random_and_others_zeros(dtype, is_random):
    found = fed(None, (4, -1), dtype)
    assert (found.array.shape, found.array.dtype) == ((4, 1), dtype.to_numpy())
    assert (found.made_up, found.guessed) == (True, True)
    assert (len({*found.array.ravel().tolist()}) == 4) is is_random
    assert (found.array >= 0).all()
    assert (found.array <= 1).all()
    whole = fed(None, (2,), dtype)
    assert (whole.made_up, whole.guessed) == (True, False)


def test_a_file_is_neither_made_up_nor_guessed(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    found = fed(tmp_path / "x.npy", (-1, 3))
    assert (found.made_up, found.guessed, found.source) == (False, False, str(tmp_path / "x.npy"))
    with pytest.raises(ArgumentValueError, match="is not a regular file"):
        fed(tmp_path, (2, 3))
    with pytest.raises(ArgumentValueError, match="is not a regular file"):
        fed("/dev/zero", (2, 3))


@pytest.fixture
def pixels(tmp_path):
    """A picture of 4 x 4 pixels as a file, and its array."""
    array = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    Image.fromarray(array).save(tmp_path / "p.png")
    return tmp_path / "p.png", array


@pytest.mark.parametrize(
    ("shape", "layout", "is_first"),
    [
        ((1, 3, 4, 4), Format.NHWC, True), ((1, 4, 4, 3), Format.NCHW, False),
        ((-1, 3, 4, 4), Format.NHWC, True), ((1, 3, 4, 3), Format.NCHW, True),
        ((1, 3, 4, 3), Format.NHWC, False), ((1, 1, 4, 4), Format.NHWC, True),
        ((1, 4, 4, 1), Format.NCHW, False),
    ],
)  # fmt: skip
def test_the_channels_of_a_picture_are_where_the_shape_or_the_model_says(pixels, shape, layout, is_first):
    path, array = pixels
    found = fed(path, shape, DataType.FLOAT32, Pictures(scale=1), layout).array
    assert found.shape == (1, *shape[1:])
    channels = found[0] if is_first else found[0].transpose(2, 0, 1)
    if channels.shape == (3, 4, 4):
        np.testing.assert_array_equal(channels, array.transpose(2, 0, 1))


def test_a_picture_is_divided_by_255_and_needs_one_place(pixels):
    path, array = pixels
    found = fed(path, (1, 4, 4, 3)).array
    np.testing.assert_allclose(found[0], array / 255, rtol=1e-6)
    for shape in ((2, 3, 4, 4), (3, 4, 4), (1, 1, 3, 4, 4)):
        with pytest.raises(ArgumentValueError, match="a picture needs 4 dimensions, the first of them 1"):
            fed(path, shape)
    for shape in ((1, 3, -1, 4), (1, 3, 4, -1), (1, -1, -1, 3)):
        with pytest.raises(ArgumentValueError, match=r"give --shape, as in --shape x=1,.*224"):
            fed(path, shape)
    assert fed(path, (1, 3, -1, -1), pictures=Pictures(size=(2, 5))).array.shape == (1, 3, 2, 5)


def test_a_size_of_pictures_fits_what_the_model_fixes(pixels, monkeypatch):
    path, _ = pixels
    assert fed(path, (1, 3, 4, -1), pictures=Pictures(size=(4, 5))).array.shape == (1, 3, 4, 5)
    with pytest.raises(ArgumentValueError, match=r"--size 8,8: the input takes \[1, 3, 4, -1\]"):
        fed(path, (1, 3, 4, -1), pictures=Pictures(size=(8, 8)))
    monkeypatch.setattr(inputs, "usable_memory", lambda: 1000)
    for file, size in ((path, (10, 9)), (None, None)):
        with pytest.raises(ArgumentValueError, match="has 1080 bytes, but this process may use only 1000"):
            fed(file, (1, 3, -1, -1) if file else (1, 3, 10, 9), pictures=Pictures(size=size))


def test_a_picture_keeps_its_pixels_in_an_input_of_integers(pixels):
    path, array = pixels
    assert (fed(path, (1, 4, 4, 3), DataType.UINT8).array[0] == array).all()
    halved = fed(path, (1, 4, 4, 3), DataType.INT8, Pictures(scale=0.25, mean=2)).array
    assert (halved[0] == np.rint(array / 4 - 2)).all()
    for dtype, mean, values in ((DataType.UINT8, 20, "-20 to 27"), (DataType.INT8, -90, "90 to 137")):
        with pytest.raises(
            ArgumentValueError, match=f"gives {values}, but the input takes u?int8: see --scale"
        ):
            fed(path, (1, 4, 4, 3), dtype, Pictures(mean=mean))


def test_a_batch_is_the_first_dimension_of_the_inputs_that_leave_it_free():
    shapes = {"x": [-1, 3], "y": [2, -1], "z": []}
    free, fixed, scalar = (SimpleNamespace(name=name, shape=shape) for name, shape in shapes.items())
    assert batched([free, fixed, scalar], {}, 5) == {"x": (5, 3)}
    assert batched([free], {"x": (1, 7)}, 5) == {"x": (5, 7)}
    with pytest.raises(ArgumentValueError, match="--batch 5: --shape x=2,7 has another first dimension"):
        batched([free], {"x": (2, 7)}, 5)
    with pytest.raises(ArgumentValueError, match="--batch 5: no input has a free first dimension"):
        batched([fixed, scalar], {}, 5)


def test_settings_of_a_command_are_those_of_the_context(tmp_path):
    (tmp_path / "c.ini").touch()
    context = context_for(3, tmp_path / "c.ini", 2, "openvino", "preferred_fp16")
    assert (context.target, context.cpu.thread_num, context.cpu.provider) == (["cpu"], 3, "openvino")
    assert (context.cpu.precision_mode, context.parallel.workers_num) == ("preferred_fp16", 2)
    assert context.parallel.config_path == str(tmp_path / "c.ini")
    assert (context_for(1).parallel.workers_num, context_for(1).parallel.config_path) == (1, "")
    with pytest.raises(ConfigError, match="there is no such file"):
        context_for(1, tmp_path / "none.ini")
