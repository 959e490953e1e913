"""Providers for accelerators that do not start: why, in words that help.

onnxruntime leaves a provider out whose libraries cannot be loaded, and says so in its log alone; what else
is wrong with a device are errors in the words of CUDA.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from functools import cache
from pathlib import Path

import onnxruntime as ort

from pinnace.engines.onnxruntime.providers import CANN, CUDA, TENSORRT
from pinnace.errors import DeviceUnavailableError, EngineError, PinnaceError

_FILES = {CUDA: "cuda", TENSORRT: "tensorrt", CANN: "cann"}
_FROM_PIP = "pip install 'onnxruntime-gpu[cuda,cudnn]' brings those of CUDA and cuDNN, the driver libcuda"
_SOURCES = {
    CUDA: _FROM_PIP,
    TENSORRT: f"{_FROM_PIP}; TensorRT is installed by itself, its libraries belong into LD_LIBRARY_PATH",
    CANN: "source CANN's set_env.sh before the start",
}
_NOT_THERE = (
    "able to be loaded",  # CUDA_PATH is set, and a library is missing
    "Please install TensorRT libraries",
    "no CUDA-capable device",
    "invalid device ordinal",
    "driver version is insufficient",
    "CUDA Provider not available",
    "match any available GPUs",
)
_NO_ROOM = ("out of memory", "Failed to allocate memory", "bad_alloc", "207001")
"""What CUDA and onnxruntime's arena say of a full memory; 207001 is CANN's ACL_ERROR_RT_MEMORY_ALLOCATION."""


@cache
def preload() -> None:
    """Load what pip has installed of CUDA and cuDNN: the loader does not look into Python's folders."""
    with contextlib.redirect_stdout(sys.stderr):  # it prints what it does not find
        ort.preload_dlls()


def left_out(provider: str) -> DeviceUnavailableError:
    """The error where onnxruntime has left a provider out."""
    return DeviceUnavailableError(
        f"onnxruntime has {provider} and could not start it: {_cause(provider)} ({_SOURCES[provider]})"
    )


def explained(error: Exception, provider: str) -> PinnaceError:
    """The error of what a provider was to do first, with what it means where that is known."""
    text = str(error).strip()
    if any(words in text for words in _NOT_THERE):
        return DeviceUnavailableError(
            f"{provider} could not start: {_cause(provider)} ({_SOURCES[provider]}); onnxruntime says: {text}"
        )
    return EngineError(with_hint(text))


def with_hint(text: str) -> str:
    """What onnxruntime says, with what it means where the memory of a device was full."""
    if not any(words in text for words in _NO_ROOM):
        return text
    return f"the memory of the device is full, take a smaller batch or a lower precision: {text}"


def _cause(provider: str) -> str:
    """What the loader says of a provider's library, which onnxruntime has tried to load before."""
    try:
        ctypes.CDLL(str(_library(provider)))
    except OSError as error:
        return str(error)
    return "its libraries can be loaded, the device or its driver is not ready"


def _library(provider: str) -> Path:
    return Path(ort.__file__).parent / "capi" / f"libonnxruntime_providers_{_FILES[provider]}.so"
