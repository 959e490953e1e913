"""Which accelerators this machine has, as its drivers say it; no library of an engine is asked.

GPUs: `nvidia-smi`, else /proc/driver/nvidia/gpus. Ascend: the nodes /dev/davinciN that its driver makes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_NVIDIA = Path("/proc/driver/nvidia/gpus")
_DEV = Path("/dev")
_PATIENCE = 20  # seconds that a tool of a driver may take


@dataclass(frozen=True)
class Card:
    """An accelerator of this machine; `memory` is in bytes, 0 where the driver does not tell."""

    kind: str
    id: int
    name: str
    memory: int


@cache
def cards(kind: str) -> tuple[Card, ...]:
    """The accelerators of a kind ("gpu" or "ascend"), by their numbers, when they were first asked for."""
    return tuple(_gpus() if kind == "gpu" else _ascends())


def _gpus() -> list[Card]:
    asked = "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"
    return parse_nvidia_smi(_output("nvidia-smi", asked)) or [
        Card("gpu", number, parse_model(path), 0)
        for number, path in enumerate(sorted(_NVIDIA.glob("*/information")))
    ]


def _ascends() -> list[Card]:
    numbers = sorted(int(path.name[7:]) for path in _DEV.glob("davinci[0-9]*") if path.name[7:].isdecimal())
    return [Card("ascend", number, "Ascend", 0) for number in numbers]


def parse_nvidia_smi(text: str) -> list[Card]:
    """Cards of what `nvidia-smi` prints of index, name and total memory in MiB; a field can be "[N/A]"."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(\d+), (.+), (\d+|\[.*\])\s*", line)
        if match:
            memory = int(match[3]) << 20 if match[3].isdecimal() else 0
            found.append(Card("gpu", int(match[1]), match[2], memory))
    return found


def parse_model(information: Path) -> str:
    """The name of a GPU of the driver's file about it, whose lines are "Model: NAME" and the like."""
    try:
        text = information.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "NVIDIA GPU"
    match = re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE)
    return match[1] if match else "NVIDIA GPU"


def _output(program: str, arguments: Sequence[str]) -> str:
    """What a program prints; "" where it is not there or fails."""
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
