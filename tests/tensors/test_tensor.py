from __future__ import annotations

import weakref

import ml_dtypes
import numpy as np
import pytest

import pinnace
from pinnace import DataType, Format, Tensor, TensorMeta
from pinnace.errors import ArgumentValueError

NUMPY_TYPES = [
    *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16),
]


@pytest.mark.parametrize("kind", NUMPY_TYPES)
def test_every_element_type_goes_in_and_out_without_a_copy(kind: type) -> None:
    array = np.arange(6).astype(kind).reshape(2, 3)
    tensor = Tensor(array)
    assert tensor.shape == [2, 3]
    assert tensor.data_size == array.nbytes
    assert tensor.dtype.to_numpy() == array.dtype
    assert tensor.get_data_to_numpy() is not None
    assert np.shares_memory(tensor.get_data_to_numpy(), array)
    assert np.shares_memory(np.asarray(tensor), array)
    assert np.asarray(tensor).dtype == array.dtype


def test_a_change_of_the_array_is_seen_and_the_other_way() -> None:
    array = np.zeros(4, np.float32)
    tensor = Tensor(shape=[2, 2], dtype=DataType.FLOAT32)
    tensor.set_data_from_numpy(array)
    array[0] = 5
    assert tensor.get_data_to_numpy()[0, 0] == 5
    tensor.get_data_to_numpy()[1, 1] = 7
    assert array[3] == 7


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3)),
        np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2],
        np.arange(12, dtype=np.float32).reshape(4, 3)[::-1],
        np.arange(12, dtype=">f4").reshape(4, 3),
        np.broadcast_to(np.float32(3), (4, 3)),
    ],
    ids=["transposed", "fortran", "strided", "reversed", "big-endian", "broadcast"],
)
def test_other_layouts_keep_their_values(array: np.ndarray) -> None:
    for tensor in (Tensor(array), Tensor(shape=[4, 3], dtype=DataType.FLOAT32)):
        tensor.set_data_from_numpy(array)
        inside = tensor.get_data_to_numpy()
        np.testing.assert_array_equal(inside, array)
        assert inside.flags.c_contiguous
        assert inside.dtype == np.dtype(np.float32)
        assert inside.dtype.isnative


def test_tensor_of_tensor_has_its_name_and_shares_its_data() -> None:
    first = Tensor(np.ones((2, 2), np.int32))
    first.name, first.format = "x", Format.NHWC
    second = Tensor(first)
    assert (second.name, second.format, second.dtype) == ("x", Format.NHWC, DataType.INT32)
    assert np.shares_memory(second.get_data_to_numpy(), first.get_data_to_numpy())


def test_shape_and_dtype_must_agree_with_the_data() -> None:
    array = np.ones((2, 3), np.float32)
    assert Tensor(array, shape=[2, 3], dtype=DataType.FLOAT32).shape == [2, 3]
    with pytest.raises(TypeError, match=r"shape is \[3, 2\].*has \[2, 3\]"):
        Tensor(array, shape=[3, 2])
    with pytest.raises(TypeError, match=r"INT8.*FLOAT32"):
        Tensor(array, dtype=DataType.INT8)
    with pytest.raises(TypeError, match="complex64"):
        Tensor(np.ones(2, np.complex64))
    with pytest.raises(TypeError, match="shape must be list"):
        Tensor(shape="23")
    with pytest.raises(TypeError, match="dtype must be DataType"):
        Tensor(shape=[2], dtype=np.float32)


@pytest.mark.parametrize("device", [None, "cpu", "CPU", "cpu:0"])
def test_host_devices(device: str | None) -> None:
    assert Tensor(np.ones(2), device=device).device == "None:-1"


@pytest.mark.parametrize("device", ["ascend", "ascend:3", "gpu:0", "GPU"])
def test_other_devices_are_not_there(device: str) -> None:
    with pytest.raises(pinnace.errors.DeviceUnavailableError, match=device):
        Tensor(shape=[2], dtype=DataType.FLOAT32, device=device)


def test_a_device_that_is_none() -> None:
    with pytest.raises(ValueError, match="tpu"):
        Tensor(device="tpu")
    with pytest.raises(TypeError, match="device must be str, but got"):
        Tensor(device=0)


def test_without_data_a_tensor_holds_zeros() -> None:
    tensor = Tensor(shape=[2, 2], dtype=DataType.INT16)
    assert not tensor.has_data
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), np.zeros((2, 2), np.int16))
    tensor.get_data_to_numpy()[:] = 3
    assert tensor.get_data_to_numpy().sum() == 12


def test_free_dimensions_hold_no_data() -> None:
    tensor = Tensor(shape=[-1, 2], dtype=DataType.FLOAT32)
    assert (tensor.element_num, tensor.data_size) == (0, 0)
    with pytest.raises(RuntimeError, match=r"free dimensions: resize the model, or set tensor.shape"):
        tensor.get_data_to_numpy()
    with pytest.raises(RuntimeError, match="free dimensions"):
        tensor.set_data_from_numpy(np.ones((0, 2), np.float32))


