"""The accelerators that this process may use, as reported by their drivers; no engine library is asked.

GPUs: `nvidia-smi`, else /proc/driver/nvidia/gpus; CUDA_VISIBLE_DEVICES selects and renumbers them. Ascend:
the device nodes /dev/davinciN and ASCEND_RT_VISIBLE_DEVICES. (If cards differ, CUDA puts the fastest first,
unless CUDA_DEVICE_ORDER=PCI_BUS_ID; `nvidia-smi` orders them by bus.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

_NVIDIA = Path("/proc/driver/nvidia/gpus")
VISIBLE = {"gpu": "CUDA_VISIBLE_DEVICES", "ascend": "ASCEND_RT_VISIBLE_DEVICES"}
"""The variables that select accelerators, simulated ones too."""
_DEV = Path("/dev")
_PATIENCE = 20  # timeout in seconds of a driver's tool


@dataclass(frozen=True)
class Card:
    """An accelerator; `id` is its number for this process, `uuid` that of its driver, if it has one.

    `memory` is in bytes, 0 if unknown.
    """

    kind: str
    id: int
    name: str
    memory: int
    uuid: str = ""


@cache
def cards(kind: str) -> tuple[Card, ...]:
    """The accelerators of a kind ("gpu" or "ascend") by number; cached after the first call."""
    if kind == "gpu":
        return visible(_gpus(), os.environ.get(VISIBLE[kind]))
    return visible(_ascends(), os.environ.get(VISIBLE[kind]))


def visible(found: Sequence[Card], text: str | None) -> tuple[Card, ...]:
    """Return the cards that a variable selects, renumbered in its order; None selects all.

    Its entries are numbers, or prefixes of UUIDs; an entry that matches no card ends the list (CUDA's
    programming guide, "CUDA environment variables").
    """
    if text is None:
        return tuple(found)
    left: list[Card] = []
    for entry in (part.strip() for part in text.split(",")):
        named = [card for card in found if str(card.id) == entry or (entry and card.uuid.startswith(entry))]
        if entry.startswith("MIG-"):  # a partition of a card, which nvidia-smi lists elsewhere
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
    """Parse index, UUID, memory in MiB and name from the output of `nvidia-smi`; a field can be "[N/A]"."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(\d+), ([^,]+), (\d+|\[[^,]*\]), (.+?)\s*", line)
        if match:
            memory = int(match[3]) << 20 if match[3].isdecimal() else 0
            found.append(Card("gpu", int(match[1]), match[4], memory, match[2]))
    return found


def _described(number: int, information: Path) -> Card:
    """Read a card from the driver's file about it, with lines such as "Model: NAME" and "GPU UUID: UUID"."""
    try:
        text = information.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", text, re.MULTILINE))
    return Card("gpu", number, fields.get("Model", "NVIDIA GPU"), 0, fields.get("GPU UUID", ""))


def _output(program: str, arguments: Sequence[str]) -> str:
    """Return the output of a program; "" if it is missing or fails."""
    import shutil  # for the machines that have such a program; most processes need neither
    import subprocess

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
