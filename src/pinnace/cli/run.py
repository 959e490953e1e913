"""`pinnace run`: run a model once and show its outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from pinnace.cli import options

T = TypeVar("T")

if TYPE_CHECKING:
    from pinnace import Tensor
    from pinnace.cli.inputs import Pictures
    from pinnace.images import Layout


def run(
    model: options.ModelFile,
    inputs: options.InputFiles = None,
    shapes: options.InputShapes = None,
    as_json: options.AsJson = False,
    folder: options.OutputFolder = None,
    threads: options.Threads = 0,
    config: options.ConfigFile = None,
    labels: options.LabelsFile = None,
    size: options.PictureSize = None,
    crop: options.PictureCrop = None,
    scale: options.PictureScale = None,
    mean: options.PictureMean = "0",
    std: options.PictureStd = "1",
    layout: options.PictureLayout = None,
) -> None:
    """Run a model once and print its outputs.

    It prints name, shape, type and first values of each. Inputs without a file get made-up values; a note
    says which.
    """
    from pinnace.cli.console import note, progress
    from pinnace.cli.opening import context_for, fill, guesses_named, note_inputs, open_model
    from pinnace.cli.outputs import best_classes, classes_as_json, save, show, show_classes
    from pinnace.ranking import read

    pictures = _pictures(size, crop, scale, mean, std, layout)
    names = read(labels) if labels else []
    with progress(f"Opening {model.name}", model=str(model)):
        build, opened = _timed(lambda: open_model(model, context_for(threads, config)))
    tensors, fed = fill(opened, inputs or [], shapes or [], pictures)
    taken = note_inputs(tensors, fed)
    with progress(f"Running {model.name}", model=str(model)), guesses_named(tensors, fed):
        predict, outputs = _timed(lambda: opened.predict(tensors))
    best = best_classes(outputs, names) if labels else {}
    if as_json:
        seconds = {"build": build, "predict": predict}
        print(json.dumps(_report(model, taken, outputs, seconds) | classes_as_json(best), indent=2))
    else:
        show(outputs)
        show_classes(best)
    for path in save(folder, outputs, [Path(one.source) for one in fed]) if folder else []:
        note(f"wrote {path}", "wrote", path=str(path))


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def _report(
    model: Path, inputs: list[dict[str, Any]], outputs: Sequence[Tensor], seconds: dict[str, float]
) -> dict[str, Any]:
    from pinnace.cli.outputs import facts, first_values

    shown = [facts(output) | {"values": first_values(output)} for output in outputs]
    return {"model": str(model), "inputs": inputs, "outputs": shown, "seconds": seconds}


def _pictures(
    size: str | None, crop: float | None, scale: str | None, mean: str, std: str, layout: Layout | None
) -> Pictures:
    from pinnace.cli.inputs import Pictures

    factor = _numbers("--scale", scale, 1)[0] if scale else None
    height_width = _numbers("--size", size, 2) if size else None
    pixels = (int(height_width[0]), int(height_width[1])) if height_width else None
    return Pictures(pixels, layout, crop, factor, _numbers("--mean", mean), _numbers("--std", std))


def _numbers(flag: str, text: str, count: int | None = None) -> tuple[float, ...]:
    """Parse numbers from "0.5,1/255"."""
    try:
        numbers = tuple(float(Fraction(part.strip())) for part in text.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise typer.BadParameter(f"{flag} {text}: expected numbers such as 0.5 or 1/255") from None
    if count is not None and len(numbers) != count:
        raise typer.BadParameter(f"{flag} {text}: expected {count} number(s), but got {len(numbers)}")
    return numbers
