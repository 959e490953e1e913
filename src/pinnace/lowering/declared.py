"""Types and shapes that a file declares of the results of its nodes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from pinnace.graph.inference import infer
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.values import Effects, Value, flatten
from pinnace.program import Dialect, TypeInfo


class Declarations:
    """Gives results what the file declares of them."""

    def __init__(self, builder: LoweringBuilder, dialect: Dialect, trusts: bool) -> None:
        """With `trusts` results have the shapes that the file declares, else inferred ones."""
        self._b, self._dialect, self._trusts = builder, dialect, trusts

    def cast(self, value: Value) -> Value:
        """Cast a tensor to the type that MindSpore's kernel writes: int32 for int32 times a length."""
        if self._dialect is not Dialect.MINDSPORE or not isinstance(value, ir.Value) or value.dtype is None:
            return value
        types = self._b.declared
        if len(types) != 1 or types[0] is None or value.dtype is types[0].dtype:
            return value
        dtype = types[0].dtype
        if ir.DataType.STRING in (value.dtype, dtype):
            return value
        # A declared type that is wider than the operands is not computed in (Angle, RemainderScalarTensor).
        own = self._b.dtype(value)
        cut = dtype.is_integer() and own.is_floating_point()  # an inverse of int64
        return self._b.cast(value, dtype) if cut or dtype.bitwidth <= own.bitwidth else value

    def apply(self, value: Value, types: Sequence[TypeInfo | None]) -> None:
        """Set the types and shapes of tensors that have none yet."""
        leaves = [leaf for leaf in flatten(value) if not isinstance(leaf, Effects)]
        lacking = any(isinstance(x, ir.Value) and (x.type is None or x.shape is None) for x in leaves)
        if not lacking or len(leaves) != len(types):  # types are decoded when they are counted
            return
        for leaf, declared in zip(leaves, types, strict=True):
            if isinstance(leaf, ir.Value) and declared is not None:
                self._apply(leaf, declared)

    def _apply(self, leaf: ir.Value, declared: TypeInfo) -> None:
        if leaf.dtype is None:
            leaf.dtype = declared.dtype
        if leaf.shape is None and not self._trusts:
            infer(leaf, self._b.opset)
        # MindSpore Lite's converter writes no dimensions where it does not know them.
        unknown = declared.shape == () and self._dialect is Dialect.LITE
        unknown = unknown or leaf in self._b.forms  # MindSpore declares the shape of one branch
        if leaf.shape is None and declared.shape is not None and not unknown:
            leaf.shape = ir.Shape(declared.shape if self._trusts else [None] * len(declared.shape))
