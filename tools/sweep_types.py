"""Make goldens of the cases of `goldens_*.py` in other element types: all that MindSpore computes on a CPU.

    python tools/sweep_types.py FOLDER TYPE MODULE [PATTERN ...]

TYPE (`f16`, `f64`, `i8`, ...) takes the place of `f32` in a case's inputs; with `swap` those of `i32` and `i64`
take each other's; weights have a TYPE of floats too. MODULE is `goldens_ops` or another; PATTERN chooses cases.
What MindSpore refuses is left out, and what is there already. The order is one of chance, the same each time: a
run that is cut short has made a sample.
`python -m tests.random_calls.files FOLDER` compares. Needs MindSpore 2.10.
"""

from __future__ import annotations

import importlib
import re
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import goldens
import mindspore as ms
import numpy as np


def of_type(spec: str, kind: str) -> str:
    """An input as `goldens.drawn` reads it, of another type; integers lie where floats may."""
    if kind == "swap":
        return re.sub(r"^i(32|64)", lambda found: "i64" if found[1] == "32" else "i32", spec)
    found = re.match(r"f32(\[[^]]*\])(?:>(-?[\d.]+))?(?:<(-?[\d.]+))?", spec)
    if found is None or kind.startswith("f"):
        return re.sub("^f32", kind, spec)
    low, high = found[2], found[3]
    least = -(-float(low) // 1) if low else -4
    least = max(least, 0) if kind.startswith("u") else least
    most = float(high) if high else 5
    return f"{kind}{found[1]}>{least:.0f}<{max(most, least + 1):.0f}"


def typed(randomise: Callable[..., None], kind: str) -> Callable[..., None]:
    """`goldens.randomise` for weights of another type of floats."""

    def randomised(net: ms.nn.Cell, random: np.random.Generator) -> None:
        for parameter in net.get_parameters():
            if parameter.dtype == ms.float32:
                parameter.set_dtype({"f16": ms.float16, "f64": ms.float64}[kind])
        randomise(net, random)

    return randomised


def main(out: Path, kind: str, module: str, patterns: list[str]) -> None:
    """Enter the cases in the other type in place of the module's own, and make them."""
    importlib.import_module(module)
    cases = [replace(c, inputs=tuple(of_type(s, kind) for s in c.inputs)) for c in goldens.CASES]
    changed = [c for c, old in zip(cases, goldens.CASES, strict=True) if c.inputs != old.inputs]
    # What a `reference` gives has its types, not those of the operator.
    named = [replace(c, name=f"{c.name}_{kind}") for c in changed if not c.reference]
    goldens.CASES[:] = [c for c in named if not (out / f"{c.name}.npz").exists()]
    goldens.CASES.sort(key=lambda c: zlib.crc32(c.name.encode()))
    if kind in ("f16", "f64"):
        goldens.randomise = typed(goldens.randomise, kind)
    goldens.main(out, [f"{pattern}_{kind}" for pattern in patterns])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
