"""Primitives that change a tensor: what was changed stands for the new value from there on."""

from __future__ import annotations

from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.mindspore.index import index_put, put, put_slices
from pinnace.ops.table import Tensor, lowered, primitive, primitives
from pinnace.ops.values import Effects, Value


@primitive("Assign", "InplaceCopy", unused="non_blocking")
def assign(b: LoweringBuilder, variable: Tensor, value: Tensor) -> Value:
    """Nothing, or Expand: the variable stands for the value from here on."""
    value = b.cast(value, b.dtype(variable))
    if b.shape(value) != b.shape(variable):
        value = b.Expand(value, b.vector(b.dims(variable)))
    # A value of its own: what is assigned next must not change what was assigned here.
    return b.memory.assign(variable, b.Identity(value))


_SAME_NAME = """
AddExt SubExt Mul Div DivMod Exp Log Floor Sign Tanh Sigmoid SiLU ReLU Elu Hardtanh Threshold ClampScalar
ClampTensor Addmm ScatterValue IndexAddExt IndexFillScalar IndexFillTensor MaskedScatter Erfinv FillDiagonal
"""
"""Primitives of which MindSpore has one with the name `Inplace...` too."""


@primitives(
    {
        **{f"Inplace{name}": name for name in _SAME_NAME.split()},
        "AssignAdd": "Add",
        "AssignSub": "Sub",
        "InplaceAddsExt": "AddExt",
        "InplaceSubScalar": "SubExt",
        "InplaceMuls": "Mul",
        "InplaceDivs": "Div",
        "InplaceDivMods": "DivMod",
        "InplaceFloorDivide InplaceFloorDivides": "FloorDiv",
        "InplaceRemainderTensorTensor InplaceRemainderTensorScalar": "FloorMod",
        "InplaceMaskedFillScalar InplaceMaskedFillTensor": "MaskedFill",
        "InplaceZero": "ZerosLike",
        "InplaceFillScalar InplaceFillTensor": "FullLike",
        "InplaceScatterAdd": "ScatterAddExt",
        "InplaceScatterSrc InplaceScatterSrcReduce": "Scatter",
        "InplaceScatterValueReduce": "ScatterValue",
        "ScatterNdUpdate": "TensorScatterUpdate",
        "ScatterNdAdd ScatterNonAliasingAdd": "TensorScatterAdd",
        "ScatterNdSub": "TensorScatterSub",
        "ScatterNdMul": "TensorScatterMul",
        "ScatterNdDiv": "TensorScatterDiv",
        "ScatterNdMax": "TensorScatterMax",
        "ScatterNdMin": "TensorScatterMin",
    }
)
def in_place(b: LoweringBuilder, plain: str, variable: Tensor, *rest: Value) -> Value:
    """As {plain}, and the variable stands for the result from here on."""
    arguments = [v for v in rest if not isinstance(v, Effects)]
    value = lowered(b, plain, b.memory.read(variable), *arguments)
    value = b.cast(value, b.dtype(variable))
    if b.rank(variable) == 0 < b.rank(value):  # of one element
        value = b.reshape(value, [])
    return b.memory.assign(variable, value)


_REDUCTIONS = ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min")


@primitives({f"Scatter{name}": f"TensorScatter{name}" for name in _REDUCTIONS})
def scatter_rows(b: LoweringBuilder, plain: str, variable: Tensor, indices: Tensor, updates: Tensor) -> Value:
    """As {plain}, by rows, and the variable stands for the result from here on."""
    rows = b.Unsqueeze(indices, [-1])
    return b.memory.assign(variable, lowered(b, plain, b.memory.read(variable), rows, updates))


@primitive("IndexAdd", "InplaceIndexAdd", unused="use_lock check_index_bound")
def _index_add(b: LoweringBuilder, variable: Tensor, index: Tensor, updates: Tensor, *, axis: int) -> Value:
    return b.memory.assign(variable, put_slices(b, b.memory.read(variable), index, updates, axis, "add"))


@primitive("InplaceIndexCopy")
def _index_copy(b: LoweringBuilder, variable: Tensor, dim: int, index: Tensor, tensor: Tensor) -> Value:
    return b.memory.assign(variable, put_slices(b, b.memory.read(variable), index, tensor, dim))


@primitive("InplaceIndexPut", "InnerInplaceIndexPut")
def _index_put(
    b: LoweringBuilder, variable: Tensor, indices: Value, values: Tensor, accumulate: bool = False
) -> Value:
    return b.memory.assign(variable, index_put(b, b.memory.read(variable), values, indices, accumulate))


@primitive("InplacePut")
def _put(
    b: LoweringBuilder, variable: Tensor, index: Tensor, source: Tensor, accumulate: bool = False
) -> Value:
    return b.memory.assign(variable, put(b, b.memory.read(variable), index, source, accumulate))
