"""Device processes that compute parts of requests behind one queue.

Each process has two slots of shared memory, so that one part is written while another is computed. For each
device one thread writes parts into slots and one waits for results; one more thread runs the callbacks of all
futures. When a process dies, its parts go back to the head of the queue, once, and the process is restarted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from pinnace.errors import DeviceUnavailableError, EngineError, ModelStateError, PinnaceError
from pinnace.serving.control import Control, Message, as_error, ports_of
from pinnace.serving.request import Callbacks
from pinnace.serving.slots import DTypes, Slot
from pinnace.types import Array

_SLOTS = 2
_STARTS = 5  # attempts in a row to restart a dead process
_PAUSE = 0.1  # seconds before the second attempt; doubled each time
_ROOT = Path(__file__).parents[2]
_CHILD = (
    "import json, sys; "
    "told = json.loads(sys.argv[1]); "
    "sys.path += [path for path in told['path'] if path not in sys.path]; "
    "from pinnace.serving.device_process import main; "
    "main(told)"
)


class DeviceTask(Protocol):
    """A unit of work for one process. `tried` counts the processes that died over it."""

    arrays: Sequence[Array]
    tried: int

    def take(self, results: Sequence[Array]) -> Callable[[], None]:
        """Copy the results, whose memory is reused. Returns a function that notifies the caller."""

    def fail(self, error: BaseException) -> None:
        """Pass an error to the caller."""


@dataclass(frozen=True)
class Job:
    """The model that a process builds, as a message, and the device's name for error messages."""

    device: str
    told: Message


class _Process:
    """A running device process and its slots."""

    def __init__(self, job: Job) -> None:
        """Start the process. Call `wait_until_ready` next."""
        self._device = job.device
        self.slots = [Slot() for _ in range(_SLOTS)]
        self.free = list(range(_SLOTS))
        self.running: dict[int, DeviceTask] = {}
        self.control, theirs = Control.pair()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        descriptors = [slot.descriptors for slot in self.slots]
        path = [entry for entry in (*sys.path, str(_ROOT)) if entry]
        stderr = _stderr()
        told = {"control": theirs.fileno(), "slots": descriptors, "path": path, "stderr": stderr}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CHILD, json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=[theirs.fileno(), stderr, *(d for pair in descriptors for d in pair)],
            )
        except OSError as error:
            self.close()
            raise DeviceUnavailableError(f"{job.device}: its process cannot be started: {error}") from None
        finally:
            theirs.close()
            os.close(stderr)
        with suppress(OSError):  # it has ended: `wait_until_ready` reports how
            self.control.send(job.told)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_until_ready(self) -> Message:
        """Return the process's description of its model. Raises the error of a failed build."""
        message = self.control.receive()
        if message is None or "error" in message:
            died = self.end()
            self._said.seek(0)
            printed = self._said.read()[-4000:].decode(errors="replace").strip()
            self.close()
            if message is not None:
                raise as_error(message["error"], self._device)
            raise DeviceUnavailableError(f"{died} before it was ready{': ' * bool(printed)}{printed}")
        self._pass_on()
        return message

    def _pass_on(self) -> None:
        """Print the output of the process so far; later output goes to stderr directly."""
        self._said.seek(0)
        printed = self._said.read().decode(errors="replace")
        self._said.close()
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
        """Close the socket and the file of captured output."""
        self.control.close()
        self._said.close()


def _stderr() -> int:
    """Duplicate the file descriptor of stderr."""
    try:
        return os.dup(2)
    except OSError:  # stderr is closed
        return os.open(os.devnull, os.O_WRONLY)


