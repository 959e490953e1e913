"""Samples out of folders, by Pillow and numpy."""

import numpy as np
import pytest
from PIL import Image

from pinnace.errors import ConfigError
from pinnace.quantization.calibration import Calibration
from pinnace.types import DataType, Port

PIXELS = np.random.default_rng(3).integers(0, 256, (6, 9, 3)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "b.png")
    Image.fromarray(PIXELS[::-1]).save(tmp_path / "c.png")
    (tmp_path / "a").mkdir()
    return tmp_path


def port(*shape, dtype=DataType.FLOAT32):
    return Port("x", dtype, shape)


def test_a_picture_is_normalized_then_resized_then_cut(folder):
    how = Calibration({"x": folder}, 1, True, "RGB", [10, 20, 30], [2, 4, 8], (7, 5), "BICUBIC", (3, 4))
    ((given,),) = how.samples([port(-1, 4, 3, 3)])
    plain = ((PIXELS - np.array([10, 20, 30])) / np.array([2, 4, 8])).astype(np.float32)
    cubic = Image.Resampling.BICUBIC
    planes = [np.asarray(Image.fromarray(plane).resize((7, 5), cubic)) for plane in np.moveaxis(plain, 2, 0)]
    whole = np.stack(planes, axis=2)
    np.testing.assert_allclose(given, whole[np.newaxis, 0:4, 2:5], rtol=1e-6)
    assert given.dtype == np.float32


@pytest.mark.parametrize(
    ("colors", "expected"),
    [
        ("RGB", PIXELS),
        ("BGR", PIXELS[..., ::-1]),
        ("GRAY", np.asarray(Image.fromarray(PIXELS).convert("L"))[..., np.newaxis]),
    ],
)
def test_colors_in_the_order_of_dimensions_that_the_model_has(folder, colors, expected):
    how = Calibration({"x": folder}, 2, True, colors)
    first, second = how.samples([port(1, *expected.shape, dtype=DataType.UINT8)])
    assert (first[0][0] == expected).all()
    assert second[0].shape == first[0].shape
    turned = expected.transpose(2, 0, 1)
    ((given,), _) = how.samples([port(1, *turned.shape, dtype=DataType.UINT8)])
    assert (given[0] == turned).all()


def test_files_of_numbers_are_rows_for_each_prediction(tmp_path):
    arrays = {name: [np.full((2, 3), n, np.int32) for n in (7, 8)] for name in "xz"}
    for name, both in arrays.items():
        (tmp_path / name).mkdir()
        for number, array in enumerate(both):
            (array + 10 * (name == "z")).tofile(tmp_path / name / f"{number}.bin")
    how = Calibration({name: tmp_path / name for name in "zx"}, 2)
    rows = how.samples([Port(name, DataType.INT32, (2, 3)) for name in "xz"])
    assert [[x.ravel().tolist()[0] for x in row] for row in rows] == [[7, 17], [8, 18]]
    assert {x.shape for row in rows for x in row} == {(2, 3)}


@pytest.mark.parametrize(
    ("changes", "shape", "said"),
    [
        ({"count": 3}, (1, 3, 6, 9), "calibrate_size is 3, and .* has 2 files"),
        ({"mean": [1, 2]}, (1, 3, 6, 9), "normalize_mean has 2 numbers for 3 channels"),
        ({"std": [1, 2]}, (1, 3, 6, 9), "normalize_std has 2 numbers for 3 channels"),
        ({"crop": (10, 6)}, (1, 3, 6, 9), "center_crop is 10 x 6 of a picture of 9 x 6"),
        ({"crop": (9, 7)}, (1, 3, 6, 9), "center_crop is 9 x 7 of a picture of 9 x 6"),
        ({}, (1, 3, 9, 6), r"has \[3, 6, 9\] elements, and input 'x' is of shape \[1, 3, 9, 6\]"),
        ({}, (2, 3, 6, 9), "is of shape"),
    ],
)
def test_what_does_not_fit_is_named(folder, changes, shape, said):
    given = {"folders": {"x": folder}, "count": 1, "pictures": True, "colors": "RGB"}
    with pytest.raises(ConfigError, match=said):
        Calibration(**given | changes).samples([port(*shape)])


def test_folders_are_those_of_the_inputs(folder):
    for folders in ({"x": folder, "z": folder}, {"z": folder}):
        with pytest.raises(ConfigError, match="must name the inputs of the model, 'x'"):
            Calibration(folders, 1).samples([port(1)])
    with pytest.raises(ConfigError, match="none: No such file"):
        Calibration({"x": folder / "none"}, 1).samples([port(1)])
    whole = Calibration({"x": folder}, 1, True, "RGB", crop=(9, 6)).samples([port(1, 6, 9, 3)])
    assert (whole[0][0][0] == PIXELS).all()
