"""Names of the converter, which does not exist yet: a script runs as long as it does not convert."""

from enum import Enum
from typing import NoReturn

from pinnace.errors import NotSupportedError

__all__ = ["Converter", "FmkType"]


class FmkType(Enum):
    """The framework of a model to convert."""

    TF = 0
    CAFFE = 1
    ONNX = 2
    MINDIR = 3
    TFLITE = 4
    PYTORCH = 5


class Converter:
    """Placeholder for the converter, which Pinnace does not have yet."""

    def __init__(self) -> NoReturn:
        """Raise NotSupportedError."""
        raise NotSupportedError(
            "Converter: this version of Pinnace cannot convert models yet. It runs .mindir, .ms and .onnx "
            "files directly: pass the file to Model.build_from_file"
        )
