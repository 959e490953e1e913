"""The libraries that run graphs, and the choice among them."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

from pinnace.engines.choice import by_default
from pinnace.engines.protocol import Engine
from pinnace.errors import DeviceUnavailableError
from pinnace.options.table import ENGINES
from pinnace.options.target import Target

_MISSING = {
    "gpu": "an NVIDIA GPU with its driver (nvidia-smi shows it)",
    "ascend": "an Ascend device with its driver (/dev/davinci0) and CANN",
}


def choose(target: Target, model: str) -> Engine:
    """Return the engine for a target; errors name `model`. Raises DeviceUnavailableError."""
    if target.device != "cpu":
        check_available(target, f"{model}: ", ', or use context.target = ["cpu"]')
        return named("onnxruntime")
    return named(target.provider or by_default(target))


def check_available(target: Target, subject: str, alternative: str) -> None:
    """Raise DeviceUnavailableError, which begins and ends so, if an accelerator cannot be used."""
    lacking = missing(target)
    if lacking:
        raise DeviceUnavailableError(
            f"{subject}{target.device}:{target.device_id} is not available: {lacking}; to try without it "
            f'set PINNACE_SIMULATE="{target.device}:{target.device_id + 1}"{alternative}'
        )


def missing(target: Target) -> str:
    """Return the hardware and software that an accelerator needs and this machine lacks; "" if none.

    Raises `ArgumentValueError` for an unknown provider.
    """
    from pinnace.engines.onnxruntime import providers
    from pinnace.machine.accelerators import cards

    lacking = providers.missing(target)
    if all(card.id != target.device_id for card in cards(target.device)):
        lacking = [_MISSING[target.device], *lacking]
    return "it needs " + ", and ".join(lacking) if lacking else ""


def other(engine: Engine) -> Engine | None:
    """Return the engine to try if this one lacks an operator; None if there is none."""
    rest = [name for name in installed() if not engine.name.startswith(name)]
    return named(rest[0]) if rest else None


def named(name: str) -> Engine:
    if name == "openvino":
        try:
            from pinnace.engines.openvino.engine import Openvino
        except ImportError as error:
            raise DeviceUnavailableError(
                f"cpu provider 'openvino' needs its package: pip install 'openvino>=2025.4' ({error})"
            ) from None
        return Openvino()
    from pinnace.engines.onnxruntime.engine import Onnxruntime

    return Onnxruntime()


@cache
def installed() -> dict[str, str]:
    """Return the versions of the installed engines by their provider names; "" if unknown."""
    return {name: _version(name) for name in ENGINES if find_spec(name)}


def _version(package: str) -> str:
    """Return a version by the name of the folder that pip writes, or else by importlib.metadata, which takes
    a third of the time to import this package.
    """
    spec = find_spec(package)
    for place in (spec and spec.submodule_search_locations) or ():
        for name in os.listdir(os.path.dirname(place)):  # a glob would compile its pattern
            if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                return name.removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # the package came with a distribution of another name
        return ""
