"""Conversion of a model file, from reading to the files that it becomes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from pinnace.converter import intermediate
from pinnace.converter.raising import raised
from pinnace.program import Dialect, Program
from pinnace.types import ModelType
from pinnace.weights.source import Source

_OUTPUTS = {
    ModelType.MINDIR: (Dialect.MINDSPORE, ".mindir", "pinnace.formats.mindir.writer"),
    ModelType.MINDIR_LITE: (Dialect.LITE, ".ms", "pinnace.formats.ms.writer"),
}
"""The formats that models are written in: dialect, suffix, and the module that writes files."""


@dataclass(frozen=True)
class Options:
    """The choices of a conversion; `input_shape` fixes dimensions: "x:1,3,224,224;y:1"."""

    save_type: ModelType = ModelType.MINDIR
    input_shape: str = ""


@dataclass(frozen=True)
class Summary:
    """The result of a conversion: its files, and what it did to the model. Sizes are in bytes."""

    files: tuple[Path, ...]
    nodes_before: int
    nodes: int
    bytes_before: int
    bytes: int
    primitives: Mapping[str, int] = field(default_factory=dict)


def convert(
    source: Source,
    kind: ModelType | None,
    output: str | os.PathLike[str],
    options: Options,
    stage: Callable[[str], None] = lambda name: None,
) -> Summary:
    """Convert a model; `output` may lack the suffix, and `stage` is told what begins.

    Raises ModelFormatError, UnsupportedModelError with all nodes that have no way into the format,
    ConfigError for unknown inputs, and OSError.
    """
    dialect, suffix, writer = _OUTPUTS[options.save_type]
    stage("reading")
    model = intermediate.read(source, kind, options.input_shape)
    before = sum(1 for _ in model.graph.all_nodes())
    stage("converting")
    program = raised(model, dialect, source.name)
    stage("writing")
    path = Path(output)
    files = import_module(writer).write(program, path if path.suffix == suffix else Path(f"{path}{suffix}"))
    counts = _primitives(program)
    return Summary(
        tuple(files),
        before,
        sum(counts.values()),
        source.size,
        sum(file.stat().st_size for file in files),
        counts,
    )


def _primitives(program: Program) -> dict[str, int]:
    nodes = (node for function in program.functions.values() for node in function.nodes)
    return dict(Counter(node.primitive for node in nodes if node.primitive).most_common())
