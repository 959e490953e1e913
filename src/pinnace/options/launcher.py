"""Ranks from the environment of launchers: Open MPI, MPICH, Slurm, torchrun, MindSpore."""

from __future__ import annotations

import os
from typing import Literal

_NAMES = {
    "rank": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "RANK_ID"),
    "size": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "RANK_SIZE"),
}


def launched(what: Literal["rank", "size"], default: int) -> int:
    """Return the rank of this process, or the number of ranks; `default` without a launcher."""
    return number(*_NAMES[what], default=default)


def number(*names: str, default: int = 0) -> int:
    """Return the first of these environment variables that is a number."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), default)
