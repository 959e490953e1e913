"""Replicas that are processes of this machine: one for each device, or for each isolated worker.

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from pinnace.errors import DeviceUnavailableError, EngineError
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.serving.batching import Batching
from pinnace.serving.channel import Channel, DTypes, Message, Slot, decode_error
from pinnace.serving.replicas import (
    Replica,
    ReplicaExecution,
    ReplicaLostError,
    ReplicaSet,
    ReplicaWorkerPool,
    T,
    Take,
)
from pinnace.types import Array, Port

SLOTS = 2
_ROOT = Path(__file__).parents[2]
_CHILD = (
    "import json, sys; "
    "start = json.loads(sys.argv[1]); "
    "sys.path += [path for path in start['path'] if path not in sys.path]; "
    "from pinnace.serving.device_process import main; "
    "main(start)"
)


class ProcessReplica(Replica):
    """A replica in a process, which builds the model that `message` describes."""

    def __init__(self, device: str, message: Message) -> None:
        super().__init__(device)
        self._message = message
        self.variables: Mapping[str, str] = {}
        """Variables that its environment has beside those of this process."""
        self._lock = threading.Lock()  # of `_process`, which `end` looks for at any time
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Message:
        self._changed = threading.Condition()
        self._answers: dict[int, Message] = {}
        self._receiving = self._gone = False
        self._sent = 0  # requests so far; each one's number is its name
        with tempfile.TemporaryFile() as printed:
            message = self._first_message(printed)
            failed = message is None or "error" in message
            died = self._reap() if failed else ""
            written = _text(printed)
            if message is None or failed:
                self._close()
                if message is not None:
                    raise decode_error(message["error"], self.device)
                output = written[-4000:].strip()
                raise DeviceUnavailableError(f"{died} before it was ready{': ' * bool(output)}{output}")
        if written and sys.stderr is not None:
            print(written, end="", file=sys.stderr)  # what comes later goes to stderr directly
        self._inputs: DTypes = _dtypes(message["inputs"])
        self._outputs: DTypes = _dtypes(message["outputs"])
        return message

    def _first_message(self, printed: IO[bytes]) -> Message | None:
        """Start the process, which prints into a file, and return its first message; None if it has ended."""
        try:
            self._spawn(printed)
        except OSError as error:  # too many open files
            raise DeviceUnavailableError(f"{self.device}: its process cannot be started: {error}") from None
        with suppress(OSError):  # it has ended, which `receive` notices
            self._control.send(self._message)
        return self._control.receive()

    def _spawn(self, printed: IO[bytes]) -> None:
        """Start the process, and pass it its ends of the channels and the memory."""
        self._slots, self._free = [Slot() for _ in range(SLOTS)], list(range(SLOTS))
        (self._control, control), (self._stops, stops) = Channel.pair(), Channel.pair()
        stderr = _stderr()
        sockets = {"control": control.fileno(), "stops": stops.fileno()}
        descriptors = [slot.descriptors for slot in self._slots]
        path = [entry for entry in (*sys.path, str(_ROOT)) if entry]
        start = {**sockets, "slots": descriptors, "path": path, "stderr": stderr}
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CHILD, json.dumps(start)],
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stderr=printed,
                pass_fds=[*sockets.values(), stderr, *(d for pair in descriptors for d in pair)],
            )
        except OSError:
            self._close()
            raise
        finally:
            control.close()
            stops.close()
            os.close(stderr)
        with self._lock:
            self._process, self.pid = process, process.pid
            if self.ended.is_set():
                process.kill()

    def run(self, arrays: Sequence[Array], take: Take[T], execution: ReplicaExecution) -> T:
        with self._changed:
            number = self._free.pop()
        slot = self._slots[number]
        try:
            shapes = [array.shape for array in arrays]
            for view, array in zip(slot.inputs.views(shapes, self._inputs), arrays, strict=True):
                np.copyto(view, array)
            answer = self._answer({"slot": number, "shapes": shapes}, execution)
            if "error" in answer:
                raise decode_error(answer["error"], self.device)
            return take(slot.outputs.views(answer["shapes"], self._outputs))
        except OSError as error:  # shared memory or descriptors are not available
            raise EngineError(f"{self.device}: {error}") from None
        finally:
            with self._changed:
                self._free.append(number)

    def _answer(self, message: Message, execution: ReplicaExecution) -> Message:
        """Wait for the answer to a request; one of the waiting threads receives the answers for all of
        them.
        """
        with self._changed, suppress(OSError):  # the wait below detects that it is gone
            self._sent += 1
            request = self._sent
            self._control.send({**message, "request": request})
        execution.stop_by(partial(self._stop, request))
        while True:
            with self._changed:
                self._changed.wait_for(lambda: request in self._answers or self._gone or not self._receiving)
                if request in self._answers:
                    return self._answers.pop(request)
                if self._gone:
                    break
                self._receiving = True
            received = self._control.receive()
            with self._changed:
                self._receiving, self._gone = False, received is None
                if received is not None:
                    self._answers[received["request"]] = received
                self._changed.notify_all()
        raise ReplicaLostError(self._reap())

    def _stop(self, request: int) -> None:
        with suppress(OSError):  # it is gone
            self._stops.send({"stop": request})

    def wait(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._close()

    def leave(self) -> None:
        if self._process is not None:
            self._process.kill()

    def free(self) -> None:
        self._slots = []

    def end(self) -> None:
        with self._lock:
            self.ended.set()
            process = self._process
        if process is None:
            return
        if self.up:
            self._control.hang_up()
        else:
            process.kill()
        self._reap()

    def _reap(self) -> str:
        """Wait for the process to end, or kill it. Returns how it ended, for messages."""
        assert self._process is not None
        try:
            code = self._process.wait(0.2)  # a process that closed its socket is about to end
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return f"{self.device}: its process {how}"

    def _close(self) -> None:
        self._control.close()
        self._stops.close()


def processes(model: str, targets: Sequence[Target], settings: Settings) -> list[ProcessReplica]:
    """Return a process for each target, which builds the model of a file for it."""
    message = {
        "model": os.path.abspath(model),
        "sections": {section: dict(values) for section, values in settings.sections.items()},
        "folder": settings.folder,
    }
    return [ProcessReplica(target.place, {**message, "target": target._asdict()}) for target in targets]


def workers(
    model: str, targets: Sequence[Target], settings: Settings, limit: int, batching: Batching | None
) -> ReplicaWorkerPool:
    """Return workers that are processes: one for each request that a target runs at once.

    If one dies, its request fails: another process might die over it too.
    """
    each = [one._replace(parallel_requests=1) for one in targets for _ in range(one.parallel_requests)]
    return ReplicaWorkerPool(ReplicaSet(processes(model, each, settings), tries=1), limit, batching)


def _dtypes(records: Sequence[Message]) -> DTypes:
    return [Port.of_record(record).dtype.to_numpy() for record in records]


def _text(printed: IO[bytes]) -> str:
    printed.seek(0)
    return printed.read().decode(errors="replace")


def _stderr() -> int:
    try:
        return os.dup(2)
    except OSError:  # stderr is closed
        return os.open(os.devnull, os.O_WRONLY)
