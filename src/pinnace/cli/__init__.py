"""The command `pinnace`, one module a command.

A command module imports what it runs inside its function, so that `pinnace --help` starts at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from io import TextIOWrapper
from typing import Annotated, TextIO

import typer

from pinnace import __version__
from pinnace.cli import cache
from pinnace.cli.bench import bench
from pinnace.cli.devices import devices
from pinnace.cli.exec import exec_command
from pinnace.cli.inspect import inspect
from pinnace.cli.launch import launch
from pinnace.cli.quickstart import quickstart
from pinnace.cli.run import run
from pinnace.cli.shard import shard
from pinnace.cli.tune import tune
from pinnace.errors import PinnaceError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout and sys.stdout.isatty() else None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pinnace {__version__}")
        raise typer.Exit


@app.callback()
def pinnace(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Run MindSpore, MindSpore Lite and ONNX models."""


app.command()(run)
app.command()(inspect)
app.command()(bench)
app.command()(tune)
app.command()(devices)
app.command()(quickstart)
app.command()(shard)
app.command(
    no_args_is_help=True,
    # What follows the script is the script's.
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)(launch)
app.add_typer(cache.app, name="cache")
app.command(
    "exec",
    no_args_is_help=True,
    # What follows `exec` is for python and for the script: nothing of it is an option of ours.
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)(exec_command)


def main() -> None:
    """Run one command; exit with 1 and one message where it fails, with 2 where it is called wrongly.

    PINNACE_TRACEBACK=1 in the environment lets the error through with its traceback.
    """
    warnings.showwarning = _show_warning
    # A name of a file or of a model that the terminal's encoding has no letters for is shown as on stderr.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (PinnaceError, OSError) as error:
        if os.environ.get("PINNACE_TRACEBACK") == "1":
            raise
        print(f"pinnace: {_plain(str(error))}", file=sys.stderr)
        sys.exit(1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """One line as for errors: which line of ours called the library is nothing to the user."""
    print(f"pinnace: {_plain(str(message))}", file=sys.stderr)


def _plain(text: str) -> str:
    from pinnace.cli.console import plain  # with rich, which takes its time

    return plain(text)
