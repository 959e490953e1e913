"""The builder: what everything writes ONNX nodes with."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph import schemas
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import OPSET, Types
from pinnace.graph.nodes import Nodes
from pinnace.program import Layout, TypeInfo

Operand = ir.Value | npt.NDArray[Any] | Sequence[int] | int | float | bool | None


class Builder(Nodes, Types):
    """Writes the operators of one ONNX graph, and answers what is known of its tensors."""

    def __init__(
        self,
        layout: Layout = Layout.NCHW,
        changing: Container[int] = (),
        opset: int = OPSET,
        prefix: str = "%",
    ) -> None:
        Nodes.__init__(self, changing, prefix)
        Types.__init__(self, opset)
        self.layout = layout
        """Order of the dimensions of images in the model that the nodes are for."""
        self.declared: Sequence[TypeInfo | None] = ()
        """The file's declarations of the results of the node that is written."""

    def __getattr__(self, name: str) -> Callable[..., ir.Value]:
        """`op.Sinh` is `op` of "Sinh": a name that begins with a capital is an operator's."""
        if not name[:1].isupper():
            raise AttributeError(f"a builder has no {name!r}", name=name, obj=self)
        return partial(self.op, name)

    def op(self, op_type: str, *inputs: Operand, domain: str = "", **attributes: Any) -> ir.Value:
        """Add a node with one output.

        A number among the inputs becomes a constant of the first tensor's type, in Where of that of the other
        choice, a sequence of ints an int64 vector. An attribute that is None is left out.
        """
        return self.ops(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, op_type: str, outputs: int, *inputs: Operand, domain: str = "", **attributes: Any
    ) -> tuple[ir.Value, ...]:
        """Add a node with several outputs."""
        beside = inputs[1:] if op_type == "Where" else inputs  # not the condition
        like = next((i for i in beside if isinstance(i, ir.Value)), None)
        operands = [self._operand(i, like) for i in inputs]
        while operands and operands[-1] is None:
            operands.pop()
        dtypes = tuple(None if x is None else self.known_dtype(x) for x in operands)
        other = {} if domain else schemas.allowed(op_type, dtypes)
        given = {k: v for k, v in attributes.items() if v is not None}
        if not other:
            return self.emit(op_type, outputs, operands, given, domain)
        # ONNX has no such operator of these types: it is computed in others.
        taken = schemas.variables(op_type, len(operands))
        own = {v: t for v, t in zip(taken[::-1], dtypes[::-1], strict=True) if t is not None}
        wide = [
            x if x is None or v not in other else self.cast(x, other[v])
            for x, v in zip(operands, taken, strict=True)
        ]
        results = self.emit(op_type, outputs, wide, given)
        back = schemas.variables(op_type, outputs, outputs=True)
        return tuple(self.cast(y, own[v]) if v in other else y for y, v in zip(results, back, strict=True))

    def like(self, number: float | int | bool, x: ir.Value) -> ir.Value:
        """A scalar constant of the element type of `x`."""
        return self.constant(number, self.dtype(x).numpy())

    def cast(self, x: ir.Value, dtype: ir.DataType) -> ir.Value:
        """`x` as `dtype`; `x` itself where it is already."""
        return x if self.dtype(x) is dtype else self.op("Cast", x, to=dtype.value)

    def operand(self, value: Any, beside: ir.Value) -> ir.Value:
        """`value` as an operand beside a tensor: a Python number takes the tensor's type where it fits.

        A float beside ints makes both float32, and an int beside bools both int64, as MindSpore has it.
        """
        if type(value) is int and self.dtype(beside) is ir.DataType.BOOL:
            return self.constant(value, np.int64)
        if isinstance(value, bool | int | float):
            whole = not isinstance(value, float) or self.dtype(beside).is_floating_point()
            return self.like(value, beside) if whole else self.constant(value, np.float32)
        return self.tensor(value)

    def scalar(self, x: ir.Value) -> ir.Value:
        """`x`, which has one element, as a tensor of rank 0."""
        return x if self.rank(x) == 0 else self.op("Reshape", x, self.constant([], np.int64))

    def transpose(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Dimensions reordered: result dimension i is dimension perm[i] of `x`."""
        return self.op("Transpose", x, perm=list(perm))

    def reshape(self, x: ir.Value, dims: Sequence[int | ir.Value]) -> ir.Value:
        """`x` with other dimensions; -1 at most once, 0 is a dimension of size zero."""
        computed = sum(isinstance(d, ir.Value) for d in dims)
        # Where the run computes a 0, it must not stand for the dimension of `x` at its place.
        zeros = 0 in dims or (computed > 1 and -1 not in dims)
        y = self.op("Reshape", x, self.vector(dims), allowzero=1 if zeros else None)
        if y.shape is None and any(isinstance(d, ir.Value) for d in dims):
            # Inference sees nothing of dimensions that are computed.
            y.shape = ir.Shape([d if isinstance(d, int) and d >= 0 else None for d in dims])
        return y

    def vector(self, dims: Sequence[int | ir.Value]) -> ir.Value:
        """An int64 vector of ints and scalar tensors."""
        if all(isinstance(d, int) for d in dims):
            return self.constant([int(d) for d in dims if isinstance(d, int)], np.int64)
        parts = [
            self.op("Reshape", self.cast(d, ir.DataType.INT64), [1])
            if isinstance(d, ir.Value)
            else self.constant([d], np.int64)
            for d in dims
        ]
        return self.op("Concat", *parts, axis=0)

    def _operand(self, operand: Operand, like: ir.Value | None) -> ir.Value | None:
        if operand is None or isinstance(operand, ir.Value):
            return operand
        if isinstance(operand, np.ndarray):
            return self.constant(operand)
        if isinstance(operand, Sequence):
            return self.constant(list(operand), np.int64)
        if like is None:
            raise TypeError("a number needs a tensor beside it to tell its type")
        return self.like(operand, like)

    def result(self, x: ir.Value, index: int = 0) -> ir.DataType:
        """Element type that the file declares of a result of the node; that of `x` where it does not."""
        declared = self.declared[index] if index < len(self.declared) else None
        return self.dtype(x) if declared is None else declared.dtype

    def dim(self, x: ir.Value, axis: int) -> int | ir.Value:
        """One dimension: an int where it is known, else a scalar int64 tensor."""
        axis = self.axis(axis, x)
        known = self.shape(x)[axis]
        if known is not None:
            return known
        size = self.op("Shape", x, start=axis, end=axis + 1)
        return self.op("Squeeze", size, [0])

    def dims(self, x: ir.Value, start: int = 0, stop: int | None = None) -> list[int | ir.Value]:
        """The dimensions from `start` to before `stop`, as in a slice, each as `dim` gives it."""
        return [self.dim(x, i) for i in range(self.rank(x))[start:stop]]

    def tensor(self, value: Any) -> ir.Value:
        """`value` as a tensor; Python floats become float32, ints int64, bools bool."""
        if isinstance(value, ir.Value):
            return value
        if isinstance(value, bool | np.bool_):
            return self.constant(value, np.bool_)
        if isinstance(value, int):
            return self.constant(value, np.int64)
        if isinstance(value, float):
            return self.constant(value, np.float32)
        if isinstance(value, tuple) and value:
            return self._stacked(value)
        if isinstance(value, np.ndarray):
            return self.constant(value)
        if isinstance(value, tuple):
            return self.constant([], np.int64)
        raise Unsupported(f"must be a tensor, but it is {type(value).__name__}")

    def _stacked(self, values: tuple[Any, ...]) -> ir.Value:
        if all(isinstance(v, bool | int | float) for v in values):
            whole = all(isinstance(v, int) for v in values)
            return self.constant(values, np.int64 if whole else np.float32)
        return self.op("Concat", *(self.op("Unsqueeze", self.tensor(v), [0]) for v in values), axis=0)
