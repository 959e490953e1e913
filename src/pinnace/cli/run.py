"""`pinnace run`: run a model once and show what it gives."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pinnace.errors import ArgumentValueError

if TYPE_CHECKING:
    from pinnace import Model, Tensor
    from pinnace.cli.inputs import Fed, Pictures

FIRST_VALUES = 50
"""How many values of an output are shown."""

MANY = "Repeat for more inputs."


def run(
    model: Annotated[Path, typer.Argument(help="A .mindir, .ms or .onnx file.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]FILE", help=f"A .npy, .bin or picture file. {MANY}"),
    ] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="[NAME=]1,3,224,224", help=f"Resize an input. {MANY}"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every output there as NAME.npy.", file_okay=False),
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads of the model; 0 is automatic.")] = 0,
    config: Annotated[Path | None, typer.Option(help="A configuration file (.ini).")] = None,
    size: Annotated[
        str | None, typer.Option(metavar="HEIGHT,WIDTH", help="Picture: size, where the model leaves it free.")
    ] = None,
    crop: Annotated[
        float | None,
        typer.Option(help="Picture: keep this part of it, from the centre, in the model's proportions; else stretch."),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="Picture: value = (pixel * scale - mean) / std, pixel in 0..255.")
    ] = "1/255",
    mean: Annotated[str, typer.Option(metavar="M[,M,M]", help="Picture: one number, or one a channel.")] = "0",
    std: Annotated[str, typer.Option(metavar="S[,S,S]", help="Picture: one number, or one a channel.")] = "1",
    layout: Annotated[
        str | None, typer.Option(metavar="NCHW|NHWC", help="Picture: layout, where the model's shape leaves it open.")
    ] = None,
) -> None:
    """Run a model once, and print name, shape, type and first values of every output.

    An input without a file gets seeded random numbers or zeros, and the command says so.
    """
    from pinnace.cli.console import note, progress

    pictures = _pictures(size, crop, scale, mean, std, layout)
    with progress(f"Opening {model.name}"):
        started = time.perf_counter()
        opened = _open(model, threads, config)
        seconds = {"build": time.perf_counter() - started}
    tensors, fed = _fill(opened, inputs or [], shapes or [], pictures)
    with progress(f"Running {model.name}"):
        started = time.perf_counter()
        outputs = opened.predict(tensors)
        seconds["predict"] = time.perf_counter() - started
    saved = _save(save, outputs) if save else []
    if as_json:
        print(json.dumps(_as_json(model, tensors, fed, outputs, seconds), indent=2))
        return
    for tensor, one in zip(tensors, fed, strict=True):
        note(f"input {tensor.name} {list(tensor.shape)} {tensor.dtype.name}: {one.source}")
    for output in outputs:
        _show(output)
    for path in saved:
        note(f"wrote {path}")


def _open(path: Path, threads: int, config: Path | None) -> Model:
    from pinnace import Context, Model

    context = Context()
    context.target = ["cpu"]
    context.cpu.thread_num = threads
    model = Model()
    model.build_from_file(str(path), None, context, str(config) if config else "")
    return model


def _fill(
    model: Model, given: Sequence[str], shapes: Sequence[str], pictures: Pictures
) -> tuple[list[Tensor], list[Fed]]:
    """The model's inputs, resized where that is needed, with their data."""
    from pinnace.cli.inputs import assign, feed, parse_shapes

    tensors = model.get_inputs()
    names = [tensor.name for tensor in tensors]
    fed = feed(tensors, assign(given, names), parse_shapes(shapes, names), pictures)
    if [list(one.array.shape) for one in fed] != [list(tensor.shape) for tensor in tensors]:
        model.resize(tensors, [list(one.array.shape) for one in fed])
        tensors = model.get_inputs()
    for tensor, one in zip(tensors, fed, strict=True):
        tensor.set_data_from_numpy(one.array)
    return tensors, fed


def _pictures(
    size: str | None, crop: float | None, scale: str, mean: str, std: str, layout: str | None
) -> Pictures:
    from pinnace.cli.inputs import Pictures
    from pinnace.cli.picture import Layout, Preparation

    if layout not in (None, "NCHW", "NHWC"):
        raise typer.BadParameter(f"--layout must be NCHW or NHWC, but got {layout}")
    (factor,) = _numbers("--scale", scale, 1)
    how = Preparation(factor, _numbers("--mean", mean), _numbers("--std", std), crop)
    height_width = _numbers("--size", size, 2) if size else None
    pixels = (int(height_width[0]), int(height_width[1])) if height_width else None
    return Pictures(how, pixels, cast(Layout | None, layout))


def _numbers(flag: str, text: str, count: int | None = None) -> tuple[float, ...]:
    """Numbers of "0.5,1/255"."""
    try:
        numbers = tuple(float(Fraction(part.strip())) for part in text.split(","))
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{flag} {text}: numbers are wanted, such as 0.5 or 1/255") from None
    if count is not None and len(numbers) != count:
        raise typer.BadParameter(f"{flag} {text}: {count} number(s) wanted, but got {len(numbers)}")
    return numbers


def _show(output: Tensor) -> None:
    """The two lines that mindspore_lite's examples print of an output, with shape and type between."""
    print(
        f"tensor's name is:{output.name} data size is:{output.data_size} "
        f"tensor elements num is:{output.element_num}"
    )
    print(f"tensor's shape is:{list(output.shape)} data type is:{output.dtype.name}")
    print("output data is:", *output.get_data_to_numpy().flatten()[:FIRST_VALUES])


def _as_json(
    model: Path, tensors: Sequence[Tensor], fed: Sequence[Fed], outputs: Sequence[Tensor], seconds: dict[str, float]
) -> dict[str, Any]:
    return {
        "model": str(model),
        "inputs": [_facts(tensor) | {"source": one.source} for tensor, one in zip(tensors, fed, strict=True)],
        "outputs": [_facts(output) | {"values": _values(output)} for output in outputs],
        "seconds": seconds,
    }


def _facts(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype.name,
        "size": tensor.data_size,
        "elements": tensor.element_num,
    }


def _values(output: Tensor) -> list[Any]:
    """The first values; JSON has no word for NaN and the infinities, so these are strings."""
    values = output.get_data_to_numpy().flatten()[:FIRST_VALUES].tolist()
    return [value if math.isfinite(value) else str(value) for value in values]


def _save(folder: Path, outputs: Sequence[Tensor]) -> list[Path]:
    """Write the outputs; a character that does not belong into a file name becomes _."""
    import numpy as np

    paths = [folder / (re.sub(r"[^\w.-]", "_", output.name) + ".npy") for output in outputs]
    if len(set(paths)) < len(paths):
        raise ArgumentValueError(f"--save: two outputs would both be written to {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    for path, output in zip(paths, outputs, strict=True):
        np.save(path, output.get_data_to_numpy())
    return paths
