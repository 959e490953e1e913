"""Primitives that change a tensor: what was changed stands for the new value from there on."""

from __future__ import annotations

from collections.abc import Mapping

from pinnace.ops.builder import Builder
from pinnace.ops.index import added_slices, copied_slices, index_put, put
from pinnace.ops.table import Tensor, find, primitive
from pinnace.ops.values import Effects, Value
from pinnace.program import Dialect


@primitive("Assign", "InplaceCopy", unused="non_blocking")
def assign(b: Builder, variable: Tensor, value: Tensor) -> Value:
    """Nothing, or Expand: the variable stands for the value from here on."""
    value = b.cast(value, b.dtype(variable))
    if b.shape(value) != b.shape(variable):
        value = b.op("Expand", value, b.vector(b.dims(variable)))
    # A value of its own: what is assigned next must not change what was assigned here.
    return b.memory.assign(variable, b.op("Identity", value))


def _in_place(names: Mapping[str, str]) -> None:
    for name, plain in names.items():
        _changing(name, plain)


def _changing(name: str, plain: str) -> None:
    @primitive(name, lowered_to=f"As {plain}, and the variable stands for the result from here on.")
    def lowering(b: Builder, variable: Tensor, *rest: Value) -> Value:
        row = find(Dialect.MINDSPORE, plain)
        assert row is not None  # `plain` is a name of this package
        arguments = [v for v in rest if not isinstance(v, Effects)]
        value = row.lower(b, [b.memory.read(variable), *arguments], {})
        value = b.cast(value, b.dtype(variable))
        if b.rank(variable) == 0 < b.rank(value):  # of one element
            value = b.reshape(value, [])
        return b.memory.assign(variable, value)


_in_place(
    {
        "AssignAdd": "Add",
        "AssignSub": "Sub",
        "InplaceAddExt": "AddExt",
        "InplaceAddsExt": "AddExt",
        "InplaceSubExt": "SubExt",
        "InplaceSubScalar": "SubExt",
        "InplaceMul": "Mul",
        "InplaceMuls": "Mul",
        "InplaceDiv": "Div",
        "InplaceDivs": "Div",
        "InplaceDivMod": "DivMod",
        "InplaceDivMods": "DivMod",
        "InplaceFloorDivide": "FloorDiv",
        "InplaceFloorDivides": "FloorDiv",
        "InplaceRemainderTensorTensor": "FloorMod",
        "InplaceRemainderTensorScalar": "FloorMod",
        "InplaceExp": "Exp",
        "InplaceLog": "Log",
        "InplaceFloor": "Floor",
        "InplaceSign": "Sign",
        "InplaceTanh": "Tanh",
        "InplaceSigmoid": "Sigmoid",
        "InplaceSiLU": "SiLU",
        "InplaceReLU": "ReLU",
        "InplaceElu": "Elu",
        "InplaceHardtanh": "Hardtanh",
        "InplaceThreshold": "Threshold",
        "InplaceClampScalar": "ClampScalar",
        "InplaceClampTensor": "ClampTensor",
        "InplaceMaskedFillScalar": "MaskedFill",
        "InplaceMaskedFillTensor": "MaskedFill",
        "InplaceZero": "ZerosLike",
        "InplaceFillScalar": "FullLike",
        "InplaceFillTensor": "FullLike",
        "InplaceAddmm": "Addmm",
        "InplaceScatterAdd": "ScatterAddExt",
        "InplaceScatterSrc": "Scatter",
        "InplaceScatterSrcReduce": "Scatter",
        "InplaceScatterValue": "ScatterValue",
        "InplaceScatterValueReduce": "ScatterValue",
        "ScatterNdUpdate": "TensorScatterUpdate",
        "ScatterNdAdd": "TensorScatterAdd",
        "ScatterNonAliasingAdd": "TensorScatterAdd",
        "ScatterNdSub": "TensorScatterSub",
        "ScatterNdMul": "TensorScatterMul",
        "ScatterNdDiv": "TensorScatterDiv",
        "InplaceIndexAddExt": "IndexAddExt",
        "InplaceIndexFillScalar": "IndexFillScalar",
        "InplaceIndexFillTensor": "IndexFillTensor",
        "InplaceMaskedScatter": "MaskedScatter",
        "InplaceErfinv": "Erfinv",
        "InplaceFillDiagonal": "FillDiagonal",
        "ScatterNdMax": "TensorScatterMax",
        "ScatterNdMin": "TensorScatterMin",
    }
)


def _scatter_rows(names: Mapping[str, str]) -> None:
    for name, plain in names.items():
        _scattering(name, plain)


def _scattering(name: str, plain: str) -> None:
    @primitive(name, lowered_to=f"As {plain}, by rows, and the variable stands for the result from here on.")
    def lowering(b: Builder, variable: Tensor, indices: Tensor, updates: Tensor) -> Value:
        row = find(Dialect.MINDSPORE, plain)
        assert row is not None  # `plain` is a name of this package
        value = row.lower(b, [b.memory.read(variable), b.op("Unsqueeze", indices, [-1]), updates], {})
        return b.memory.assign(variable, value)


_scatter_rows(
    {
        "ScatterUpdate": "TensorScatterUpdate",
        "ScatterAdd": "TensorScatterAdd",
        "ScatterSub": "TensorScatterSub",
        "ScatterMul": "TensorScatterMul",
        "ScatterDiv": "TensorScatterDiv",
        "ScatterMax": "TensorScatterMax",
        "ScatterMin": "TensorScatterMin",
    }
)


@primitive("IndexAdd", "InplaceIndexAdd", unused="use_lock check_index_bound")
def index_add(b: Builder, variable: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> Value:
    """ScatterElements, reduction add, and the variable stands for the result from here on."""
    return b.memory.assign(variable, added_slices(b, b.memory.read(variable), indices, updates, axis))


@primitive("InplaceIndexCopy")
def inplace_index_copy(b: Builder, variable: Tensor, dim: int, index: Tensor, tensor: Tensor) -> Value:
    """ScatterElements, and the variable stands for the result from here on."""
    return b.memory.assign(variable, copied_slices(b, b.memory.read(variable), index, tensor, dim))


@primitive("InplaceIndexPut", "InnerInplaceIndexPut")
def inplace_index_put(
    b: Builder, variable: Tensor, indices: Value, values: Tensor, accumulate: bool = False
) -> Value:
    """ScatterND at the indices, side by side, and the variable stands for the result from here on."""
    return b.memory.assign(variable, index_put(b, b.memory.read(variable), values, indices, accumulate))


@primitive("InplacePut")
def inplace_put(
    b: Builder, variable: Tensor, index: Tensor, source: Tensor, accumulate: bool = False
) -> Value:
    """ScatterElements of all elements in a row, and the variable stands for the result from here on."""
    return b.memory.assign(variable, put(b, b.memory.read(variable), index, source, accumulate))
