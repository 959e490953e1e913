"""`pinnace launch`: start a script in several ranks."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Literal

import typer

from pinnace.cli.options import Script


def launch(
    command: Script,
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, metavar="N", help="How many ranks.")],
    hosts: Annotated[
        str, typer.Option(metavar="HOST[:RANKS],...", help="Hosts, with 1 rank each, or RANKS.")
    ] = "",
    agent: Annotated[
        str, typer.Option(metavar="PROGRAM", help="Program that runs a command on a host, like ssh.")
    ] = "ssh",
    way: Annotated[
        Literal["mpi", "nccl", "sockets"] | None,
        typer.Option("--with", help="How ranks communicate; MPI if it is installed."),
    ] = None,
) -> None:
    """Run a Python script in several ranks.

    The ranks run one model together. `import mindspore_lite` imports Pinnace, as in pinnace exec. "{rank}" in
    arguments becomes the rank's number: pinnace launch -n 2 main.py --model_path 'part_{rank}.onnx'. Output
    lines are prefixed with the rank. When one rank fails, the others are stopped, and its exit status is
    that of the command.
    """
    from pinnace.cli.exec import provide_mindspore_lite
    from pinnace.distributed.launch import launch as start
    from pinnace.options import log_format

    def show(rank: int | None, is_error: bool, line: str) -> None:
        whose = "pinnace: " if rank is None else f"[{rank}] "
        if is_error and log_format.is_json():
            own = {} if rank is None else {"rank": rank}
            whose, line = "", log_format.as_event(line, "launch" if rank is None else "stderr", **own) + "\n"
        try:
            # One write per line, because ranks print concurrently.
            print(whose + line, end="", flush=True, file=out[is_error])
        except OSError:  # closed output, as after `| head`: end the ranks, and drop the rest
            os.dup2(os.open(os.devnull, os.O_WRONLY), out[is_error].fileno())
            os.kill(os.getpid(), signal.SIGTERM)

    provide_mindspore_lite()
    out = (sys.stdout, sys.stderr)
    status = start(ranks, [h for h in hosts.split(",") if h], way or "", agent, command, show)
    raise typer.Exit(status)
