"""Import of onnx-ir without sympy.

onnx-ir imports sympy for arithmetic with symbolic dimensions, which reading, lowering and running a model
never use. Measured (`python -m benchmarks opening`): 0.4 s and 30 MB for every process that opens a model, as
much as onnxruntime itself. So onnx-ir is imported with a substitute that loads the real sympy on first use.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from types import ModuleType
from typing import Any

_lock = threading.RLock()


class _Sympy(ModuleType):
    """The substitute, whose functions load sympy when called; after the import it has sympy's names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get("sympy") is not self:
            return getattr(importlib.import_module("sympy"), name)
        return lambda *args, **kwargs: getattr(importlib.import_module("sympy"), name)(*args, **kwargs)


def import_onnx_ir() -> None:
    """Import onnx-ir without sympy, unless either is imported already."""
    with _lock:
        if "onnx_ir" in sys.modules or "sympy" in sys.modules:
            return
        sys.modules["sympy"] = _Sympy("sympy")
        try:
            importlib.import_module("onnx_ir")
        finally:
            del sys.modules["sympy"]
        if not gc.get_freeze_count():  # else what the caller froze would thaw
            # Modules live on: the collection after the build need not look at them (10 ms of a first start).
            gc.freeze()
            gc.unfreeze()
