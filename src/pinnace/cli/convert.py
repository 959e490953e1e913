"""`pinnace convert`: a model file of another format."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.cli import options

if TYPE_CHECKING:
    from pinnace.converter.convert import Summary


def convert(
    model: options.AnyModelFile,
    output: options.ConvertedFile,
    weights: options.CaffeWeights = None,
    framework: options.Framework = None,
    shapes: options.FixedShapes = None,
    optimize: options.Optimizations = "general",
    half: options.Half = False,
    channels_last: options.ChannelsLast = False,
    check: options.Check = False,
    int32: options.Int32 = False,
    config: options.ConversionFile = None,
    encrypt_key: options.EncryptKey = None,
    decrypt_key: options.DecryptKey = None,
    mode: options.KeyMode = "AES-GCM",
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Convert a model to .mindir or .ms.

    MindSpore runs .mindir (mindspore.load, nn.GraphCell), MindSpore Lite .ms, and Pinnace both. It shows what
    became of the model.
    """
    from pinnace.deferred import import_onnx_ir

    import_onnx_ir()
    from pinnace.cli.console import progress
    from pinnace.converter.configuration import configured
    from pinnace.converter.convert import Conversion
    from pinnace.converter.frontends import convert_from, framework_of, turned
    from pinnace.options.settings import sections_of
    from pinnace.types import ModelType

    origin = framework or framework_of(model)
    asked = Conversion(
        save_type=ModelType.MINDIR_LITE if output.suffix == ".ms" else ModelType.MINDIR,
        input_shape=";".join(shape.replace("=", ":") for shape in shapes or []),
        optimize=optimize,
        turn=turned(origin, "NHWC" if channels_last else ""),
        half=half,
        check=check,
        decrypt=_secret(decrypt_key, "--decrypt-key", mode),
        encrypt=_secret(encrypt_key, "--encrypt-key", mode),
        trust=trust,
        int32=int32,
        files=tuple(filter(None, (decrypt_key, encrypt_key, config))),
    )
    if config is not None:
        device = "Ascend" if optimize == "ascend_oriented" else ""
        asked = configured(asked, sections_of(str(config)), device, str(config))
    with progress(f"converting {model.name}", model=str(model)):
        summary = convert_from(origin, str(model), str(weights or ""), output, asked, _note_stage)
    if as_json:
        print(json.dumps(asdict(summary), indent=2, default=str))
    else:
        _show(summary)


def _note_stage(name: str) -> None:
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
            *(("note", note) for note in summary.notes),
        ],
    )
