"""One inference of the protocol, whichever door it came through."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pinnace.server.calls import Call
from pinnace.server.classes import classified
from pinnace.server.failures import LoadError, RequestError
from pinnace.server.models import OpenModel
from pinnace.server.repository import Repository
from pinnace.server.shared_memory import SharedMemory, Span, span_of
from pinnace.server.tensors import to_raw
from pinnace.server.work import aside
from pinnace.types import Array

_REFUSED = {
    "sequence_id": "sequences keep no state here: send what the model needs with each request",
    "classification": "it belongs to an output that is requested",
}
"""Parameters that change a result, and are not supported."""


class Wanted(NamedTuple):
    """The shared memory for an output, and the number of its highest classes if these are wanted."""

    span: Span | None = None
    classes: int = 0


@dataclass(frozen=True)
class Request:
    """A decoded request; `outputs` are the names of those wanted, and how; none is all."""

    model: str
    version: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Wanted] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Output(NamedTuple):
    """A result, and the shared memory that it was written to."""

    name: str
    array: Array
    span: Span | None


@dataclass(frozen=True)
class Result:
    """The outputs that were asked for, in order."""

    model: OpenModel
    outputs: Sequence[Output]


def infer_now(repository: Repository, request: Request, memory: SharedMemory, call: Call) -> Result | None:
    """Compute a request as `infer` does, or return None if it has to wait for anything."""
    model = repository.opened(request.model, request.version)
    if model is None or not model.runner.has_brief or any(one.classes for one in request.outputs.values()):
        return None
    _take(request, call)
    wanted = _wanted(request, model, call)
    arrays = model.predict_now(request.inputs)
    return None if arrays is None else _result(model, arrays, wanted, memory)


async def infer(repository: Repository, request: Request, memory: SharedMemory, call: Call) -> Result:
    """Compute a request within the limit of its call, and within its parameter `timeout`.

    Raises RequestError, UnknownModelError, UnavailableError, and as `OpenModel.predict` does.
    """
    priority = _take(request, call)
    async with repository.using(request.model, request.version, call.left) as model:
        wanted = _wanted(request, model, call)
        arrays = await model.predict(request.inputs, call.left, priority)
        slow = sum(array.nbytes for array in arrays) if any(map(any, wanted.values())) else 0
        return await aside(slow, _result, model, arrays, wanted, memory)


def _take(request: Request, call: Call) -> int:
    """Note the limit of a request, and return its priority."""
    if not request.parameters:
        return 0
    check(request.parameters)
    call.within(number_of(request.parameters, "timeout") / 1e6 or math.inf)
    return number_of(request.parameters, "priority")


def _wanted(request: Request, model: OpenModel, call: Call) -> Mapping[str, Wanted]:
    call.version = model.version
    names = [output.name for output in model.outputs]
    unknown = [name for name in request.outputs if name not in names]
    if unknown:
        raise RequestError(f"{model.name} has no output {unknown[0]!r}; it has {', '.join(names)}")
    return request.outputs or dict.fromkeys(names, Wanted())


def _result(
    model: OpenModel, arrays: Sequence[Array], wanted: Mapping[str, Wanted], memory: SharedMemory
) -> Result:
    results = dict(zip([output.name for output in model.outputs], arrays, strict=True))
    outputs = []
    for name, (span, classes) in wanted.items():
        array = results[name]
        if classes:
            array = classified(name, array, classes, model.labels, model.settings.max_batch_size > 1)
        outputs.append(Output(name, array, span))
    for output in outputs:
        if output.span is not None:
            memory.write(output.span, to_raw(output.array))
    return Result(model, outputs)


def check(parameters: Mapping[str, Any]) -> None:
    """Raise RequestError for parameters that would change the result."""
    for name, remedy in _REFUSED.items():
        if parameters.get(name):
            raise RequestError(f"parameter {name}: {remedy}")


def wanted_of(outputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Wanted]:
    """Return how outputs are wanted, by their parameters. Raises RequestError."""
    wanted = {}
    for name, parameters in outputs.items():
        if not parameters:
            wanted[name] = Wanted()
            continue
        wanted[name] = Wanted(span_of(parameters, name), number_of(parameters, "classification"))
        check({key: value for key, value in parameters.items() if key != "classification"})
        if all(wanted[name]):
            raise RequestError(f"output {name!r}: classes are not written to shared memory")
    return wanted


def number_of(parameters: Mapping[str, Any], name: str) -> int:
    """Return a parameter that is a whole number from 0 on; 0 if it is not there. Raises RequestError."""
    number = parameters.get(name, 0)
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise RequestError(f"parameter {name}: {reprlib.repr(number)} is no whole number from 0 to 2^63")
    return number


def check_load(parameters: Mapping[str, Any]) -> None:
    """Raise LoadError if a client wants to load files of its own."""
    files = [name for name in parameters if name.startswith("file:")]
    if files:
        raise LoadError(
            f"failed to poll from model repository: {files[0][:50]!r} is a client's file, and models are "
            f"the server's"
        )
