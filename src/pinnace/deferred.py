"""Import onnx-ir without sympy.

onnx-ir imports sympy for arithmetic over symbolic dimensions, which reading, lowering and running a model
never does. Measured (`python -m benchmarks opening`): 0.4 s and 30 MB of every process that opens a model,
as much as onnxruntime itself takes. So onnx-ir is imported with a stand-in that loads the real sympy when
something of it is first used.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_lock = threading.RLock()


class _StandIn(ModuleType):
    """Gives functions that load sympy when they are called; once `complete`, sympy's own attributes."""

    complete = False

    def __getattr__(self, name: str) -> Any:
        if self.complete:
            return getattr(importlib.import_module("sympy"), name)
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: getattr(importlib.import_module("sympy"), name)(*args, **kwargs)


class _ImportedError(Exception):
    """Takes the stand-in out of `sys.modules`, as any error of a module that is imported does."""


class _SympyFinder(MetaPathFinder, Loader):
    """Imports onnx-ir as if that were the content of sympy.

    So threads that import sympy meanwhile wait, as for any module that another thread imports.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """The stand-in, for this thread."""
        mine = name == "sympy" and threading.get_ident() == self._thread
        return ModuleSpec(name, self) if mine else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The stand-in."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Import onnx-ir, which takes the module for sympy."""
        assert isinstance(module, _StandIn)
        try:
            importlib.import_module("onnx_ir")
        except Exception:
            # An onnx-ir that does more with sympy while it is imported: then with all of it.
            for name in [n for n in sys.modules if n.partition(".")[0] == "onnx_ir"]:
                del sys.modules[name]
        finally:
            module.complete = True
        raise _ImportedError


def import_onnx_ir() -> None:
    """Import onnx-ir for the first time in this process; nothing where it, or sympy, is imported already."""
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
