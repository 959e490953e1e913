"""Replicas that are processes of this machine, one for each device.

Each process has two slots of shared memory: the next request is written while one is computed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from pinnace.errors import DeviceUnavailableError, EngineError
from pinnace.serving.channel import Channel, DTypes, Message, Slot, decode_error, decode_ports
from pinnace.serving.replicas import Cancellation, Replica, ReplicaLostError, T, Take
from pinnace.types import Array

SLOTS = 2
_ROOT = Path(__file__).parents[2]
_CHILD = (
    "import json, sys; "
    "start = json.loads(sys.argv[1]); "
    "sys.path += [path for path in start['path'] if path not in sys.path]; "
    "from pinnace.serving.device_process import main; "
    "main(start)"
)


@dataclass(frozen=True)
class Job:
    """The model that a process builds, as a message, and the device's name for error messages."""

    device: str
    message: Message


class _Process:
    """A running device process and its slots."""

    def __init__(self, job: Job) -> None:
        """Start the process. Call `wait_until_ready` next."""
        self._device = job.device
        self.slots = [Slot() for _ in range(SLOTS)]
        self._free = list(range(SLOTS))
        self._answers: dict[int, Message] = {}
        self._changed = threading.Condition()
        self._receiving = self._gone = False
        self._sent = 0  # requests so far; each one's number is its name
        self.control, theirs = Channel.pair()
        self._stops, their_stops = Channel.pair()
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        descriptors = [slot.descriptors for slot in self.slots]
        path = [entry for entry in (*sys.path, str(_ROOT)) if entry]
        stderr = _stderr()
        sockets = {"control": theirs.fileno(), "stops": their_stops.fileno()}
        start = {**sockets, "slots": descriptors, "path": path, "stderr": stderr}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CHILD, json.dumps(start)],
                stdin=subprocess.DEVNULL,
                stderr=self._printed,
                pass_fds=[*sockets.values(), stderr, *(d for pair in descriptors for d in pair)],
            )
        except OSError as error:
            self.close()
            raise DeviceUnavailableError(f"{job.device}: its process cannot be started: {error}") from None
        finally:
            theirs.close()
            their_stops.close()
            os.close(stderr)
        with suppress(OSError):  # it has ended: `wait_until_ready` reports how
            self.control.send(job.message)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_until_ready(self) -> Message:
        """Return the process's description of its model. Raises the error of a failed build."""
        message = self.control.receive()
        if message is None or "error" in message:
            died = self.end()
            self._printed.seek(0)
            printed = self._printed.read()[-4000:].decode(errors="replace").strip()
            self.close()
            if message is not None:
                raise decode_error(message["error"], self._device)
            raise DeviceUnavailableError(f"{died} before it was ready{': ' * bool(printed)}{printed}")
        self._show_output()
        self._into: DTypes = [port.dtype.to_numpy() for port in decode_ports(message["inputs"])]
        self._out: DTypes = [port.dtype.to_numpy() for port in decode_ports(message["outputs"])]
        return message

    def run(self, arrays: Sequence[Array], take: Take[T], cancellation: Cancellation) -> T:
        """Compute; see `Replica.run`. At most as many requests as slots may run."""
        with self._changed:
            number = self._free.pop()
        slot = self.slots[number]
        try:
            shapes = [array.shape for array in arrays]
            for view, array in zip(slot.inputs.views(shapes, self._into), arrays, strict=True):
                np.copyto(view, array)
            answer = self._answer(number, {"run": number, "shapes": shapes}, cancellation)
            if "error" in answer:
                raise decode_error(answer["error"], self._device)
            return take(slot.outputs.views(answer["shapes"], self._out))
        except OSError as error:  # shared memory or descriptors are not available
            raise EngineError(f"{self._device}: {error}") from None
        finally:
            with self._changed:
                self._free.append(number)

    def _answer(self, number: int, message: Message, cancellation: Cancellation) -> Message:
        """Wait for the answer of a slot; one of the waiting threads receives the answers for all of them."""
        with self._changed, suppress(OSError):  # the wait below detects that it is gone
            self._sent += 1
            message["request"] = self._sent
            self.control.send(message)
        cancellation.connect(partial(self._stop, message["request"]))
        while True:
            with self._changed:
                self._changed.wait_for(lambda: number in self._answers or self._gone or not self._receiving)
                if number in self._answers:
                    return self._answers.pop(number)
                if self._gone:
                    break
                self._receiving = True
            received = self.control.receive()
            with self._changed:
                self._receiving, self._gone = False, received is None
                if received is not None:
                    self._answers[received["slot"]] = received
                self._changed.notify_all()
        raise ReplicaLostError(self.end())

    def _stop(self, request: int) -> None:
        with suppress(OSError):  # it is gone
            self._stops.send({"stop": request})

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._process.wait()

    def _show_output(self) -> None:
        """Print the output of the process so far; later output goes to stderr directly."""
        self._printed.seek(0)
        printed = self._printed.read().decode(errors="replace")
        self._printed.close()
        if printed and sys.stderr is not None:
            print(printed, end="", file=sys.stderr)

    def kill(self) -> None:
        """Kill the process; `end` and `close` free its resources."""
        self._process.kill()

    def end(self) -> str:
        """Wait for the process to end, or kill it. Returns how it ended, for messages."""
        try:
            code = self._process.wait(0.2)  # a process that closed its socket is about to end
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return f"{self._device}: its process {how}"

    def close(self) -> None:
        """Close the sockets and the file of captured output."""
        self.control.close()
        self._stops.close()
        self._printed.close()


def _stderr() -> int:
    """Duplicate the file descriptor of stderr."""
    try:
        return os.dup(2)
    except OSError:  # stderr is closed
        return os.open(os.devnull, os.O_WRONLY)


class ProcessReplica(Replica):
    """See `Replica`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.device)
        self._job, self._lock = job, threading.Lock()
        self._process: _Process | None = None

    def start(self) -> Message:
        """See `Replica`."""
        try:
            process = _Process(self._job)
        except OSError as error:  # too many open files
            why = f"{self.device}: its process cannot be started: {error}"
            raise DeviceUnavailableError(why) from None
        with self._lock:
            self._process, self.pid = process, process.pid
            if self.ended.is_set():
                process.kill()
        return process.wait_until_ready()

    def run(self, arrays: Sequence[Array], take: Take[T], cancellation: Cancellation) -> T:
        """See `Replica`."""
        assert self._process is not None
        return self._process.run(arrays, take, cancellation)

    def wait(self) -> None:
        """See `Replica`."""
        if self._process is not None:
            self._process.wait()
            self._process.close()

    def leave(self) -> None:
        """See `Replica`."""
        if self._process is not None:
            self._process.kill()

    def free(self) -> None:
        """See `Replica`."""
        self._process = None

    def end(self) -> None:
        """See `Replica`."""
        with self._lock:
            self.ended.set()
            process = self._process
        if process is None:
            return
        if self.up:
            process.control.hang_up()
        else:
            process.kill()
        process.end()
