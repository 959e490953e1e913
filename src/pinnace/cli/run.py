"""`pinnace run`: run a model once and show its outputs."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pinnace.cli.options import AsJson, ConfigFile, InputFiles, InputShapes, ModelFile

if TYPE_CHECKING:
    from pinnace.cli.inputs import Pictures
    from pinnace.cli.picture import Layout


def run(
    model: ModelFile,
    inputs: InputFiles = None,
    shapes: InputShapes = None,
    as_json: AsJson = False,
    folder: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Write every output there as NAME.npy.", file_okay=False),
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads of the model; 0 is automatic.")] = 0,
    config: ConfigFile = None,
    size: Annotated[
        str | None, typer.Option(metavar="HEIGHT,WIDTH", help="Picture: size where the model leaves it free.")
    ] = None,
    crop: Annotated[
        float | None,
        typer.Option(help="Picture: part to keep, from its centre; without this it is stretched."),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="Picture: value = (pixel * scale - mean) / std, pixel in 0..255.")
    ] = "1/255",
    mean: Annotated[str, typer.Option(metavar="M[,M,M]", help="Picture: one, or one a channel.")] = "0",
    std: Annotated[str, typer.Option(metavar="S[,S,S]", help="Picture: one, or one a channel.")] = "1",
    layout: Annotated[
        Literal["NCHW", "NHWC"] | None, typer.Option(help="Picture: layout where the shape leaves it open.")
    ] = None,
) -> None:
    """Run a model once, and print name, shape, type and first values of every output.

    An input without a file gets seeded random numbers or zeros, with a note.
    """
    from pinnace.cli.console import note, progress
    from pinnace.cli.opening import context_for, fill, open_model
    from pinnace.cli.outputs import facts, first_values, save, show

    pictures = _pictures(size, crop, scale, mean, std, layout)
    with progress(f"Opening {model.name}"):
        started = time.perf_counter()
        opened = open_model(model, context_for(threads, config))
        seconds = {"build": time.perf_counter() - started}
    tensors, fed = fill(opened, inputs or [], shapes or [], pictures)
    with progress(f"Running {model.name}"):
        started = time.perf_counter()
        outputs = opened.predict(tensors)
        seconds["predict"] = time.perf_counter() - started
    filled = list(zip(tensors, fed, strict=True))
    for tensor, one in filled:
        note(f"input {tensor.name} {list(tensor.shape)} {tensor.dtype.name}: {one.source}")
    if as_json:
        report = {
            "model": str(model),
            "inputs": [facts(tensor) | {"source": one.source} for tensor, one in filled],
            "outputs": [facts(output) | {"values": first_values(output)} for output in outputs],
            "seconds": seconds,
        }
        print(json.dumps(report, indent=2))
    else:
        for output in outputs:
            show(output)
    for path in save(folder, outputs) if folder else []:
        note(f"wrote {path}")


def _pictures(
    size: str | None, crop: float | None, scale: str, mean: str, std: str, layout: Layout | None
) -> Pictures:
    from pinnace.cli.inputs import Pictures
    from pinnace.cli.picture import Preparation

    (factor,) = _numbers("--scale", scale, 1)
    how = Preparation(factor, _numbers("--mean", mean), _numbers("--std", std), crop)
    height_width = _numbers("--size", size, 2) if size else None
    pixels = (int(height_width[0]), int(height_width[1])) if height_width else None
    return Pictures(how, pixels, layout)


def _numbers(flag: str, text: str, count: int | None = None) -> tuple[float, ...]:
    """Parse numbers from "0.5,1/255"."""
    try:
        numbers = tuple(float(Fraction(part.strip())) for part in text.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise typer.BadParameter(f"{flag} {text}: expected numbers such as 0.5 or 1/255") from None
    if count is not None and len(numbers) != count:
        raise typer.BadParameter(f"{flag} {text}: expected {count} number(s), but got {len(numbers)}")
    return numbers
