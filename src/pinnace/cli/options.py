"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

LIST = "N[,N...]"

ModelFile = Annotated[Path, typer.Argument(help="A .mindir, .ms or .onnx file.")]
InputFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="[NAME=]FILE", help="A .npy, .bin or picture file. Repeat for more inputs."
    ),
]
InputShapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="[NAME=]1,3,224,224", help="Resize an input. Repeat for more inputs."),
]
ConfigFile = Annotated[Path | None, typer.Option(help="A configuration file (.ini).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
