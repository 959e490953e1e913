"""Functions and names that the C++ library uses, which keeps objects and turns exceptions into a Status."""

from __future__ import annotations

import atexit
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from pinnace import (
    AscendDeviceInfo,
    Context,
    CPUDeviceInfo,
    DataType,
    GPUDeviceInfo,
    Model,
    ModelGroup,
    ModelGroupFlag,
    ModelParallelRunner,
    ModelType,
    RunnerConfig,
    Tensor,
    TensorMeta,
)
from pinnace import __version__ as __version__
from pinnace import errors as e
from pinnace.api.base_model import BaseModel
from pinnace.api.owner import owners
from pinnace.formats import kind_of
from pinnace.options.devices import GPU as GPU  # C++ asks it for the rank
from pinnace.options.log_format import print_warnings
from pinnace.options.settings import Settings as Settings  # C++ checks files of options with it
from pinnace.types import Array

Options = Mapping[str, Any]
ContextOptions = tuple[Options, Sequence[tuple[int, Options]]] | None
"""Options of a context and of its devices, by DeviceType; None for the CPU."""
Sections = dict[str, dict[str, str]]

_DEVICES = {0: CPUDeviceInfo, 1: GPUDeviceInfo, 3: AscendDeviceInfo, 4: AscendDeviceInfo, 5: AscendDeviceInfo}
_KINDS = {0: "cpu", 1: "gpu", 3: "ascend", 4: "ascend", 5: "ascend"}
_OUTPUT_TYPES = {DataType.FLOAT32: "FP32", DataType.FLOAT16: "FP16"}

_LITE = 0xF0000000
_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], int], ...] = (
    (e.NotSupportedError, -7),
    (e.UnsupportedModelError, -300),
    ((e.ArgumentTypeError, e.ArgumentValueError), -3),
    (e.DataMismatchError, -101),
    (e.ConfigError, -600),
    (e.ModelFormatError, -200),
    (e.ModelStateError, -9),
    (e.EngineError, -303),
    (e.QueueFullError, -11),
    (MemoryError, -6),
    (OSError, -10),
)
"""Errors and the numbers of their codes in status.h."""
_NO_DEVICE = 0x30000002


def enter() -> None:
    """Begin a process of C++: warnings have one line."""
    print_warnings("pinnace")


def leave() -> None:
    """End a process of C++: close what is open, and do what Python does at its end."""
    for owner in owners():
        owner.close()
    atexit._run_exitfuncs()
    sys.stdout.flush()


def status_of(error: BaseException) -> tuple[int, str]:
    text = str(error)
    if not isinstance(error, e.PinnaceError):
        text = f"{type(error).__name__}: {text}"
    if isinstance(error, e.DeviceUnavailableError):
        return _NO_DEVICE, text
    number = next((number for kinds, number in _CODES if isinstance(error, kinds)), -1)
    return _LITE | (0x0FFFFFFF & number), text


def context(given: ContextOptions) -> tuple[Context, Sections]:
    """Return a context, and the options that a configuration has for the rest."""
    made, sections = Context(), Sections()
    options, devices = given or ({}, ())
    for name, value in options.items():
        _set(made if hasattr(made, name) else made.cpu, name, value, "Context", sections)
    for kind, options in devices:
        if kind not in _DEVICES:
            raise e.NotSupportedError(
                "the context has a device that is no CPU, GPU or Ascend device: Pinnace runs on these"
            )
        device = _DEVICES[kind]()
        for name, value in options.items():
            _set(device, name, value, type(device).__name__, sections)
        made.append_device_info(device)
        if isinstance(device, CPUDeviceInfo):
            made.cpu.provider = device.provider
    return made, sections


def _set(owner: object, name: str, value: Any, called: str, sections: Sections) -> None:
    if name.startswith("ascend_context."):
        sections.setdefault("ascend_context", {})[name.partition(".")[2]] = value
    elif name == "output_type":
        kind = DataType(value)
        sections.setdefault("ascend_context", {})[name] = _OUTPUT_TYPES.get(kind, kind.name)
    elif hasattr(type(owner), name) or hasattr(owner, name):
        setattr(owner, name, value)
    elif value:
        raise e.NotSupportedError(f"{called}::{name} has no meaning in Pinnace: leave it out")


def build(
    source: str | bytes,
    kind: int,
    given: ContextOptions,
    path: str,
    sections: Sections,
    key: bytes,
    mode: str,
) -> Model:
    made, config = context(given)
    model = Model()
    built = model.build_from_file if isinstance(source, str) else model.build_from_buffer
    options = _merged(config, sections)
    built(source, _type(kind, source), made, path, options, key or None, mode)  # type: ignore[arg-type]
    return model


