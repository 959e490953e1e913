"""`pinnace convert`: a model file of another format."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pinnace.cli.options import AsJson

if TYPE_CHECKING:
    from pinnace.converter.convert import Summary


def convert(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A .mindir, .ms or .onnx file; a .tflite or .pb file or a SavedModel (its folder) of "
            "TensorFlow; a .pt, .pth or .pt2 file of PyTorch; a .prototxt of Caffe, with --weights.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Argument(metavar="OUTPUT", help="The file to write, .mindir or .ms; .mindir is appended."),
    ],
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The .caffemodel of a Caffe model.")
    ] = None,
    framework: Annotated[
        Literal["ONNX", "MINDIR", "TFLITE", "TF", "CAFFE", "PYTORCH"] | None,
        typer.Option("--from", help="Framework of the model; without it the suffix tells it."),
    ] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,128", help="Fix the shape of an input. Repeat for more."),
    ] = None,
    optimize: Annotated[
        Literal["none", "general", "gpu_oriented", "ascend_oriented"],
        typer.Option(help="none keeps all nodes; ascend_oriented wants fixed shapes."),
    ] = "general",
    half: Annotated[bool, typer.Option("--fp16", help="Store float32 weights in float16.")] = False,
    channels_last: Annotated[bool, typer.Option("--nhwc", help="Take pictures as NHWC.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare the results with the model's.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration that asks for quantisation.", dir_okay=False),
    ] = None,
    encrypt_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Encrypt the result, by the key in this file, in hexadecimal.",
            dir_okay=False,
        ),
    ] = None,
    decrypt_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Key of an encrypted .mindir, in hexadecimal.", dir_okay=False),
    ] = None,
    mode: Annotated[Literal["AES-GCM", "AES-CBC"], typer.Option(help="Encryption of both keys.")] = "AES-GCM",
    trust: Annotated[
        bool, typer.Option("--trust", help="Run a model of PyTorch or TensorFlow, a program, to convert it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Convert a model to .mindir or .ms.

    MindSpore runs .mindir (mindspore.load, nn.GraphCell), MindSpore Lite .ms, and Pinnace both. It shows what
    became of the model.
    """
    from pinnace.deferred import import_onnx_ir

    import_onnx_ir()
    from pinnace.cli.console import progress
    from pinnace.converter.convert import Conversion
    from pinnace.converter.frontends import convert_from, framework_of, turned
    from pinnace.converter.sections import quantisation
    from pinnace.options.settings import sections_of
    from pinnace.types import ModelType

    origin = framework or framework_of(model)
    options = Conversion(
        save_type=ModelType.MINDIR_LITE if output.suffix == ".ms" else ModelType.MINDIR,
        input_shape=";".join(shape.replace("=", ":") for shape in shapes or []),
        optimize=optimize,
        turn=turned(origin, "NHWC" if channels_last else ""),
        half=half,
        check=check,
        decrypt=_secret(decrypt_key, "--decrypt-key", mode),
        encrypt=_secret(encrypt_key, "--encrypt-key", mode),
        trust=trust,
        quantise=None if config is None else quantisation(sections_of(str(config))),
    )
    with progress(f"converting {model.name}", model=str(model)):
        summary = convert_from(origin, str(model), str(weights or ""), output, options, _Stages())
    if as_json:
        print(json.dumps(asdict(summary), indent=2, default=str))
    else:
        _show(summary)


class _Stages:
    """Prints each stage on stderr when it begins."""

    def __call__(self, name: str) -> None:
        from pinnace.cli.console import note

        note(f"{name} ...", "stage", stage=name)


def _secret(file: Path | None, name: str, mode: str) -> tuple[bytes, str] | None:
    from pinnace.weights.encryption import key_of

    return None if file is None else (key_of(file.read_text().strip(), name), mode)


def _show(summary: Summary) -> None:
    from pinnace.cli.console import table

    error = (
        "not measured: --check" if summary.error is None else f"{summary.error:.2g} of the greatest result"
    )
    table(
        ", ".join(file.name for file in summary.files),
        [
            ("nodes", f"{summary.nodes_before} in the model, {summary.nodes} in the result"),
            ("size", f"{summary.bytes_before / 1e6:.2f} MB, {summary.bytes / 1e6:.2f} MB"),
            ("precision", summary.precision),
            ("error", error),
            *([("on the samples", str(summary.likeness))] if summary.likeness else []),
        ],
    )
