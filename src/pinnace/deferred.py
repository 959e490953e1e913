"""Import of onnx-ir without sympy, and with what it needs of onnx.

onnx-ir imports sympy for arithmetic with symbolic dimensions, which reading, lowering and running a model
never use. Measured (`python -m benchmarks opening`): 0.4 s and 30 MB for every process that opens a model, as
much as onnxruntime itself. So onnx-ir is imported with a substitute that loads the real sympy on first use.

`import onnx` also imports its checker, parser and helpers, and asks importlib.metadata for its version, for
which Python imports its package email: 15 ms. `import onnx_ir` imports what reads and writes files: 6 ms. So
the packages have their submodules and the names of those that are used (`_NAMES`); their own code runs when
somebody asks for anything else.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, cast

_ON_USE = frozenset(
    (
        *("calendar", "concurrent.futures", "packaging", "packaging.version", "shutil", "tempfile", "uuid"),
        *("google.protobuf.internal.python_message", "google.protobuf.json_format"),
        "google.protobuf.text_format",
        *("onnx", "onnx.compose", "onnx.external_data_helper", "onnx.gen_proto", "onnx.parser"),
        *("onnx.printer", "onnx.utils", "onnx.version_converter"),
        *("onnx_ir", "onnx_ir._multi_device"),
    )
)
"""Modules that onnx and onnx-ir import and models do not use; they are loaded when somebody uses them."""

_NAMES = {
    "onnx": ("onnx_ml_pb2",),
    "onnx_ir": ("_core", "_enums", "_protocols", "serde", "_convenience._constructors"),
}
"""The submodules of packages whose names the packages have before their own code runs."""

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


class _OnUse(ModuleType):
    """A module whose code runs when somebody asks for a name that is missing.

    `importlib.util.LazyLoader` would run it when onnx-ir sets `__module__` of all that it has imported, and
    lets a second thread see half of a module (Python 3.11). The loader's state is the loader and a lock.
    """

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        assert spec is not None
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(name)
        with spec.loader_state[1]:
            loader = spec.loader_state[0]
            if loader is not None:
                spec.loader_state = None, spec.loader_state[1]  # the code may ask for names itself
                loader.exec_module(self)
        return self.__getattribute__(name)


class _Package(_OnUse):
    """A package with its submodules, and the names of some, before its own code runs."""

    DEBUG = False  # of onnx-ir

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            with suppress(ModuleNotFoundError):
                return importlib.import_module(f"{self.__name__}.{name}")
            for module in _NAMES[self.__name__]:
                names = vars(importlib.import_module(f"{self.__name__}.{module}"))
                if name in names:
                    self.__dict__[name] = names[name]
                    return names[name]
        return super().__getattr__(name)


class _OnUseLoader:
    """Loader of `_OnUse`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create a module without its content."""
        return (_Package if spec.name in _NAMES else _OnUse)(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its real loader."""
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = module.__spec__.loader_state[0]


class _ImportedError(Exception):
    """Removes the substitute from `sys.modules`, as any error during an import does."""


class _Finder:
    """Finds modules whose code runs on use; only for the thread that made it.

    It is a finder by its methods: `importlib.abc` takes longer to import than this.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names, self._thread = names, threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module that is loaded on use."""
        if name not in self._names or threading.get_ident() != self._thread:
            return None
        found = PathFinder.find_spec(name, path)
        if found is not None:
            found.loader_state = found.loader, threading.RLock()
            found.loader = cast("Any", _OnUseLoader())
        return found


class _SympyFinder(_Finder):
    """Imports onnx-ir while the import of sympy is running; it is the loader too.

    Other threads that import sympy meanwhile wait, as for any running import.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Return the spec of the substitute, or of a module that is loaded on use; in this thread only."""
        if name == "sympy" and threading.get_ident() == self._thread:
            return ModuleSpec(name, cast("Any", self))
        return super().find_spec(name, path)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create the substitute."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Import onnx-ir, which uses the substitute as sympy."""
        assert isinstance(module, _StandIn)
        try:
            importlib.import_module("onnx_ir.serde")  # with all that imports sympy
        except Exception:
            # This onnx-ir needs more of sympy during its import: import it with the real one.
            for name in [n for n in sys.modules if n.partition(".")[0] == "onnx_ir"]:
                del sys.modules[name]
        finally:
            module.complete = True
        raise _ImportedError


@contextmanager
def _first(finder: _Finder) -> Iterator[None]:
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def on_use(*names: str) -> AbstractContextManager[None]:
    """Return a block in which modules of these names are imported without running their code before use."""
    return _first(_Finder(names))


def import_onnx_ir() -> None:
    """Import onnx-ir without sympy, unless either is imported already."""
    with _lock:
        if "onnx_ir" in sys.modules or "sympy" in sys.modules:
            return
        with _first(_SympyFinder(_ON_USE)), suppress(_ImportedError):
            importlib.import_module("sympy")
