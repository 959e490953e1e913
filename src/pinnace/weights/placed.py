"""Tensors at their places in files."""

from __future__ import annotations

import onnx_ir as ir


class PlacedTensor(ir.ExternalTensor):
    """A tensor in a file that a `Source` has checked: it is the model's own, or lies in its folder.

    onnx-ir refuses files with several hard links, by which uv installs packages and backups hold files.
    """

    def _check_path_containment(self) -> None:
        pass
