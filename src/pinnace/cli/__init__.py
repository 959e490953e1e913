"""The command `pinnace`, one module per command.

A command module imports its dependencies inside the function, so that `pinnace --help` starts fast.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from functools import partial
from io import TextIOWrapper
from shutil import get_terminal_size
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperArgument, TyperCommand

from pinnace import __version__
from pinnace.cli import cache
from pinnace.cli.bench import bench
from pinnace.cli.compile import compile_models
from pinnace.cli.convert import convert
from pinnace.cli.cpp import cpp
from pinnace.cli.devices import devices
from pinnace.cli.exec import exec_command
from pinnace.cli.inspect import inspect
from pinnace.cli.launch import launch
from pinnace.cli.quickstart import quickstart
from pinnace.cli.run import run
from pinnace.cli.serve import serve
from pinnace.cli.shard import shard
from pinnace.cli.tune import tune
from pinnace.errors import PinnaceError
from pinnace.log import ERROR, WARNING
from pinnace.options import log_format

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    # Its boxes and columns need room.
    rich_markup_mode="rich"
    if sys.stdout and sys.stdout.isatty() and get_terminal_size().columns >= 80
    else None,
)


_KEEPING = ("bench", "compile", "tune")
"""Commands that measure models as they are loaded later, or are there to keep them."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pinnace {__version__}")
        raise typer.Exit


def _log(form: str | None) -> None:
    """Log from here on, also what is wrong with the rest of the command line."""
    if form is not None:
        os.environ[log_format.VARIABLE] = form
        log_format.start()


@app.callback()
def pinnace(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    log: Annotated[
        Literal["text", "json"] | None,
        typer.Option(
            callback=_log, help="Log builds, failures and restarts to stderr; as json, all that goes there."
        ),
    ] = None,
) -> None:
    """Run MindSpore, MindSpore Lite and ONNX models."""
    if context.invoked_subcommand in _KEEPING:
        os.environ.setdefault("PINNACE_CACHE_KEEP", "before")


class Command(TyperCommand):
    """A command whose help and usage have the names of arguments, and not their types in Python."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for one in self.params:
            if isinstance(one, TyperArgument):
                names = [one.metavar or str(one.name).upper()]
                vars(one).update(display_type_rich=_no_type, get_usage_pieces=lambda _, names=names: names)


def _no_type(ctx: object) -> None:
    """Return the type of an argument for its help: none."""


command = partial(app.command, cls=Command)
command()(run)
command()(inspect)
command()(bench)
command(no_args_is_help=True)(serve)
command()(tune)
command()(devices)
command()(quickstart)
command()(shard)
command()(convert)
command()(cpp)
command(
    no_args_is_help=True,
    # Options after the script belong to the script.
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)(launch)
app.add_typer(cache.app, name="cache")
command("compile", no_args_is_help=True)(compile_models)
command(
    "exec",
    no_args_is_help=True,
    # Options after `exec` belong to python and the script.
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)(exec_command)


def main() -> None:
    """Run one command. An error prints one message and exits with 1, wrong usage exits with 2.

    PINNACE_TRACEBACK=1 in the environment raises the error with its traceback.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if not log_format.is_json():
        warnings.showwarning = _show_warning
    # Print characters that the terminal's encoding lacks as escapes, as stderr does.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            _flush()
    except (PinnaceError, OSError) as error:
        if os.environ.get("PINNACE_TRACEBACK") == "1":
            raise
        if not isinstance(error, BrokenPipeError):  # the reader has enough, as after `| head`
            _note(_message(error), "error", ERROR, kind=type(error).__name__)
        sys.exit(1)


def _flush() -> None:
    """Write what is left for stdout. Raises OSError, which Python at its end would not raise."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        sys.stdout = None
        raise


def _message(error: PinnaceError | OSError) -> str:
    """Return the message of an error, which for a full disk has no file if that is stdout."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{error.filename or 'stdout'} cannot be written: no space left on device"
    return str(error)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    _note(str(message), "warning", WARNING)


def _note(text: str, event: str, level: int, **fields: object) -> None:
    from pinnace.cli.console import note  # with rich, which takes its time

    note(text, event, level, "pinnace: ", **fields)
