"""Tensors at their places in files, and tensors that are computed of such."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from pinnace.types import Array


class PlacedTensor(ir.ExternalTensor):
    """A tensor in a file that a `Source` has checked: it is the model's own, or lies in its folder.

    onnx-ir refuses files with several hard links, by which uv installs packages and backups hold files.
    """

    def _check_path_containment(self) -> None:
        pass


def lazy(
    values: Callable[[], Array], dtype: ir.DataType, dims: Sequence[int], name: str | None = None
) -> ir.LazyTensor:
    """Return a tensor whose values are computed on access, and given up after it."""
    return ir.LazyTensor(
        lambda: ir.Tensor(values(), dtype=dtype, name=name), dtype, ir.Shape(dims), name=name
    )
