"""The main function of a device process: it builds a model and computes requests in shared memory."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence

from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.engines.protocol import Executable
from pinnace.errors import EngineError
from pinnace.machine.cores import bound
from pinnace.machine.memory import end_first, private_memory
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.serving.channel import Channel, Message, Slot, encode_error
from pinnace.serving.worker import Stoppable
from pinnace.shapes import is_free
from pinnace.types import Array, Port


def main(start: Message) -> None:
    """Serve the parent process until it closes the connection."""
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, signal.SIG_IGN)  # the parent gets it too, from a terminal or systemd, and decides
    end_first(500)  # not the process that restarts this one
    control = Channel(socket.socket(fileno=start["control"]))
    slots = [Slot(*descriptors) for descriptors in start["slots"]]
    try:
        job = control.receive()
        if job is None:
            return
        target = Target.of_message(job["target"])
        executable, description = build_replica(
            job["model"], target, Settings(job["sections"], job["folder"])
        )
        _check(executable.inputs + executable.outputs)
    except BaseException as error:
        control.send({"error": encode_error(error)})
        return
    sys.stderr.flush()
    control.send(description)
    os.dup2(start["stderr"], 2)
    runner, stops = _SlotRunner(slots, executable), Channel(socket.socket(fileno=start["stops"]))
    threading.Thread(target=_serve_stops, args=(stops, runner), daemon=True).start()
    with bound(target.cores[:1]):
        _serve(control, runner)


def build_replica(
    model: str | os.PathLike[str], target: Target, settings: Settings
) -> tuple[Executable, Message]:
    """Build the model of a replica in this process, and describe it for the process that uses it."""
    if target.cores:
        os.sched_setaffinity(0, target.cores)  # keep all threads of a simulated device on its cores
    built = build(open_model(model, None, target, settings))
    executable = built.executable
    ports = {
        "inputs": [port.record() for port in executable.inputs],
        "outputs": [port.record() for port in executable.outputs],
    }
    memory = {"private": private_memory(), "files": built.spec.source.size}
    return executable, {**ports, **memory, "info": {**built.facts, **executable.info}}


def _serve_stops(stops: Channel, runner: _SlotRunner) -> None:
    while (message := stops.receive()) is not None:
        runner.stop(message["stop"])


def _serve(control: Channel, runner: _SlotRunner) -> None:
    while (message := control.receive()) is not None:
        request = message["request"]
        try:
            shapes = runner.run(message["slot"], message["shapes"], request)
        except Exception as error:
            answer: Message = {"request": request, "error": encode_error(error)}
        else:
            answer = {"request": request, "shapes": shapes}
        try:
            control.send(answer)
        except OSError:
            return


class _SlotRunner(Stoppable):
    """Runs requests in slots; keeps the arrays of each slot, so that their bindings stay valid."""

    def __init__(self, slots: Sequence[Slot], executable: Executable) -> None:
        super().__init__(executable)
        self._slots = slots
        self._ended = 0  # the last request that has run; they come in the order of their numbers
        self._given_up: set[int] = set()  # later ones that the parent has given up
        self._into = [port.dtype.to_numpy() for port in executable.inputs]
        self._out = [port.dtype.to_numpy() for port in executable.outputs]
        shapes = [port.shape for port in executable.outputs]
        self._fixed = None if any(map(is_free, shapes)) else shapes
        self._arrays: list[tuple[object, list[Array], list[Array] | None]] = [(None, [], None) for _ in slots]

    def stop(self, request: int) -> None:
        self._given_up = {one for one in (*self._given_up, request) if one > self._ended}
        self.stop_unwanted()

    def run(self, number: int, shapes: list[list[int]], request: int) -> list[list[int]]:
        """Compute the request in a slot. Returns the shapes of the results, which are in the slot too."""
        slot = self._slots[number]
        known, arrays, outputs = self._arrays[number]
        if known != shapes:
            arrays = slot.inputs.views(shapes, self._into)
            outputs = None if self._fixed is None else slot.outputs.views(self._fixed, self._out)
            self._arrays[number] = (shapes, arrays, outputs)
        try:
            results = self.watched(
                lambda: request not in self._given_up, lambda: self._execution.run(arrays, outputs)
            )
        finally:
            self._ended = request
        if outputs is None:
            found = [list(result.shape) for result in results]
            for view, result in zip(slot.outputs.views(found, self._out), results, strict=True):
                view[...] = result
            return found
        return [list(result.shape) for result in outputs]


def _check(ports: Sequence[Port]) -> None:
    for port in ports:
        if port.dtype.name == "STRING":
            raise EngineError(f"{port.name!r} contains text, which shared memory cannot hold")
