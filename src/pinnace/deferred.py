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
from types import ModuleType
from typing import Any

_lock = threading.Lock()


class _StandIn(ModuleType):
    """Gives functions that load sympy when they are called; once `complete`, sympy's own attributes."""

    complete = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.complete:
            return getattr(importlib.import_module("sympy"), name)
        return lambda *args, **kwargs: getattr(importlib.import_module("sympy"), name)(*args, **kwargs)


def import_onnx_ir() -> None:
    """Import onnx-ir for the first time in this process; nothing where it, or sympy, is imported already."""
    with _lock:
        if "onnx_ir" in sys.modules or "sympy" in sys.modules:
            return
        stand_in = sys.modules["sympy"] = _StandIn("sympy")
        try:
            importlib.import_module("onnx_ir")
        except Exception:
            # An onnx-ir that does more with sympy while it is imported: then with all of it.
            for name in [n for n in sys.modules if n.partition(".")[0] == "onnx_ir"]:
                del sys.modules[name]
        finally:
            stand_in.complete = True
            if sys.modules.get("sympy") is stand_in:
                del sys.modules["sympy"]