def test_a_wrong_dtype_and_a_wrong_size_name_both_sides() -> None:
    tensor = Tensor(shape=[2, 2], dtype=DataType.FLOAT32)
    with pytest.raises(RuntimeError, match=r"float64.*FLOAT32"):
        tensor.set_data_from_numpy(np.ones(4))
    with pytest.raises(RuntimeError, match=r"12.*16"):
        tensor.set_data_from_numpy(np.ones(3, np.float32))
    assert not tensor.has_data


def test_shape_of_the_same_size_keeps_the_data_and_another_drops_it() -> None:
    array = np.arange(6, dtype=np.float32)
    tensor = Tensor(array)
    tensor.shape = (2, 3)
    assert np.shares_memory(tensor.get_data_to_numpy(), array)
    assert tensor.get_data_to_numpy().shape == (2, 3)
    tensor.shape = [-1, 3]
    assert not tensor.has_data
    tensor.set_shape([4])
    assert tensor.get_data_to_numpy().tolist() == [0, 0, 0, 0]


def test_another_dtype_drops_the_data() -> None:
    tensor = Tensor(np.ones(3, np.float32))
    tensor.dtype = DataType.FLOAT32
    assert tensor.has_data
    tensor.dtype = DataType.INT32
    assert not tensor.has_data


def test_shape_is_a_copy() -> None:
    tensor = Tensor(np.ones((2, 3)))
    tensor.shape.append(9)
    assert tensor.shape == [2, 3]


def test_array_protocol_converts_and_copies() -> None:
    tensor = Tensor(np.array([1, 2], np.float32))
    assert np.asarray(tensor, np.float64).tolist() == [1.0, 2.0]
    assert not np.shares_memory(np.array(tensor), tensor.get_data_to_numpy())
    assert np.shares_memory(tensor.__array__(copy=False), tensor.get_data_to_numpy())
    with pytest.raises(ValueError, match="copy is needed"):
        tensor.__array__(np.float64, copy=False)


def test_dlpack_shares_the_data() -> None:
    tensor = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert tensor.__dlpack_device__() == (1, 0)  # 1 is kDLCPU of dlpack.h
    other = np.from_dlpack(tensor)
    assert np.shares_memory(other, tensor.get_data_to_numpy())
    assert other.shape == (2, 3)


def test_names_of_older_releases() -> None:
    tensor = Tensor()
    tensor.set_tensor_name("a")
    tensor.set_data_type(DataType.INT8)
    tensor.set_shape([2, 5])
    tensor.set_format(Format.NHWC)
    assert tensor.get_tensor_name() == "a"
    assert tensor.get_data_type() is DataType.INT8
    assert tensor.get_shape() == [2, 5]
    assert tensor.get_format() is Format.NHWC
    assert tensor.get_element_num() == 10
    assert tensor.get_data_size() == 10
    with pytest.raises(TypeError, match="tensor_name must be str"):
        tensor.set_tensor_name(1)
    with pytest.raises(TypeError, match="data_type must be DataType"):
        tensor.set_data_type("int8")
    with pytest.raises(TypeError, match="tensor_format must be Format"):
        tensor.set_format("NHWC")


def test_meta_prints_like_a_tensor() -> None:
    meta = TensorMeta()
    assert str(meta) == (
        "name: ,\ndtype: DataType.UNKNOWN,\nshape: [],\nformat: Format.DEFAULT,\n"
        "element_num: 0,\ndata_size: 0."
    )


def test_names_can_be_imported_from_where_mindspore_lite_has_them() -> None:
    from pinnace.api.model import ModelGroupFlag, ModelType
    from pinnace.tensors.tensor import DataType as SameType

    assert SameType is DataType
    assert (ModelType, ModelGroupFlag) == (pinnace.ModelType, pinnace.ModelGroupFlag)


def test_scripts_keep_notes_on_tensors() -> None:
    """And weak references to them: any object of mindspore_lite 2.0.0 takes both."""
    made, given = Tensor(), Tensor(np.ones(2, np.float32))
    given.camera = "left"
    notes = weakref.WeakKeyDictionary({made: "a", given: "b"})
    assert (given.camera, notes[given], len(notes)) == ("left", "b", 2)


def test_dimensions_are_ints() -> None:
    """A bool is one in Python. With data there numpy refused it, and mindspore_lite gives the int back."""
    tensor = Tensor(np.ones(4, np.float32))
    tensor.shape = [2, True, 2]
    assert str(tensor.shape) == str(Tensor(shape=[2, True, 2]).shape) == "[2, 1, 2]"
    assert tensor.get_data_to_numpy().shape == (2, 1, 2)


@pytest.mark.parametrize("shape", [[1 << 62], [1 << 70], [1] * 70])
def test_a_shape_that_no_array_has(shape: list[int]) -> None:
    tensor = Tensor(shape=shape)
    tensor.name = "x"
    with pytest.raises(RuntimeError, match=r"tensor 'x' of shape \[.*\] can hold no data: "):
        tensor.get_data_to_numpy()


def test_an_array_that_memory_cannot_hold_is_an_error():
    wide = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 44, 4), (0, 0))
    with pytest.raises(ArgumentValueError, match="cannot hold an array of shape"):
        Tensor(wide)
