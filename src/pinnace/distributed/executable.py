"""An executable for one rank's part of a model: segments and collectives in order."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

import ml_dtypes
import numpy as np

from pinnace.distributed.communicator import Communicator, Link, Message, Ranks
from pinnace.distributed.comparison import match_ranks
from pinnace.distributed.groups import group_of, groups_of
from pinnace.distributed.plan import Collective, RankPart, Segment
from pinnace.distributed.world import communicator
from pinnace.engines.protocol import ALL_RANKS, WITHOUT_ELEMENTS, Executable, Execution, State
from pinnace.engines.steps import Step as TimedStep
from pinnace.errors import DataMismatchError, DistributedError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.shapes import is_free
from pinnace.tensors.results import Results
from pinnace.types import Array

_WIDER: dict[np.dtype[np.generic], np.dtype[np.generic]] = {
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32),
    np.dtype(np.int16): np.dtype(np.int32),
    np.dtype(np.uint16): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.int64),
}
"""Types that some communicators cannot reduce, and the wider types used instead."""
_REDUCED = ("float32", "float64", "int8", "uint8", "int32", "int64", *(d.name for d in _WIDER))

Values = dict[str, Array]


def join(part: RankPart, target: Target, settings: Settings, content: str) -> Executable:
    """Join the other ranks; `content` is a digest of the model file.

    Raises `UnsupportedModelError`, `ConfigError`, and `DistributedError` if ranks are missing or have parts
    that do not match.
    """
    collectives = part.plan.collectives
    _check(part.name, collectives)
    world = communicator(target, settings)
    listed = groups_of(target.groups)
    groups = {c: group_of(c, listed, world.size, world.rank) for c in collectives}
    link = match_ranks(world, groups, part.plan.partition, part.name, content)
    bound = {c: _BoundCollective(world, link, c, group) for c, group in groups.items()}
    return DistributedExecutable(part, world, bound)


def _check(model: str, collectives: Sequence[Collective]) -> None:
    for one in collectives:
        reason = ""
        if one.kind in ("AllReduce", "ReduceScatter"):
            dtype = one.takes[0].dtype.to_numpy()
            if dtype.name not in _REDUCED:
                reason = f"reduces elements of type {dtype.name}"
        if one.kind == "Exchange" and any(is_free(p.shape) for p in one.gives):
            reason = "receives a tensor of free dimensions"
        if reason:
            raise UnsupportedModelError(model, [UnsupportedPrimitive(one.kind, 1, one.name, reason)])


class _BoundCollective:
    def __init__(self, world: Communicator, link: Link, one: Collective, group: Ranks) -> None:
        self._rank, self._watchdog = world.rank, world.watchdog
        self._link, self._one, self._group = link, one, group
        self._title = str(one)
        self._is_free = any(is_free(port.shape) for port in one.takes)
        self._shapes: list[tuple[int, ...]] | None = None
        self._given: list[Array] = []

    def run(self, values: Values, keeps: bool) -> None:
        """Run the collective on `values`; its buffers are reused unless `keeps`."""
        self._watchdog.begin(self._title)
        taken = [values[port.name] for port in self._one.takes]
        if self._is_free:
            self._compare_shapes(taken)
        shapes = [array.shape for array in taken]
        if keeps or shapes != self._shapes:
            ports = zip(self._one.gives, _shapes(self._one, self._group, taken), strict=True)
            self._given = [np.empty(shape, port.dtype.to_numpy()) for port, shape in ports]
            self._shapes = shapes
        self._communicate(taken, self._given)
        for port, array in zip(self._one.gives, self._given, strict=True):
            values[port.name] = array

    def _communicate(self, taken: list[Array], given: list[Array]) -> None:
        one, group, link = self._one, self._group, self._link
        match one.kind:
            case "AllReduce":
                self._reduce(link.all_reduce, taken[0], given[0])
            case "ReduceScatter":
                self._reduce(link.reduce_scatter, taken[0], given[0])
            case "AllGather":
                link.all_gather(group, taken[0], given[0])
            case "Broadcast":
                link.broadcast(group, taken[0], given[0], group[one.root])
            case "AllToAll":
                link.all_to_all(group, taken[0], given[0])
            case "Barrier":
                link.barrier(group)
            case _:
                sends = [(group[to], x) for to, x in zip(one.to, taken, strict=True)]
                receives = [(group[source], y) for source, y in zip(one.source, given, strict=True)]
                self._exchange(sends, receives)

    def _exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        here, arrived = ([array for rank, array in some if rank == self._rank] for some in (sends, receives))
        for x, out in zip(here, arrived, strict=True):
            np.copyto(out, x)
        others, theirs = ([one for one in some if one[0] != self._rank] for some in (sends, receives))
        self._link.exchange(others, theirs, self._one.tag)

    def _reduce(self, run: Callable[[Ranks, Array, Array, str], None], x: Array, out: Array) -> None:
        wide = _WIDER.get(x.dtype)
        if wide is None:
            run(self._group, x, out, self._one.op)
            return
        result = np.empty(out.shape, wide)
        run(self._group, x.astype(wide), result, self._one.op)
        np.copyto(out, result, casting="unsafe")

    def _compare_shapes(self, taken: Sequence[Array]) -> None:
        """Compare shapes that were free at build time. Raises DistributedError if they differ."""
        own = np.zeros(16, np.int64)
        sizes = [n for array in taken for n in (array.ndim, *array.shape)][:16]
        own[: len(sizes)] = sizes
        rows = np.empty((len(self._group), 16), np.int64)
        self._link.all_gather(self._group, own, rows)
        for rank, row in zip(self._group, rows, strict=True):
            if (row != own).any():
                theirs, ours = row[1 : 1 + row[0]].tolist(), list(taken[0].shape)
                raise self._watchdog.broken(
                    f"rank {self._rank} has a tensor of shape {ours} and rank {rank} one of {theirs} in"
                )


def _shapes(one: Collective, group: Ranks, taken: Sequence[Array]) -> list[tuple[int, ...]]:
    """Return the shapes of the results. Raises DataMismatchError if rows do not divide among the ranks."""
    if one.kind == "Exchange":
        return [port.shape for port in one.gives]
    if not taken:
        return []
    first, rest = (taken[0].shape or (1,))[0], taken[0].shape[1:]
    if one.kind in ("ReduceScatter", "AllToAll") and first % len(group):
        raise DataMismatchError(
            f"{one}: a tensor of shape {list(taken[0].shape)} has {first} rows, which {len(group)} ranks "
            f"cannot share equally"
        )
    match one.kind:
        case "AllGather":
            return [(first * len(group), *rest)]
        case "ReduceScatter":
            return [(first // len(group), *rest)]
        case _:
            return [taken[0].shape] * len(one.gives)


class DistributedExecutable:
    """See `Executable`. Runs happen one at a time, as all ranks must run collectives in the same order."""

    takes_device_memory = writes_free = queues = is_light = False
    runs_in = ALL_RANKS
    lost_by_fork = "connections to other ranks belong to the process that made them, not to its forks"

    def __init__(
        self, part: RankPart, world: Communicator, collectives: Mapping[Collective, _BoundCollective]
    ) -> None:
        self.part, self.collectives, self.watchdog = part, collectives, world.watchdog
        self.inputs, self.outputs = part.interface.inputs, part.interface.outputs
        self.segments = dict(zip(part.plan.segments, part.segments, strict=True))
        self.lock = threading.Lock()
        none = {"engine": "none", "precision": "float32"}  # of a part with nothing between its collectives
        engine = next((dict(segment.info) for segment in part.segments), none)
        self.info = {
            **engine,
            **part.interface.info,
            WITHOUT_ELEMENTS: "ranks exchange no tensors without them",
            "rank": f"{world.rank} of {world.size}",
            "communicator": world.name,
            "segments": str(len(part.segments)),
            "collectives": str(len(collectives)),
        }

    def execution(self, state: State | None = None) -> Execution:
        """Return an execution; executions take turns."""
        first = [np.array(value) for value in self.part.first_state] if state is None else state
        return _DistributedExecution(self, first)

    def profile(self) -> list[list[TimedStep]]:
        profiles = [executable.profile() for executable in self.part.segments]
        return [list(chain.from_iterable(runs)) for runs in zip(*profiles, strict=False)]

    def close(self) -> None:
        """Free the memory of the engines; the ranks stay connected for other models."""
        for executable in self.part.segments:
            executable.close()


class _DistributedExecution:
    def __init__(self, executable: DistributedExecutable, state: State) -> None:
        part = executable.part
        self.state = state
        self._inputs = [p.name for p in part.interface.inputs] + [name for name, _ in part.interface.states]
        self._outputs = [p.name for p in part.interface.outputs]
        self._states = [name for _, name in part.interface.states]
        self._constants = part.plan.constants
        self._watchdog, self._lock = executable.watchdog, executable.lock
        results = {*self._outputs, *self._states}
        self._steps: list[Callable[[Values], None]] = []
        for step in part.plan.steps:
            if isinstance(step, Segment):
                execution = executable.segments[step].execution()
                self._steps.append(_BoundSegment(step, execution, results).run)
            else:
                keeps = any(port.name in results for port in step.gives)
                self._steps.append(partial(executable.collectives[step].run, keeps=keeps))

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        with self._lock:
            values = dict(self._constants)
            values.update(zip(self._inputs, (*arrays, *self.state), strict=True))
            try:
                for step in self._steps:
                    step(values)
            except DistributedError:
                raise
            except BaseException as error:
                self._watchdog.fail(error)
                raise
        self.state = [values[name] for name in self._states]
        results = [values[name] for name in self._outputs]
        if outputs is None:
            return results
        for result, output in zip(results, outputs, strict=True):
            np.copyto(output, result)
        return outputs

    def stop(self, for_good: bool = False) -> None:
        """See `Execution`. The run ends by itself: the other ranks wait for this one's part of it."""


class _BoundSegment:
    """A segment and its execution; outputs for other steps are in buffers that are bound once."""

    def __init__(self, segment: Segment, execution: Execution, results: set[str]) -> None:
        ports = segment.ports
        self._execution = execution
        self._inputs = [port.name for port in ports.inputs]
        self._outputs = [port.name for port in ports.outputs]
        self._new = [port.name in results for port in ports.outputs]
        self._buffers: list[Array] | None = None
        if all(not is_free(port.shape) and math.prod(port.shape) for port in ports.outputs):
            kinds = [(port.shape, port.dtype.to_numpy()) for port in ports.outputs]
            self._buffers = [np.empty(*kind) for kind in kinds]
            self._memory = Results([kind for kind, new in zip(kinds, self._new, strict=True) if new])

    def run(self, values: Values) -> None:
        taken = [values[name] for name in self._inputs]
        into = None
        if self._buffers is not None:
            fresh, places = iter(self._memory.new()), zip(self._buffers, self._new, strict=True)
            into = [next(fresh) if new else buffer for buffer, new in places]
        values.update(zip(self._outputs, self._execution.run(taken, into), strict=True))
