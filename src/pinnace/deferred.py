"""Import of onnx-ir without sympy.

onnx-ir imports sympy for arithmetic with symbolic dimensions, which reading, lowering and running a model
never use. Measured (`python -m benchmarks opening`): 0.4 s and 30 MB for every process that opens a model, as
much as onnxruntime itself. So onnx-ir is imported with a substitute that loads the real sympy on first use.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, cast

_ON_USE = frozenset(
    (
        *("google.protobuf.json_format", "google.protobuf.text_format"),
        *("onnx.compose", "onnx.gen_proto", "onnx.parser", "onnx.printer", "onnx.utils"),
        *("onnx.version_converter", "onnx_ir.passes", "onnx_ir.schemas", "onnx_ir.tape"),
    )
)
"""Modules that onnx and onnx-ir import and models do not use; they are loaded when somebody uses them."""

_lock = threading.RLock()


class _StandIn(ModuleType):
    """Substitute for sympy, whose functions load it when called; once `complete` it has sympy's
    attributes.
    """

    complete = False

    def __getattr__(self, name: str) -> Any:
        if self.complete:
            return getattr(importlib.import_module("sympy"), name)
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: getattr(importlib.import_module("sympy"), name)(*args, **kwargs)


class _ImportedError(Exception):
    """Removes the substitute from `sys.modules`, as any error during an import does."""


class _SympyFinder:
    """Imports onnx-ir while the import of sympy is running.

    Other threads that import sympy meanwhile wait, as for any running import. It is a finder and a loader by
    its methods: `importlib.abc` takes longer to import than this.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Return the spec of the substitute, or of a module that is loaded on use; in this thread only."""
        if threading.get_ident() != self._thread:
            return None
        if name == "sympy":
            return ModuleSpec(name, cast("Any", self))
        found = PathFinder.find_spec(name, path) if name in _ON_USE else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create the substitute."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Import onnx-ir, which uses the substitute as sympy."""
        assert isinstance(module, _StandIn)
        try:
            importlib.import_module("onnx_ir")
        except Exception:
            # This onnx-ir needs more of sympy during its import: import it with the real one.
            for name in [n for n in sys.modules if n.partition(".")[0] == "onnx_ir"]:
                del sys.modules[name]
        finally:
            module.complete = True
        raise _ImportedError


def import_onnx_ir() -> None:
    """Import onnx-ir without sympy, unless either is imported already."""
    with _lock:
        if "onnx_ir" in sys.modules or "sympy" in sys.modules:
            return
        finder = _SympyFinder()
        sys.meta_path.insert(0, finder)
        try:
            with suppress(_ImportedError):
                importlib.import_module("sympy")
        finally:
            sys.meta_path.remove(finder)