class _DeviceProcess:
    """A device and its current process, None while it has none."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.link: _Process | None = None
        self.starting: _Process | None = None
        self.lost: BaseException | None = None
        self.threads: list[threading.Thread] = []


def _end(links: Iterable[_Process]) -> None:
    for link in links:
        link.kill()
        link.end()
        link.close()


def _told(device: _DeviceProcess, error: Exception) -> Exception:
    """Attribute an error of shared memory or descriptors to the device."""
    return EngineError(f"{device.job.device}: {error}") if isinstance(error, OSError) else error


class Processes:
    """A device process for each job, and the queue of parts."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        """Start all processes and wait until they are ready. Raises the first error."""
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[DeviceTask] = deque()
        self._devices = [_DeviceProcess(job) for job in jobs]
        self._callbacks = Callbacks()
        self._closed = False
        self.restarts = self.retried = 0
        links: list[_Process] = []
        try:
            for job in jobs:
                try:
                    links.append(_Process(job))
                except OSError as error:  # too many open files
                    why = f"{job.device}: its process cannot be started: {error}"
                    raise DeviceUnavailableError(why) from None
            answers = [link.wait_until_ready() for link in links]
            said = answers[0]
            self.inputs, self.outputs = ports_of(said["inputs"]), ports_of(said["outputs"])
            self.info: Mapping[str, str] = said["info"]
            self._into: DTypes = [port.dtype.to_numpy() for port in self.inputs]
            self._out: DTypes = [port.dtype.to_numpy() for port in self.outputs]
        except BaseException:
            _end(links)
            raise
        for device, link in zip(self._devices, links, strict=True):
            device.link = link
            device.threads = [
                threading.Thread(
                    target=work, args=(device,), name=f"pinnace-{device.job.device}", daemon=True
                )
                for work in (self._write, self._hear)
            ]
        self._teller = threading.Thread(target=self._callbacks.run, name="pinnace-callbacks", daemon=True)
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            self.close()
            _end(device.link for device in self._devices if device.link is not None)
            raise DeviceUnavailableError(f"{', '.join(self.devices)}: their threads: {error}") from None

    def __len__(self) -> int:
        return len(self._devices)

    @property
    def _threads(self) -> list[threading.Thread]:
        """All threads, in the order in which they end."""
        return [*(thread for device in self._devices for thread in device.threads), self._teller]

    @property
    def devices(self) -> list[str]:
        """Names of the devices."""
        return [device.job.device for device in self._devices]

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        with self._changed:
            return [device.link.pid for device in self._devices if device.link is not None]

    def occupied(self) -> tuple[int, int]:
        """Return the number of busy processes and the number of waiting parts."""
        with self._changed:
            busy = sum(bool(device.link and device.link.running) for device in self._devices)
            return busy, len(self._queue)

    def submit(self, parts: Sequence[DeviceTask]) -> None:
        """Queue the parts. Raises `ModelStateError` if closed, `DeviceUnavailableError` if none is left."""
        if os.getpid() != self._owner:
            raise ModelStateError("the devices belong to the process that started them, not to its forks")
        with self._changed:
            if self._closed:
                raise ModelStateError("the model is closed")
            if all(device.lost for device in self._devices):
                raise DeviceUnavailableError(f"no device is left: {self._devices[0].lost}")
            self._queue.extend(parts)
            self._changed.notify_all()

    def withdraw(self, parts: Sequence[DeviceTask]) -> None:
        """Remove parts that still wait from the queue."""
        with self._changed:
            self._queue = deque(part for part in self._queue if part not in parts)

    def close(self) -> None:
        """Fail the waiting parts, wait for the running ones, end the processes. May be called again.

        Called by one of the pool's own threads (the callback of a future), it returns at once.
        """
        if os.getpid() != self._owner:
            return
        if threading.current_thread() in self._threads:
            threading.Thread(target=self.close, name="pinnace-close").start()
            return
        with self._changed:
            self._closed = True
            turned_away = list(self._queue)
            self._queue.clear()
            self._changed.notify_all()
        for part in turned_away:
            part.fail(ModelStateError("the model was closed while this request waited for a device"))
        with self._changed:
            self._changed.wait_for(lambda: not any(d.link and d.link.running for d in self._devices))
            for device in self._devices:
                if device.starting is not None:
                    device.starting.kill()
                if device.link is not None:
                    device.link.control.hang_up()
        for thread in self._threads:
            if thread is self._teller:
                self._callbacks.end()
            if thread.ident is not None:  # else it could not be started
                thread.join()

    # -- the two threads of a device ---------------------------------------------------------------------

    def _write(self, device: _DeviceProcess) -> None:
        self._callbacks.left_by_this_thread()
        while self._write_next(device):
            pass  # `_write_next` returns after each part, so that its data is not held while waiting

    def _write_next(self, device: _DeviceProcess) -> bool:
        found = self._next(device)
        if found is None:
            return False
        link, place, part = found
        try:
            shapes = [array.shape for array in part.arrays]
            views = link.slots[place].inputs.views(shapes, self._into)
            for view, array in zip(views, part.arrays, strict=True):
                np.copyto(view, array)
        except Exception as error:  # out of memory
            if self._release(link, place):
                part.fail(_told(device, error))
            return True
        with suppress(OSError):  # the other thread notices, and requeues the part
            link.control.send({"run": place, "shapes": shapes})
        return True

    def _next(self, device: _DeviceProcess) -> tuple[_Process, int, DeviceTask] | None:
        """Return the next part and its slot; None when closed. The least busy device goes first."""
        with self._changed:
            while not (self._closed or device.lost):
                link = device.link
                if link is not None and link.free and self._queue and len(link.running) == self._least():
                    part, place = self._queue.popleft(), link.free.pop()
                    link.running[place] = part
                    self._changed.notify_all()
                    return link, place, part
                self._changed.wait()
        return None

    def _least(self) -> int:
        return min(len(device.link.running) for device in self._devices if device.link is not None)

    def _hear(self, device: _DeviceProcess) -> None:
        self._callbacks.left_by_this_thread()
        while (link := device.link) is not None:
            message = link.control.receive()
            if message is None:
                self._bury(device, link)
                continue
            self._answer(device, link, message)

    def _answer(self, device: _DeviceProcess, link: _Process, message: Message) -> None:
        """Pass the result of a part to its caller."""
        place = message["slot"]
        part = link.running[place]
        if "error" in message:
            error = as_error(message["error"], device.job.device)
            self._release(link, place)
            part.fail(error)
            return
        try:
            tell = part.take(link.slots[place].outputs.views(message["shapes"], self._out))
        except Exception as failure:
            self._release(link, place)
            part.fail(_told(device, failure))
        else:
            self._release(link, place)
            tell()

    def _release(self, link: _Process, place: int) -> bool:
        """Free a slot. Returns False if its process died and the part was requeued."""
        with self._changed:
            if link.running.pop(place, None) is None:
                return False
            link.free.append(place)
            self._changed.notify_all()
            return True

    # -- restarting dead processes -----------------------------------------------------------------------

    def _bury(self, device: _DeviceProcess, link: _Process) -> None:
        """Requeue the parts of a dead process, and restart it."""
        died = link.end()
        with self._changed:
            device.link = None
            left = [link.running.pop(place) for place in sorted(link.running)]
            again = [part for part in left if not part.tried and not self._closed]
            for part in reversed(again):
                part.tried += 1
                self._queue.appendleft(part)
            self.retried += len(again)
            self._changed.notify_all()
        link.close()
        for part in left:
            if part not in again:
                part.fail(DeviceUnavailableError(f"{died} while it computed this request"))
        self._restart(device)

    def _restart(self, device: _DeviceProcess) -> None:
        for turn in range(_STARTS):
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, _PAUSE * 2**turn if turn else 0):
                    return
                self.restarts += 1
            try:
                link = self._started(device)
            except (PinnaceError, OSError) as error:
                reason: BaseException = error
                continue
            with self._changed:
                device.starting = None
                if not self._closed:
                    device.link = link
                    self._changed.notify_all()
                    return
            _end([link])
            return
        with self._changed:
            device.lost = reason
            stranded = list(self._queue) if all(d.lost for d in self._devices) else []
            if stranded:
                self._queue.clear()
            self._changed.notify_all()
        for part in stranded:
            part.fail(DeviceUnavailableError(f"no device is left: {reason}"))

    def _started(self, device: _DeviceProcess) -> _Process:
        link = _Process(device.job)
        with self._changed:
            device.starting = link
            if self._closed:
                link.kill()
        try:
            link.wait_until_ready()
        finally:
            with self._changed:
                device.starting = None
        return link
