"""Make tests/data/zoo: the networks of `networks`, so small that they can be carried.

Run with the oracle's interpreter, at the root of the repository:

    python -m tests.zoo.goldens tests/data/zoo [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mindspore as ms
from tests.zoo.catalog import ENTRIES
from tests.zoo.oracle import Oracle

SIZES: dict[str, dict[str, Any]] = {
    "bert": {"words": 60, "width": 32, "layers": 2},
    "conv3d": {"width": 6, "size": 32},
    "crnn": {"classes": 11, "width": 8},
    "dbnet": {"widths": (8, 12, 16, 24), "inner": 16, "size": 64},
    "diffusion_unet": {"low": 16, "high": 16, "text": 48, "size": 8},
    "gpt2_cache": {"words": 60, "width": 32, "layers": 2},
    "llama": {"words": 60, "width": 32, "layers": 2},
    "lstm_tagger": {"words": 60, "width": 16},
    "t5": {"words": 60, "width": 32, "layers": 2},
    "two_tower": {"users": 50, "items": 70, "width": 16},
    "whisper_encoder": {"width": 32, "layers": 2, "frames": 60},
}


def main(folder: Path, names: list[str]) -> None:
    """Write two files for each network."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or SIZES:
        print(name, Oracle(ENTRIES[name], folder, sizes=SIZES[name]).first())
        for suffix in (".onnx", ".json"):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
