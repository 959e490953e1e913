"""A network that costs next to nothing: what is measured with it is what a call costs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.models.writer import Writer


def mlp(path: Path) -> Path:
    """Three layers, 16 to 32 to 32 to 4."""
    w = Writer()
    x = w.input("x", [1, 16])
    for i, (given, made) in enumerate([(16, 32), (32, 32)]):
        x = w.node("Relu", w.dense(x, f"layer{i}", given, made, scale=given**-0.5))
    w.output("y", w.dense(x, "layer2", 32, 4, scale=32**-0.5), [1, 4])
    return w.save(path)
