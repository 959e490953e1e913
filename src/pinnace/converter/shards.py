"""The parts of a model that `pinnace shard` has cut, as `.mindir` files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx_ir as ir

from pinnace.converter.raising import raised
from pinnace.errors import NotSupportedError, UnsupportedModelError
from pinnace.formats.mindir.writer import write
from pinnace.program import Dialect, Layout
from pinnace.writing import replacing


def save_mindir(parts: Sequence[ir.Model], stems: Sequence[Path], inputs: Iterable[Path]) -> list[Path]:
    """Write STEM.mindir for each part, none of which may be one of `inputs`; return the files.

    Raises NotSupportedError, before anything is written, for nodes that have no way into the format.
    """
    names = [f"{stem.name}.mindir" for stem in stems]
    try:
        programs = [
            raised(part, Dialect.MINDSPORE, Layout.NCHW, name)
            for part, name in zip(parts, names, strict=True)
        ]
    except UnsupportedModelError as error:
        raise NotSupportedError(f"{error}\nOr write the parts as ONNX: --format onnx.") from None
    with replacing(stems[0].with_name(names[0]), inputs) as first:
        written = [
            write(program, first.with_name(name))[0] for program, name in zip(programs, names, strict=True)
        ]
    return [stem.with_name(file.name) for stem, file in zip(stems, written, strict=True)]
