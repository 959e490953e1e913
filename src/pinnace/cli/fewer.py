"""Forms with fewer bits, for `pinnace tune --max-error`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.errors import ArgumentValueError

if TYPE_CHECKING:
    from pinnace import ModelParallelRunner
    from pinnace.bench.rounding import Tried
    from pinnace.bench.tuning import Subject
    from pinnace.types import Array


def forms_within(
    subject: Subject, samples: Sequence[Sequence[Array]], bound: float, threads: int, seconds: float
) -> list[Tried]:
    """Return the forms within a relative error that are faster than float32."""
    from pinnace.bench.rounding import Search
    from pinnace.cli.console import note

    end = time.monotonic() + seconds
    return list(Search(subject.path, subject.config, samples, bound, threads, end, note).found())


def samples_of(model: ModelParallelRunner, folder: Path, shapes: Sequence[str]) -> list[list[Array]]:
    """Return the inputs in a folder, one prediction a file, in the order of their names."""
    from pinnace.cli.opening import fill

    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise ArgumentValueError(f"--data {folder}: there are no files")
    return [[one.array for one in fill(model, [str(file)], shapes)[1]] for file in files]


def label(form: str) -> str:
    """Return what a form is for users; "" for none."""
    from pinnace.quantization.scheme import QuantizationScheme

    return str(QuantizationScheme.of(form)) if form else ""


def show_forms(forms: Sequence[Tried], bound: float | None) -> None:
    """Print how close forms are to float32."""
    from pinnace.cli.console import note, table

    if bound is not None and not forms:
        note(f"no form with fewer bits is faster within an error of {bound:g}")
    rows = [[label(one.way.form), one.way.provider, *_figures(one)] for one in forms]
    if rows:
        head = ["form", "engine", "relative error", "cosine", "same largest"]
        table("Beside float32, over all inputs", rows, head)


def _figures(one: Tried) -> list[str]:
    close = one.closeness
    return [f"{close.error:.1e}", f"{close.cosine:.6f}", f"{close.same_top:.1%}"]
