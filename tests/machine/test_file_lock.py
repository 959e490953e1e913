"""Locks that processes share."""

import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from pinnace.machine.file_lock import locked


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


def test_a_second_caller_gets_the_lock_when_the_first_leaves_it(path):
    order = []

    def second():
        with locked(path):
            order.append("second")

    with locked(path):
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.1)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_patience_ends(path):
    with locked(path), pytest.raises(TimeoutError, match=r"held its lock lock for 0 s"), locked(path, 0):
        pass
    with locked(path, 0):
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(path):
    holding = f"""
import pathlib, sys
from pinnace.machine.file_lock import locked
with locked(pathlib.Path({str(path)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", holding]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(TimeoutError), locked(path, 0):
            pass
        holder.kill()
    with locked(path, 0):
        pass


def test_a_child_that_was_forked_meanwhile_keeps_no_lock(path):
    started, end = os.pipe()
    with locked(path):
        child = os.fork()
        if not child:
            os.close(end)
            os.read(started, 1)  # until the parent has ended the test
            os._exit(0)
    try:
        with locked(path, 0):
            pass
    finally:
        os.close(end)
        os.waitpid(child, 0)


def test_a_lock_whose_file_was_removed_is_taken_on_the_new_file(path, monkeypatch):
    flock, taken = fcntl.flock, []

    def removed_first(file, operation):
        if not taken:
            path.unlink()
        taken.append(file)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with locked(path, 1), pytest.raises(TimeoutError), locked(path, 0):
        pass
