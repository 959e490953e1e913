"""A model's bytes, the tensors over them, and the files beside it."""

from __future__ import annotations

import os

import numpy as np
import pytest

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ModelFormatError
from pinnace.weights.source import SMALL, Source, check_shape, check_size, size_of

import_onnx_ir()

import onnx_ir as ir  # noqa: E402

FLOAT = ir.DataType.FLOAT
NUMBERS = np.arange(1000, dtype=np.float32)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(NUMBERS.tobytes())
    return path


@pytest.mark.parametrize("elements", [SMALL // 4, SMALL // 4 + 1])
def test_small_tensors_are_views_and_large_ones_stay_in_the_file(file, elements):
    source = Source.of_file(file)
    tensor = source.tensor("w", FLOAT, (elements,), 8, 4 * elements)
    assert isinstance(tensor, ir.ExternalTensor) is (elements > SMALL // 4)
    np.testing.assert_array_equal(tensor.numpy(), NUMBERS[2 : 2 + elements])
    np.testing.assert_array_equal(source.data_of(tensor), NUMBERS[2 : 2 + elements])
    assert not isinstance(
        Source.of_buffer(NUMBERS.tobytes()).tensor("w", FLOAT, (500,), 0, 2000), ir.ExternalTensor
    )


def test_a_tensor_may_end_with_the_file_and_not_beyond_it(file):
    source = Source.of_file(file)
    assert source.tensor("w", FLOAT, (1,), 3996, 4).numpy() == 999
    for offset in (3997, -4, 4000):
        with pytest.raises(ModelFormatError, match=f"is at bytes {offset} to {offset + 4}"):
            source.tensor("w", FLOAT, (1,), offset, 4)
    with pytest.raises(ModelFormatError, match=r"FLOAT\[2\], 8 bytes, but 4 are there"):
        source.tensor("w", FLOAT, (2,), 0, 4)
    with pytest.raises(ModelFormatError, match="cannot have dimensions"):
        source.tensor("w", FLOAT, (1,) * 65, 0, 4)
    assert source.tensor("w", FLOAT, (1,) * 64, 0, 4).numpy().size == 1
    assert source.tensor("w", FLOAT, (0, 3), 0, 0).numpy().shape == (0, 3)


def test_four_bits_are_packed():
    packed = Source.of_buffer(bytes([0x21, 0x43])).tensor("w", ir.DataType.UINT4, (4,), 0, 2)
    assert packed.numpy().tolist() == [1, 2, 3, 4]
    assert Source.of_buffer(bytes([0x21, 0x03])).tensor(
        "w", ir.DataType.UINT4, (3,), 0, 2
    ).numpy().tolist() == [
        1,
        2,
        3,
    ]


@pytest.mark.parametrize(
    ("dtype", "shape", "length", "fits"),
    [
        (FLOAT, (2, 3), 24, True),
        (FLOAT, (), 4, True),
        (FLOAT, (2, 3), 23, False),
        (ir.DataType.INT4, (3,), 2, True),
        (ir.DataType.INT4, (3,), 1, False),
        (ir.DataType.BFLOAT16, (3,), 6, True),
    ],
)
def test_the_size_of_a_tensor_is_that_of_its_elements(dtype, shape, length, fits):
    if fits:
        check_size("it", dtype, shape, length)
    else:
        with pytest.raises(ModelFormatError, match="bytes, but"):
            check_size("it", dtype, shape, length)


@pytest.mark.parametrize("shape", [(1 << 24, (1 << 24) + 1), (0, 1 << 49), (1,) * 65])
def test_shapes_beyond_all_memory_are_refused(shape):
    check_shape("it", (1 << 24, 1 << 24))
    check_shape("it", (0, 1 << 48))
    with pytest.raises(ModelFormatError, match="it cannot have dimensions"):
        check_shape("it", shape)
    with pytest.raises(ModelFormatError, match="it has a negative dimension"):
        check_shape("it", (-1, 2))


def test_text_has_no_size_and_numbers_have_theirs():
    assert size_of(ir.tensor(np.zeros((2, 3), np.float16))) == 12
    assert size_of(ir.StringTensor([b"a"], shape=ir.Shape((1,)))) == 0


@pytest.mark.parametrize(
    ("offset", "length", "shape"), [(0, 4000, (1000,)), (8, -1, (998,)), (4000, 0, (0,))]
)
def test_weights_beside_a_model_are_read_where_they_lie(file, offset, length, shape):
    source = Source.of_buffer(b"model", file.parent)
    tensor = source.external("w", FLOAT, shape, "model.bin", offset, length)
    np.testing.assert_array_equal(tensor.numpy(), NUMBERS[offset // 4 :])
    assert (source.files, source.size) == (["model.bin"], 5 + 4000)


@pytest.mark.parametrize(
    ("location", "offset", "message"),
    [
        ("none.bin", 0, "cannot open 'none.bin'"),
        ("../outside.bin", 0, "outside of the model's folder"),
        ("folder", 0, "is not a regular file"),
        ("model.bin", 3997, "bytes 3997 to 4001 of 'model.bin', which has only 4000"),
        ("model.bin", -1, "is at bytes -1 to 3"),
    ],
)
def test_weights_that_are_not_beside_it_are_refused(tmp_path, location, offset, message):
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    for path in (inside / "model.bin", tmp_path / "outside.bin"):
        path.write_bytes(NUMBERS.tobytes())
    with pytest.raises(ModelFormatError, match=message):
        Source.of_buffer(b"model", inside).external("w", FLOAT, (1,), location, offset, 4)
    with pytest.raises(ModelFormatError, match="outside of the model's folder"):
        Source.of_buffer(b"model", inside).external("w", FLOAT, (1,), str(inside / "model.bin"), 0, 4)
    with pytest.raises(ModelFormatError, match="set the path of the model"):
        Source.of_buffer(b"model").external("w", FLOAT, (1,), "model.bin", 0, 4)


def test_a_buffer_that_may_change_is_copied_and_another_is_not():
    fixed, changing = b"model", bytearray(b"model")
    assert Source.of_buffer(fixed).data.obj is fixed
    copied = Source.of_buffer(changing)
    changing[0] = 0
    assert bytes(copied.data) == b"model"
    strided = memoryview(b"m-o-d-e-l")[::2]
    assert bytes(Source.of_buffer(strided).data) == b"model"
    with pytest.raises(ModelFormatError, match="buffer is empty"):
        Source.of_buffer(b"")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.touch(), "the file is empty"),
        (lambda path: path.mkdir(), "is a directory, not a model file$"),
        (os.mkfifo, "is a pipe, which cannot be mapped"),
    ],
)
def test_what_cannot_be_mapped_is_named(tmp_path, make, message):
    make(tmp_path / "model")
    with pytest.raises(ModelFormatError, match=message):
        Source.of_file(tmp_path / "model")


def test_a_saved_model_is_told_from_other_folders(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(ModelFormatError, match="pinnace convert takes SavedModels"):
        Source.of_file(tmp_path)


def test_a_file_that_is_replaced_or_changed_is_noticed(file):
    source = Source.of_file(file)
    source.check_unchanged()
    assert source.again() is source
    assert source.state("")[2] == 4000
    other = file.with_name("other")
    other.write_bytes(NUMBERS.tobytes())
    other.rename(file)
    assert source.state("") == ()
    again = source.again()
    assert (again.path, again.seen, bytes(again.data)) == (None, {}, NUMBERS.tobytes())
    with pytest.raises(ModelFormatError, match="changed during or after the build"):
        source.check_unchanged()
    file.unlink()
    assert source.again().path is None


def test_a_link_has_the_folder_of_its_file(file, tmp_path):
    (tmp_path / "store").mkdir()
    link = tmp_path / "store" / "named.bin"
    link.symlink_to(file)
    source = Source.of_file(link)
    assert (source.folder, source.given) == (file.parent, str(link))
    assert Source.of_file(file).given == str(file)
    assert Source.of_buffer(b"x").given is None
