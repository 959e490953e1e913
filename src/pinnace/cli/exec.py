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
        typer.Argument(
            metavar="script.py|-m module [ARGS]...",
            help="The script, -m module or -c code, and its arguments.",
        ),
    ],
) -> NoReturn:
    """Run a script that imports mindspore_lite.

    The script and every Python process that it starts import Pinnace where they say
    `import mindspore_lite`; an installed mindspore_lite is neither used nor changed. All else is as
    with python: arguments, exit code, tracebacks, and options such as -m, -c or -X.
    """
    provide_mindspore_lite()
    os.execv(sys.executable, [sys.executable, *arguments])


def provide_mindspore_lite() -> None:
    """Make Pinnace the `mindspore_lite` of Python processes that start from now on.

    They find it through PYTHONPATH, as do forks, spawned workers and subprocesses of theirs.
    """
    paths = [compat.__path__[0], os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
