"""Pictures and labels of Python: the values of the command line, by another name."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, ImageOps

import pinnace as mslite
from pinnace.errors import ArgumentValueError


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(4).integers(0, 256, (11, 17, 3), np.uint8)).save(path)
    return path


@pytest.mark.parametrize(
    ("shape", "flags", "arguments"),
    [
        ("1,3,6,8", (), {}),
        ("1,6,8,3", ("--crop", "0.8"), {"layout": "NHWC", "crop": 0.8}),
        ("1,1,6,8", ("--mean", "1", "--std", "0.5"), {"channels": 1, "mean": 1, "std": 0.5}),
        (
            "1,3,6,8",
            ("--scale", "1/128", "--mean", "120,110,100", "--std", "50,60,70"),
            {"scale": 1 / 128, "mean": (120, 110, 100), "std": [50, 60, 70]},
        ),
    ],
)
def test_pictures_are_those_of_the_command_line(pinnace, onnx_file, tmp_path, photo, shape, flags, arguments):
    model = onnx_file(["Identity x -> y"], [f"x float {shape}"], [f"y float {shape}"])
    assert pinnace("run", model, "--input", photo, *flags, "--save", tmp_path).code == 0
    values = mslite.images.load(photo, (6, 8), **arguments)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, np.load(tmp_path / "y.npy"))


def test_a_picture_keeps_its_size_and_its_pixels(photo):
    values = mslite.images.load(photo, scale=1, layout="NHWC")
    np.testing.assert_array_equal(values[0], np.asarray(Image.open(photo), np.float32))


@pytest.mark.parametrize(
    ("size", "crop", "box"),  # of a picture of 17 x 11: left, top, right, bottom
    [
        (None, None, (0, 0, 17, 11)),
        ((6, 8), None, (0, 0, 17, 11)),
        ((5, 5), 1, (3, 0, 14, 11)),
        ((5, 5), 0.5, (6, 3, 11, 8)),
        ((11, 34), 1, (0, 3, 17, 8)),
        ((4, 4), 0.01, (8, 5, 9, 6)),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_cropped_resized_and_normalized_as_pillow_and_numpy_do(photo, size, crop, box, channels):
    mean, std = ([0.1, 0.2, 0.3], [0.5, 0.25, 0.125]) if channels == 3 else (0.1, 0.5)
    picture = Image.open(photo).convert("RGB" if channels == 3 else "L").crop(box)
    picture = picture.resize((17, 11) if size is None else size[::-1], Image.Resampling.BICUBIC)
    pixels = np.asarray(picture, np.float64).reshape(picture.height, picture.width, channels)
    expected = ((pixels / 255 - mean) / std)[np.newaxis]
    for layout, order in (("NHWC", (0, 1, 2, 3)), ("NCHW", (0, 3, 1, 2))):
        found = mslite.images.load(
            photo, size, crop=crop, mean=mean, std=std, channels=channels, layout=layout
        )
        np.testing.assert_allclose(found, expected.transpose(order), atol=1e-5)


def test_values_are_pixels_by_255_if_nothing_else_is_said(photo):
    pixels = np.asarray(Image.open(photo), np.float32)
    np.testing.assert_allclose(mslite.images.load(photo)[0], pixels.transpose(2, 0, 1) / 255, atol=1e-6)


@pytest.mark.parametrize("name", ["gray.png", "gray.tif"])
def test_gray_of_16_bits_has_its_upper_8(tmp_path, name):
    pixels = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(pixels).save(tmp_path / name)
    for channels in (1, 3):
        found = mslite.images.load(tmp_path / name, scale=1, channels=channels)
        np.testing.assert_array_equal(found, np.broadcast_to(pixels >> 8, found.shape))


@pytest.mark.parametrize(("dtype", "mode"), [(np.float32, "F"), (np.int32, "I")])
def test_pixels_without_a_white_are_refused(tmp_path, dtype, mode):
    Image.fromarray(np.ones((4, 4), dtype)).save(tmp_path / "p.tif")
    with pytest.raises(ArgumentValueError, match=f"p.tif: cannot be read: no number of mode {mode} is said"):
        mslite.images.load(tmp_path / "p.tif")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_its_exif_says(photo, tmp_path, orientation):
    exif = Image.Exif()
    exif[ImageOps.ExifTags.Base.Orientation] = orientation
    Image.open(photo).save(tmp_path / "turned.png", exif=exif)
    shown = ImageOps.exif_transpose(Image.open(tmp_path / "turned.png"))
    found = mslite.images.load(tmp_path / "turned.png", scale=1, layout="NHWC")
    np.testing.assert_array_equal(found[0], np.asarray(shown))


def test_numbers_of_a_picture_are_resized_channel_by_channel():
    pixels = np.random.default_rng(0).normal(size=(4, 6, 2)).astype(np.float32)
    found = mslite.images.resized(pixels, (3, 8), "BILINEAR")
    assert found.shape == (8, 3, 2)
    for channel in range(2):
        expected = Image.fromarray(pixels[:, :, channel]).resize((3, 8), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(found[:, :, channel], np.asarray(expected))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": (1, 2)}, "mean has 2 numbers"),
        ({"std": (1, 0, 1)}, "std must not be 0"),
        ({"crop": 1.5}, "crop must be"),
        ({"layout": "CHW"}, "layout must be NCHW or NHWC, but got 'CHW'"),
        ({"channels": 4}, "1 or 3 channels, not 4"),
        ({"size": (0, 4)}, "size must be two numbers of at least 1"),
        ({"size": 224}, "size must be two numbers of at least 1"),
    ],
)
def test_arguments_that_do_not_fit(photo, arguments, message):
    with pytest.raises(ArgumentValueError, match=message):
        mslite.images.load(photo, **arguments)


def test_labels_name_the_highest_of_each_row(tmp_path):
    names = ["cat", "dog", "owl"]
    (tmp_path / "names.txt").write_text("\n".join(names))
    values = np.array([[0.25, 2, -1], [3, 1, 2]], np.float32)
    first, second = mslite.labels(mslite.Tensor(values), tmp_path / "names.txt", top=2)
    assert first == [mslite.Ranked("dog", 1, 2.0), mslite.Ranked("cat", 0, 0.25)]
    assert [one.label for one in second] == ["cat", "owl"]
    ((best, *others),) = mslite.labels(values[1], names)
    assert (best.label, len(others)) == ("cat", 2)
    for unfit in values[:, :2], np.array(1.0), np.array(["a", "b", "c"]):
        with pytest.raises(ArgumentValueError, match="3 names need as many numbers"):
            mslite.labels(unfit, names)


def test_import_takes_no_picture_library():
    code = "import sys, pinnace; assert 'PIL' not in sys.modules; pinnace.images; assert 'PIL' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_picture_that_is_a_program_is_none(tmp_path, monkeypatch):
    """Pillow gives an EPS, whatever its name is, to Ghostscript."""
    path = tmp_path / "cat.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n")
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_, **__: pytest.fail("ran it"))
    with pytest.raises(ArgumentValueError, match="not a picture"):
        mslite.images.load(path)
