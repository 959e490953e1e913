"""Model files -> graphs."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.formats import mindir, ms, onnx
from pinnace.program import Program
from pinnace.types import ModelType
from pinnace.weights.source import Source

_MS_MARK = b"MSL2"  # at byte 4, FlatBuffers' place for a file's identifier
_READERS: dict[ModelType, Callable[[Source], Program | ir.Model]] = {
    ModelType.MINDIR: mindir.read,
    ModelType.MINDIR_LITE: ms.read,
    ModelType.ONNX: onnx.read,
}
_KINDS = {
    ModelType.MINDIR: "a MindIR model",
    ModelType.MINDIR_LITE: "a .ms model",
    ModelType.ONNX: "an ONNX model",
}


def read(source: Source, model_type: ModelType | None = None) -> Program | ir.Model:
    """Read a model; its kind is told from its content, and must be `model_type` where that is given.

    Raises ModelFormatError.
    """
    found = kind_of(source.data)
    if model_type is not None and found is not None and found is not model_type:
        raise ModelFormatError(
            f"{source.name}: is {_KINDS[found]}, and ModelType.{model_type.name} was asked for; "
            f"use ModelType.{found.name}"
        )
    kind = found or model_type
    if kind is None:
        raise ModelFormatError(f"{source.name}: is no model that Pinnace reads (.mindir, .ms or .onnx)")
    return _READERS[kind](source)


def kind_of(data: memoryview) -> ModelType | None:
    """The kind of model that bytes begin like, or None.

    Both protobuf formats begin with field 1, the version: a text in MindIR, a number in ONNX.
    """
    if data[4:8] == _MS_MARK:
        return ModelType.MINDIR_LITE
    return {0x0A: ModelType.MINDIR, 0x08: ModelType.ONNX}.get(data[0])
