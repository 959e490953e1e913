"""`pinnace exec`: run a script that imports mindspore_lite, unchanged, on Pinnace."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from pinnace import compat


def exec_command(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="script.py|-m module [ARGS]...", help="What python is given to run."),
    ],
) -> NoReturn:
    """Run a Python script with Pinnace as its `mindspore_lite`.

    The script and every Python process that it starts import Pinnace where they say
    `import mindspore_lite`; an installed mindspore_lite is neither used nor touched. All else is as
    with python: arguments, exit code, tracebacks, and options such as -m, -c or -X.
    """
    # A new python process replaces this one and finds the substitute through PYTHONPATH, so that forks,
    # spawned workers and subprocesses of the script find it too.
    paths = [compat.__path__[0], os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.execv(sys.executable, [sys.executable, *arguments])
