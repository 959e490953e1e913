"""`pinnace cpp`: the library of C++ programs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def cpp(
    cflags: Annotated[bool, typer.Option("--cflags", help="Print the compiler's options.")] = False,
    ldflags: Annotated[bool, typer.Option("--ldflags", help="Print the linker's options.")] = False,
    cmakedir: Annotated[bool, typer.Option("--cmakedir", help="Print the folder for pinnace_DIR.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where the library is built; a folder of this environment by default."
        ),
    ] = None,
) -> None:
    """Build the library for C++ programs.

    Prints its folder, or the options to compile and link with it. The folder is laid out as MindSpore
    Lite's package is: -DLITE_HOME and CMAKE_PREFIX_PATH take it. The library is built once for this
    environment of Python, by CXX with CXXFLAGS. It needs Python's headers.
    """
    from pinnace.cli.console import progress
    from pinnace.cpp.build import build, default_folder

    with progress("Building the library"):
        built = build(folder or default_folder())
    if cmakedir:
        print(built.cmakedir)
    elif cflags or ldflags:
        print(shlex.join([*(built.cflags if cflags else []), *(built.ldflags if ldflags else [])]))
    else:
        print(built.folder)
