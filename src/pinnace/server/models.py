"""One version of a model that is open: its tensors, its predictions, its counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, perf_counter_ns, time

import numpy as np

from pinnace.api.runner import ModelParallelRunner
from pinnace.errors import NotSupportedError, PinnaceError
from pinnace.log import INFO, WARNING, Log
from pinnace.machine.memory import private_memory
from pinnace.server.failures import GONE, RequestError, answer
from pinnace.server.metrics import Metrics
from pinnace.server.settings import ModelSettings
from pinnace.server.text.folder import Folder
from pinnace.server.text.model import TextModel
from pinnace.serving.thread_pool import ThreadPool
from pinnace.types import Array, Port

_LEAST = 1 << 18
"""Bytes that the smallest model takes with its session, counts and metrics: where memory of closed models is
used again, they cannot be seen."""
_log = Log("pinnace.server")


class _Runner(ModelParallelRunner):
    """A runner whose queue is served by threads of several models."""

    def __init__(self, threads: ThreadPool | None) -> None:
        super().__init__()
        self._threads = threads

    @property
    def has_brief(self) -> bool:
        """True if `predict_brief` may return outputs."""
        live = self._live
        return live is not None and live.workers.has_brief

    def predict_brief(self, inputs: Sequence[Array]) -> list[Array] | None:
        """Return the outputs if the run takes less time than to hand it to a worker, else None."""
        live = self._built()
        return live.workers.run_brief(live.inputs.arrays(inputs))


@dataclass
class Counts:
    """Requests since a version was opened; times are sums in nanoseconds."""

    served: int = 0
    queue_ns: int = 0
    compute_ns: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    failed_ns: int = 0
    last: float = 0.0

    @property
    def failures(self) -> int:
        """All requests that failed."""
        return self.failed.total()


class OpenModel:
    """A version of a model: a runner that answers, until `close`."""

    def __init__(
        self,
        name: str,
        version: str,
        path: Path,
        settings: ModelSettings,
        metrics: Metrics,
        labels: Sequence[str] = (),
        threads: ThreadPool | None = None,
    ) -> None:
        """Open a model with the names of its classes, which takes a while; `threads` serve it and others.

        Raises as `ModelParallelRunner.build_from_file` does.
        """
        self.name, self.version, self.path, self.settings = name, version, path, settings
        self.counts, self.warm_ms = Counts(), 0.0
        self.runner = _Runner(threads)
        self.runner.build_from_file(str(path), settings.context())
        self._private = private_memory()
        taken = dict(part.split() for part in self.runner.get_model_info("memory").split(", "))
        self.memory = int(taken["private"]) + int(taken["files"])
        """Bytes that the model takes: what opening and warming it up allocated, and its mapped file."""
        self.inputs = [Port(t.name, t.dtype, tuple(t.shape)) for t in self.runner.get_inputs()]
        self.outputs = [Port(t.name, t.dtype, tuple(t.shape)) for t in self.runner.get_outputs()]
        self._text: TextModel | NotSupportedError = _text_model(path, self.inputs, self.outputs)
        self.labels = labels
        self.last_used = perf_counter()
        self._metrics, self._all_metrics = metrics.opened(name, version), metrics
        self._holders = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def workers(self) -> int:
        """The number of requests that run at once."""
        return int(self.runner.get_model_info("workers"))

    def text_model(self) -> TextModel:
        """Return what takes texts for it. Raises NotSupportedError if it takes none."""
        if isinstance(self._text, NotSupportedError):
            raise NotSupportedError(f"{self.name} takes no texts: {self._text}")
        return self._text

    @property
    def failure(self) -> str:
        """The reason why no process of the model is left to answer, "" if one is."""
        return self.runner.get_model_info("failure")

    def summary(self) -> str:
        """Return what was chosen for it, and the time of a request when it is warm."""
        fact = self.runner.get_model_info
        warm = f", in process {self.warm_ms:.3g} ms" if self.warm_ms else ""
        return (
            f"{fact('engine')}, {fact('precision')}, {self.workers} workers x {fact('threads')} threads{warm}"
        )

    @property
    def busy(self) -> bool:
        """True while a request holds it."""
        return self._holders > 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep it open for the block."""
        self._holders += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._holders -= 1
            self.last_used = perf_counter()
            if not self._holders:
                self._idle.set()

    @property
    def zeros(self) -> list[Array]:
        """Inputs of zeros; free dimensions are 1."""
        return [np.zeros([max(d, 1) for d in t.shape], t.dtype.to_numpy()) for t in self.inputs]

    def warm_up(self) -> None:
        """Predict zeros a few times, so that the first request is as fast as the tenth.

        A model that zeros do not suit stays cold: the log says so.
        """
        zeros, start = self.zeros, perf_counter()
        try:
            for _ in range(self.settings.warm_up):
                begun = perf_counter()
                self.runner.predict(zeros)
                self.warm_ms = (perf_counter() - begun) * 1e3
            if self.warm_ms:
                self.runner.submit(zeros).result()  # a worker learns that the model is brief
        except PinnaceError as error:
            _log.event(WARNING, "not warm", f"{self.name}: zeros do not warm it up: {error}", model=self.name)
            return
        finally:
            self.memory = max(_LEAST, self.memory + max(0, private_memory() - self._private))
            self._metrics.size = self.memory
        seconds = perf_counter() - start
        _log.event(INFO, "warm", f"{self.name} {self.version} is warm", model=self.name, seconds=seconds)

    def predict_now(self, inputs: Mapping[str, Array]) -> Sequence[Array] | None:
        """Return what `predict` does, without a wait, or None if the run might hold up other requests."""
        start, self.last_used = perf_counter_ns(), perf_counter()
        try:
            outputs = self.runner.predict_brief(self._in_order(inputs))
        except Exception as error:
            self._failed(answer(error).cause, start)
            raise
        if outputs is not None:
            self._served(0, perf_counter_ns() - start)
        return outputs

    async def predict(
        self, inputs: Mapping[str, Array], timeout: float | None = None, priority: int = 0
    ) -> Sequence[Array]:
        """Return the outputs in the model's order; `timeout` is in seconds and includes the wait.

        `priority` is the protocol's: 1 leaves the queue before 2, and so on; 0 is the model's default.

        Raises as `ModelParallelRunner.apredict` does. A cancelled task withdraws or stops the prediction.
        """
        start = perf_counter_ns()
        try:
            future = self.runner.submit(
                self._in_order(inputs),
                self._within(timeout),
                (priority or self.settings.default_priority) - self.settings.default_priority,
            )
            outputs = await asyncio.wrap_future(future)
            arrays = [output.get_data_to_numpy() for output in outputs]
        except asyncio.CancelledError:
            self._failed(GONE, start)
            raise
        except Exception as error:
            self._failed(answer(error).cause, start)
            raise
        began = getattr(future, "began_at", 0) or start  # a cluster's futures do not say
        self._served(began - start, perf_counter_ns() - began)
        return arrays

    def _served(self, queued: int, computed: int) -> None:
        """Count a request that waited and ran so many nanoseconds."""
        counts = self.counts
        counts.served += 1
        counts.last = time()
        counts.queue_ns += queued
        counts.compute_ns += computed
        self._metrics.served(queued / 1e9, computed / 1e9)

    def _within(self, timeout: float | None) -> float | None:
        limits = [limit for limit in (timeout, self.settings.timeout) if limit]
        return min(limits, default=None)

    def _in_order(self, inputs: Mapping[str, Array]) -> list[Array]:
        names = [tensor.name for tensor in self.inputs]
        if inputs.keys() != set(names):
            lacking = [name for name in names if name not in inputs]
            other = [name for name in inputs if name not in names]
            parts = [
                f"{what} {', '.join(map(repr, some))}"
                for what, some in (("lacks", lacking), ("has no", other))
                if some
            ]
            raise RequestError(
                f"the request {' and '.join(parts)}: the inputs of {self.name} are {', '.join(names)}"
            )
        return [inputs[name] for name in names]

    def _failed(self, cause: str, start: int) -> None:
        self.counts.failed[cause] += 1
        self.counts.failed_ns += perf_counter_ns() - start
        self._metrics.failures[cause] += 1

    async def close(self) -> None:
        """Free the model once nobody holds it."""
        await self._idle.wait()
        self._all_metrics.closed(self.name, self.version)
        await asyncio.to_thread(self.runner.close)


def _text_model(path: Path, inputs: Sequence[Port], outputs: Sequence[Port]) -> TextModel | NotSupportedError:
    try:
        return TextModel(path, inputs, outputs)
    except Exception as error:  # files of any form must not keep it from taking tensors
        found = error if isinstance(error, NotSupportedError) else NotSupportedError(f"its files: {error!r}")
        if Folder.of(path) is not None:
            _log.event(WARNING, "no texts", f"{path.name} takes no texts: {found}")
        return found.with_traceback(None)
