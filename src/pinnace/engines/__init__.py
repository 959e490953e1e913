"""Engines: what runs a graph. How one is chosen."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from pinnace.engines.protocol import Engine
from pinnace.errors import ArgumentValueError, DeviceUnavailableError
from pinnace.target import Target

_PROVIDERS = ("", "onnxruntime", "openvino")
_MISSING = {
    "gpu": "an NVIDIA GPU with its driver, and onnxruntime with CUDA in place of onnxruntime",
    "ascend": "an Ascend device with CANN, and onnxruntime with the CANN provider in place of onnxruntime",
}


def choose(target: Target, model: str) -> Engine:
    """The engine for a target; `model` is named in errors. Raises DeviceUnavailableError."""
    if target.device != "cpu":
        raise DeviceUnavailableError(
            f"{model}: target {target.device!r} cannot run here: it needs {_MISSING[target.device]}, "
            'and this version of Pinnace runs on the processor only; use context.target = ["cpu"]'
        )
    if target.provider not in _PROVIDERS:
        raise ArgumentValueError(
            f"cpu provider {target.provider!r} is not known; choose from {', '.join(map(repr, _PROVIDERS))}"
        )
    return _engine(target.provider or "onnxruntime")


def other(engine: Engine) -> Engine | None:
    """The engine to turn to where this one lacks an operator; None where there is none."""
    rest = [name for name in installed() if not engine.name.startswith(name)]
    return _engine(rest[0]) if rest else None


def _engine(name: str) -> Engine:
    if name == "openvino":
        try:
            from pinnace.engines.openvino.engine import Openvino
        except ImportError as error:
            raise DeviceUnavailableError(
                f"cpu provider 'openvino' needs its package: pip install 'pinnace[openvino]' ({error})"
            ) from None
        return Openvino()
    from pinnace.engines.onnxruntime.engine import Onnxruntime

    return Onnxruntime()


def installed() -> dict[str, str]:
    """The engines that are here, by their names as providers, with their versions ("" is not known)."""
    return {name: _version(name) for name in _PROVIDERS if name and find_spec(name)}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # the package came with a distribution of another name
        return ""
