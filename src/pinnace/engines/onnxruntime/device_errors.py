"""Errors of providers for accelerators that do not start, with cause and remedy.

onnxruntime omits a provider whose libraries cannot be loaded, and reports that only in its log; other
problems of a device are CUDA's error messages.
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
    TENSORRT: f"{_FROM_PIP}; TensorRT is installed separately; add its libraries to LD_LIBRARY_PATH",
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
"""Messages for full memory, of CUDA, onnxruntime's arena and CANN (ACL_ERROR_RT_MEMORY_ALLOCATION)."""


@cache
def preload() -> None:
    """Load the CUDA and cuDNN that pip installed, as the loader does not search Python's folders."""
    with contextlib.redirect_stdout(sys.stderr):  # it prints what it does not find
        ort.preload_dlls()


def left_out(provider: str) -> DeviceUnavailableError:
    """Return the error for a provider that onnxruntime has omitted."""
    return DeviceUnavailableError(
        f"onnxruntime has {provider} and could not start it: {_cause(provider)} ({_SOURCES[provider]})"
    )


def explained(error: Exception, provider: str) -> PinnaceError:
    """Return the error for an exception of a provider, with its meaning if that is known."""
    text = str(error).strip()
    if any(words in text for words in _NOT_THERE):
        return DeviceUnavailableError(
            f"{provider} could not start: {_cause(provider)} ({_SOURCES[provider]}); onnxruntime says: {text}"
        )
    return EngineError(with_hint(text))


def with_hint(text: str) -> str:
    """Return a message of onnxruntime, with an explanation if the memory of the device was full."""
    if not any(words in text for words in _NO_ROOM):
        return text
    return f"the device is out of memory, use a smaller batch or a lower precision: {text}"


def _cause(provider: str) -> str:
    """Return the loader's message about a provider's library, which onnxruntime failed to load."""
    try:
        ctypes.CDLL(str(_library(provider)))
    except OSError as error:
        return str(error)
    return "its libraries can be loaded, but the device or its driver is not ready"


def _library(provider: str) -> Path:
    return Path(ort.__file__).parent / "capi" / f"libonnxruntime_providers_{_FILES[provider]}.so"