def run(
    source: str | bytes, given: ContextOptions, workers: int, ids: list[int], sections: Sections, path: str
) -> ModelParallelRunner:
    made, config = context(given)
    parallel = RunnerConfig(made, workers, _merged(config, sections), path)
    parallel.device_ids = ids
    runner = ModelParallelRunner()
    runner.init(source, parallel)
    return runner


def _merged(config: Sections, over: Sections) -> Sections:
    return {name: config.get(name, {}) | over.get(name, {}) for name in (*config, *over)}


def _type(kind: int, source: str | bytes = b"") -> ModelType:
    """Return the type of a model, by its content: programs of MindSpore Lite name .ms files kMindIR."""
    try:
        named = ModelType(kind)
    except ValueError:
        raise e.NotSupportedError(
            f"model type {kind} is not kMindIR, kMindIR_Lite or kONNX, which Pinnace runs"
        ) from None
    head = source[:8]
    if isinstance(source, str):
        with suppress(OSError), open(source, "rb") as file:
            head = file.read(8)
    return (kind_of(memoryview(head)) if isinstance(head, bytes) and head else None) or named


def shares_memory(model: BaseModel) -> int:
    """Return 1 if memory of the model's device is that of the host."""
    device = model.get_model_info("device")
    return int("simulated" in device or device.startswith("cpu"))


Port = tuple[str, int, tuple[int, ...], int]
"""Name, element type, shape and layout."""


def ports(tensors: Sequence[Tensor | TensorMeta]) -> list[Port]:
    return [(t.name, t.dtype.value, tuple(t.shape), t.format.value) for t in tensors]


def array(memory: memoryview, kind: int, shape: list[int]) -> Array:
    """Return an array over memory, without a copy; text is unpacked."""
    dtype = DataType(kind)
    if dtype is DataType.STRING:
        return _unpacked(memory).reshape(shape)
    try:
        return np.ndarray(shape, dtype.to_numpy(), memory)
    except ValueError:
        raise e.DataMismatchError(f"a tensor of {dtype} can have no data") from None


def _unpacked(memory: memoryview) -> Array:
    (count,) = struct.unpack_from("i", memory)
    ends = struct.unpack_from(f"{count + 1}i", memory, 4)
    texts = [bytes(memory[a:b]).decode() for a, b in pairwise(ends)]
    return np.array(texts, object)


def packed(texts: Array) -> bytes:
    """Return text as `MSTensor::StringsToTensor` packs it."""
    parts = [str(text).encode() for text in texts.ravel()]
    place = 4 * (len(parts) + 2)
    ends = [place + sum(map(len, parts[:index])) for index in range(len(parts) + 1)]
    return struct.pack(f"{len(parts) + 2}i", len(parts), *ends) + b"".join(parts)


def resize(model: BaseModel, count: int, dims: list[list[int]]) -> None:
    tensors = model.get_inputs()
    if count != len(tensors):
        raise e.ArgumentValueError(f"the model has {len(tensors)} inputs, but Resize was given {count}")
    model.resize(tensors, dims)


def update(model: BaseModel, weights: Sequence[tuple[str, Array]]) -> None:
    tensors = [Tensor(values) for _, values in weights]
    for tensor, (name, _) in zip(tensors, weights, strict=True):
        tensor.name = name
    model.update_weights([tensors])


def steps(model: BaseModel, arrays: list[Array]) -> list[tuple[str, str, float]]:
    """Return name, type and milliseconds of each operator, of a prediction that is measured."""
    run = model.profile(arrays, runs=1, warm_up=0).runs[0]
    return [(step.node, step.operator, step.duration / 1e3) for step in sorted(run, key=lambda s: s.start)]


def supports(device: int, kind: int) -> bool:
    """Return True if a kind of model runs on a kind of device of this machine."""
    from pinnace.engines.devices import devices_of  # few programs ask

    known = kind in {member.value for member in ModelType}
    return known and device in _KINDS and any(found.usable for found in devices_of(_KINDS[device]))


def group(flags: int) -> ModelGroup:
    return ModelGroup(ModelGroupFlag(flags) if flags else ModelGroupFlag.SHARE_WORKSPACE)


def measure(models: ModelGroup, kind: int, given: ContextOptions) -> None:
    models.cal_max_size_of_workspace(_type(kind), context(given)[0])
