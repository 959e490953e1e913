"""Which accelerators this process may use, as their drivers say it; no library of an engine is asked.

GPUs: `nvidia-smi`, else /proc/driver/nvidia/gpus, of which CUDA_VISIBLE_DEVICES leaves some and numbers them
anew. Ascend: the nodes /dev/davinciN that its driver makes, and ASCEND_RT_VISIBLE_DEVICES likewise. (CUDA
counts the fastest card first where cards differ, unless CUDA_DEVICE_ORDER=PCI_BUS_ID; `nvidia-smi` by place.)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

_NVIDIA = Path("/proc/driver/nvidia/gpus")
VISIBLE = {"gpu": "CUDA_VISIBLE_DEVICES", "ascend": "ASCEND_RT_VISIBLE_DEVICES"}
"""The variables that say which accelerators a process sees, simulated ones too."""
_DEV = Path("/dev")
_PATIENCE = 20  # seconds that a tool of a driver may take


@dataclass(frozen=True)
class Card:
    """An accelerator; `id` is its number for this process, `uuid` what its driver calls it, where it does.

    `memory` is in bytes, 0 where the driver does not tell.
    """

    kind: str
    id: int
    name: str
    memory: int
    uuid: str = ""


@cache
def cards(kind: str) -> tuple[Card, ...]:
    """The accelerators of a kind ("gpu" or "ascend"), by their numbers, when they were first asked for."""
    if kind == "gpu":
        return visible(_gpus(), os.environ.get(VISIBLE[kind]))
    return visible(_ascends(), os.environ.get(VISIBLE[kind]))


def visible(found: Sequence[Card], text: str | None) -> tuple[Card, ...]:
    """The cards that a variable of the environment leaves, numbered anew in its order; None leaves all.

    It holds numbers, or beginnings of UUIDs; from the first one on that is no card nothing counts (CUDA's
    programming guide, "CUDA environment variables").
    """
    if text is None:
        return tuple(found)
    left: list[Card] = []
    for entry in (part.strip() for part in text.split(",")):
        named = [card for card in found if str(card.id) == entry or (entry and card.uuid.startswith(entry))]
        if entry.startswith("MIG-"):  # a part of a card, which nvidia-smi does not list among cards
            named = [Card("gpu", 0, entry, 0)]
        if len(named) != 1:
            break
        left.append(replace(named[0], id=len(left)))
    return tuple(left)


def _gpus() -> list[Card]:
    asked = "--query-gpu=index,uuid,memory.total,name", "--format=csv,noheader,nounits"
    return parse_nvidia_smi(_output("nvidia-smi", asked)) or [
        _described(number, path) for number, path in enumerate(sorted(_NVIDIA.glob("*/information")))
    ]


def _ascends() -> list[Card]:
    numbers = sorted(int(path.name[7:]) for path in _DEV.glob("davinci[0-9]*") if path.name[7:].isdecimal())
    return [Card("ascend", number, "Ascend", 0) for number in numbers]


def parse_nvidia_smi(text: str) -> list[Card]:
    """Cards of what `nvidia-smi` prints of index, UUID, memory in MiB and name; a field can be "[N/A]"."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(\d+), ([^,]+), (\d+|\[[^,]*\]), (.+?)\s*", line)
        if match:
            memory = int(match[3]) << 20 if match[3].isdecimal() else 0
            found.append(Card("gpu", int(match[1]), match[4], memory, match[2]))
    return found


def _described(number: int, information: Path) -> Card:
    """The card of the driver's file about it, with lines such as "Model: NAME" and "GPU UUID: UUID"."""
    try:
        text = information.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    said = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", text, re.MULTILINE))
    return Card("gpu", number, said.get("Model", "NVIDIA GPU"), 0, said.get("GPU UUID", ""))


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
