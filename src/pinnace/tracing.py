"""Spans of OpenTelemetry for predictions; needs the extra `otel`.

from pinnace.tracing import instrument

instrument()  # models that are built from now on

Each prediction that runs is a span `pinnace.predict` below the caller's current one, with the spans
`pinnace.copy` (inputs are checked, and copied if necessary), `pinnace.queue` (it waits for a worker) and
`pinnace.run` below it; with `DataParallel` the last two once for each part of the batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from time import perf_counter_ns, time_ns
from typing import Any

import opentelemetry.trace as trace
from opentelemetry.context import Context, get_current

from pinnace import __version__
from pinnace.api.base_model import BaseModel
from pinnace.api.built import BuiltModel
from pinnace.api.data_parallel import DataParallel
from pinnace.serving.pool import WorkerPool
from pinnace.serving.replicas import PartWorker
from pinnace.serving.request import Request, UnwantedError
from pinnace.serving.splitting import RequestPart
from pinnace.serving.worker import Worker
from pinnace.shapes import Shape
from pinnace.tensors.inputs import InputPorts, Inputs
from pinnace.tensors.tensor import Outputs
from pinnace.types import Array, Port

_tracer = trace.get_tracer("pinnace")


def instrument(tracer_provider: trace.TracerProvider | None = None) -> None:
    """Trace the models that are built from now on, by default with the global provider."""
    global _tracer
    _tracer = trace.get_tracer("pinnace", __version__, tracer_provider)
    BaseModel.built, WorkerPool.kind = _TracedModel, _TracedWorker
    DataParallel.ports, DataParallel.worker = _SplitInputs, _TracedPartWorker


def uninstrument() -> None:
    """Trace no models that are built from now on."""
    BaseModel.built, WorkerPool.kind = BuiltModel, Worker
    DataParallel.ports, DataParallel.worker = InputPorts, PartWorker


_Part = tuple[int, int, int]
"""The times when a request, or a part of it, was queued, began to run, and ended; by `perf_counter_ns`."""


class _TracedArrays(list[Array]):
    """Inputs of a request; they carry its context to the worker that runs it, and when they were copied."""

    model: str
    caller: Context
    copied: tuple[int, int]

    def __init__(self, arrays: Sequence[Array]) -> None:
        super().__init__(arrays)
        self.parts: list[_Part] = []  # of a request that is split, once they have run
        self.begun = count()


class _TracedInputs(InputPorts):
    def __init__(self, plain: InputPorts, model: str) -> None:
        vars(self).update(vars(plain))
        self._model = model

    def arrays(self, inputs: Inputs) -> list[Array]:
        began = perf_counter_ns()
        arrays = _TracedArrays(super().arrays(inputs))
        arrays.model, arrays.caller = self._model, get_current()
        arrays.copied = began, perf_counter_ns()
        return arrays


class _SplitInputs(_TracedInputs):
    def __init__(self, ports: Sequence[Port], shapes: tuple[Shape, ...], refusal: str) -> None:
        super().__init__(InputPorts(ports, shapes, refusal), "")


class _TracedModel(BuiltModel):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.inputs = _TracedInputs(self.inputs, os.path.basename(self.fact("file")))


class _TracedWorker(Worker):
    _batch_began = 0

    def run(
        self,
        arrays: Sequence[Array],
        outputs: list[Array] | None,
        arrived: int,
        request: Request | None = None,
    ) -> list[Array]:
        began = perf_counter_ns()
        try:
            results = super().run(arrays, outputs, arrived, request)
        except BaseException as error:
            _tell(arrays, arrived, began, error)
            raise
        _tell(arrays, arrived, began)
        return results

    def attempt(self, arrays: Sequence[Array]) -> list[Array] | None:
        self._batch_began = perf_counter_ns()
        return super().attempt(arrays)

    def finish(self, batch: Sequence[Request], results: Sequence[list[Array]]) -> None:
        for request in batch:
            _tell(request.arrays, request.arrived, self._batch_began, batch=len(batch))
        super().finish(batch, results)


class _TracedPartWorker(PartWorker):
    def compute(self, part: RequestPart) -> Callable[[], None]:  # type: ignore[override]
        began, arrays = perf_counter_ns(), part.request.arrays
        assert isinstance(arrays, _TracedArrays)
        if not next(arrays.begun):
            arrays.model = os.path.basename(self.executable.info["file"])
            part.request.add_done_callback(lambda done: _record(arrays, arrays.parts, _error(done)))
        try:
            return super().compute(part)
        finally:
            arrays.parts.append((part.arrived, began, perf_counter_ns()))


def _error(done: Future[Outputs]) -> BaseException | None:
    return UnwantedError() if done.cancelled() else done.exception()


def _tell(
    arrays: Sequence[Array], arrived: int, began: int, error: BaseException | None = None, batch: int = 1
) -> None:
    """Record the spans of a request that is not split."""
    if isinstance(arrays, _TracedArrays):  # else the model was built before
        _record(arrays, [(arrived, began, perf_counter_ns())], error, batch)


def _record(
    arrays: _TracedArrays, parts: Sequence[_Part], error: BaseException | None, batch: int = 1
) -> None:
    """Record the spans of a request that has ended, of one part or of several."""
    now = perf_counter_ns()
    epoch, ended = time_ns() - now, max((end for _, _, end in parts), default=now)
    about: dict[str, str | int] = {"pinnace.model": arrays.model, "pinnace.batch": batch}
    whole = _tracer.start_span(
        "pinnace.predict", arrays.caller, attributes=about, start_time=epoch + arrays.copied[0]
    )
    if not whole.is_recording():  # nobody asked for this trace
        return
    within = trace.set_span_in_context(whole, arrays.caller)
    times = [("copy", *arrays.copied)]
    for arrived, began, end in parts:
        times += [("queue", arrived, began), ("run", began, end)]
    for name, start, end in times:
        _tracer.start_span(f"pinnace.{name}", within, start_time=epoch + start).end(epoch + end)
    if error is not None:
        whole.record_exception(error, timestamp=epoch + ended)
        whole.set_status(trace.StatusCode.ERROR, str(error))
    whole.end(epoch + ended)
