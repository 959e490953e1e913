"""Readers of model files."""

from __future__ import annotations

from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from pinnace.errors import ModelFormatError
from pinnace.types import ModelType
from pinnace.weights.encryption import is_encrypted
from pinnace.weights.source import Source

if TYPE_CHECKING:  # detecting a format needs none of these
    import onnx_ir as ir

    from pinnace.program import Program

_MS_MARK = b"MSL2"  # at byte 4, FlatBuffers' place for a file's identifier
_KINDS = {
    ModelType.MINDIR: ("a MindIR model", "pinnace.formats.mindir"),
    ModelType.MINDIR_LITE: ("a .ms model", "pinnace.formats.ms"),
    ModelType.ONNX: ("an ONNX model", "pinnace.formats.onnx"),
}
"""Names of formats, and the modules that read them."""
FRAMEWORKS = {
    ".tflite": "TFLITE",
    ".pb": "TF",
    ".prototxt": "CAFFE",
    **dict.fromkeys((".pt", ".pt2", ".pth"), "PYTORCH"),
}
"""Frameworks whose files the converter takes, by the suffixes that they give them."""
_KERAS = (".h5", ".hdf5", ".keras")


def read(source: Source, model_type: ModelType | None = None) -> Program | ir.Model:
    """Read a model; its format is detected from its content, and must be `model_type` if given.

    Raises ModelFormatError.
    """
    reader = import_module(_KINDS[kind(source, model_type)][1])
    try:
        return cast("Program | ir.Model", reader.read(source))
    except ModelFormatError as error:
        hint = other_framework(source.name)
        if not hint:
            raise
        raise ModelFormatError(f"{error}{hint}") from None


def kind(source: Source, model_type: ModelType | None = None) -> ModelType:
    """Return the format of a source. Raises ModelFormatError if it is unknown or not `model_type`."""
    found = kind_of(source.data)
    if model_type is not None and found is not None and found is not model_type:
        raise ModelFormatError(
            f"{source.name}: is {_KINDS[found][0]}, but ModelType.{model_type.name} was requested; "
            f"use ModelType.{found.name}"
        )
    if found is None and is_encrypted(source.data):
        raise ModelFormatError(
            f"{source.name}: is encrypted; give build_from_file dec_key and dec_mode, or decrypt it by "
            "pinnace convert --decrypt-key"
        )
    if found is None and model_type is None:
        raise ModelFormatError(
            f"{source.name}: is not a model that Pinnace reads (.mindir, .ms or .onnx)"
            f"{other_framework(source.name)}"
        )
    return found or cast(ModelType, model_type)


def other_framework(name: str) -> str:
    """Return what to do with a file that is another framework's by its name, "" for other files."""
    path = PurePath(name)
    if path.suffix.lower() in _KERAS:
        return "; Keras' model.export(FOLDER) writes a SavedModel, which pinnace convert takes"
    if path.suffix.lower() == ".caffemodel":
        return f"; pinnace convert takes the .prototxt that belongs to it, with --weights {path}"
    if path.suffix.lower() in FRAMEWORKS:
        return f"; of a model of another framework, pinnace convert {path} {path.stem}.mindir makes one"
    return ""


def kind_of(data: memoryview) -> ModelType | None:
    """Detect the format from the first bytes; None if unknown.

    Both protobuf formats begin with field 1, the version: a string in MindIR, a number in ONNX.
    """
    if data[4:8] == _MS_MARK:
        return ModelType.MINDIR_LITE
    return {0x0A: ModelType.MINDIR, 0x08: ModelType.ONNX}.get(data[0])
