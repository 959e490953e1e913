"""`pinnace exec`: run a script that imports mindspore_lite, unchanged, on Pinnace."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from pinnace import compat
from pinnace.cli.options import Script
from pinnace.options import log_format

_GRACE = 3.0
"""Seconds that a process of a script may write to stderr after the script has ended."""


def exec_command(arguments: Script) -> NoReturn:
    """Run a script that imports mindspore_lite.

    The script and every Python process that it starts import Pinnace where they say
    `import mindspore_lite`; an installed mindspore_lite is neither used nor changed. All else is as
    with python: arguments, exit code, tracebacks, and options such as -m, -c or -X.
    """
    provide_mindspore_lite()
    command = [sys.executable, *arguments]
    if log_format.is_json():
        raise typer.Exit(_logged(command))
    os.execv(sys.executable, command)


def _logged(command: Sequence[str]) -> int:
    """Run a process, whose stderr becomes events of the log. Returns its exit status."""
    import subprocess
    import threading

    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the process too
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    reader = threading.Thread(target=sys.stderr.writelines, args=(process.stderr,), daemon=True)
    reader.start()
    status = process.wait()
    reader.join(_GRACE)
    sys.stderr.flush()
    return status if status >= 0 else 128 - status


def provide_mindspore_lite() -> None:
    """Make Pinnace the `mindspore_lite` of Python processes that start from now on.

    They find it through PYTHONPATH, as do forks, spawned workers and subprocesses of theirs.
    """
    paths = [compat.__path__[0], os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
