"""Python's `+ - * /` and `-x` between tensors: they write with the builder whose lowering runs.

onnx-ir asks one handler of the process for them, and models are built in several threads at once; so
one handler finds the builder of the thread. Where none is, another library's handler is asked, if there
was one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import onnx_ir as ir

from pinnace.graph.builder import Builder


class _Thread(threading.local):
    builder: Builder | None = None


class _Handler:
    other: Any = None

    def _write(self, op_type: str, *operands: Any) -> Any:
        if _THREAD.builder is not None:
            return _THREAD.builder.op(op_type, *operands)
        if self.other is None:
            raise TypeError(f"{op_type} of a tensor outside of a lowering: call it with a builder")
        return getattr(self.other, op_type)(*operands)

    Add = partialmethod(_write, "Add")
    Sub = partialmethod(_write, "Sub")
    Mul = partialmethod(_write, "Mul")
    Div = partialmethod(_write, "Div")
    Neg = partialmethod(_write, "Neg")


_THREAD = _Thread()
_HANDLER = _Handler()


@contextmanager
def writing(builder: Builder) -> Iterator[None]:
    """Let operators write with `builder` in this thread."""
    before = ir.set_value_magic_handler(_HANDLER)
    if before is not _HANDLER:
        _HANDLER.other = before
    outer, _THREAD.builder = _THREAD.builder, builder
    try:
        yield
    finally:
        _THREAD.builder = outer
