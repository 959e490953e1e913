"""`converter_lite`, with the flags, messages and exit codes of MindSpore Lite's command of that name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from pinnace.errors import ArgumentValueError, PinnaceError
from pinnace.options.log_format import print_warnings

_INVALID, _FAILED = -600 & 0xFF, 0xFF
"""Exit codes: wrong flags (RET_INPUT_PARAM_INVALID), and a conversion that failed."""
_SWITCH = {"true": True, "on": True, "false": False, "off": False}
_TYPES = {"FLOAT": "FLOAT32", "FLOAT16": "FLOAT16", "INT8": "INT8", "UINT8": "UINT8", "DEFAULT": ""}
_FLAGS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("fmk", "", ("ONNX", "MINDIR", "TF", "TFLITE", "CAFFE", "PYTORCH"), "framework of the model"),
    ("modelFile", "", (), "the model"),
    ("outputFile", "", (), "the file to write; .mindir or .ms is appended"),
    ("weightFile", "", (), "the weights of a Caffe model"),
    ("inputDataType", "DEFAULT", tuple(_TYPES), "element type of quantized inputs"),
    ("outputDataType", "DEFAULT", tuple(_TYPES), "element type of quantized outputs"),
    ("configFile", "", (), "a configuration file that asks for quantization"),
    ("fp16", "off", ("on", "off"), "store float32 weights in float16"),
    ("decryptKey", "", (), "key of an encrypted .mindir, in hexadecimal digits"),
    ("decryptMode", "AES-GCM", ("AES-GCM", "AES-CBC", "SM4-CBC"), "how it was encrypted"),
    ("inputShape", "", (), "shapes of inputs: name1:1,3,224,224;name2:1,8"),
    ("inputDataFormat", "", ("NHWC", "NCHW"), "order of dimensions of four-dimensional inputs"),
    ("encryption", "", ("true", "false"), "encrypt the result; by default if encryptKey is given"),
    ("encryptKey", "", (), "key to encrypt with by AES-GCM, in 32 hexadecimal digits"),
    ("infer", "false", ("true", "false"), "compare the result with the model"),
    ("device", "", (), "device that the result is for: Ascend"),
    ("saveType", "MINDIR", ("MINDIR", "MINDIR_LITE"), "format of the result"),
    ("trust", "false", ("true", "false"), "run a PYTORCH or TF model, which is a program, to convert it"),
    ("optimize", "general", (), "none | general | gpu_oriented | ascend_oriented"),
)
"""Name, default, choices ("" stands for any) and meaning of each flag."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{message}\n{self.format_usage()}Flags Init failed. Ret: -600", file=sys.stderr)
        sys.exit(_INVALID)


def main(arguments: Sequence[str] | None = None) -> None:
    """Convert a model. The last line on success is "CONVERT RESULT SUCCESS:0"."""
    print_warnings("converter_lite")
    parser = _Parser(
        prog="converter_lite", description="Convert a model to .mindir or .ms.", allow_abbrev=False
    )
    for name, default, choices, meaning in _FLAGS:
        text = ": ".join(filter(None, (meaning, " | ".join(choices))))
        parser.add_argument(
            f"--{name}", default=default, choices=choices or None, help=text, metavar=name.upper()
        )
    given = parser.parse_args(arguments)
    missing = [name for name in ("fmk", "modelFile", "outputFile") if not getattr(given, name)]
    if missing:
        parser.error(f"Flag missing: {', '.join(missing)}")
    try:
        _convert(given)
    except (PinnaceError, OSError) as error:
        print(f"converter_lite: {error}", file=sys.stderr)
        print("Convert failed. Ret: -1")
        sys.exit(_FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
    print("CONVERT RESULT SUCCESS:0")


def _convert(given: argparse.Namespace) -> None:
    from pinnace import Converter, DataType, FmkType, Format, ModelType
    from pinnace.shapes import named_shapes

    converter = Converter(trust=_SWITCH[given.trust])
    try:
        converter.input_shape = {name: list(shape) for name, shape in named_shapes(given.inputShape).items()}
    except ValueError as error:
        raise ArgumentValueError(f"inputShape: {error}") from None
    if given.inputDataFormat:
        converter.input_format = Format[given.inputDataFormat]
    for name, flag in (("input_data_type", given.inputDataType), ("output_data_type", given.outputDataType)):
        if _TYPES[flag]:
            setattr(converter, name, DataType[_TYPES[flag]])
    converter.weight_fp16, converter.infer = _SWITCH[given.fp16], _SWITCH[given.infer]
    converter.optimize, converter.save_type = given.optimize, ModelType[given.saveType]
    if given.device:
        converter.device = given.device
    converter.decrypt_key, converter.decrypt_mode = given.decryptKey, given.decryptMode
    converter.encrypt_key = given.encryptKey
    converter.enable_encryption = _SWITCH.get(given.encryption, bool(given.encryptKey))
    converter.convert(
        FmkType[given.fmk], given.modelFile, given.outputFile, given.weightFile, given.configFile
    )
    summary = converter.summary
    assert summary is not None
    print(
        f"{', '.join(map(str, summary.files))}: {summary.nodes_before} nodes became {summary.nodes}, "
        f"{summary.bytes_before} bytes {summary.bytes}, {summary.precision}"
        + ("" if summary.error is None else f", error {summary.error:.2g}")
        + ("" if summary.likeness is None else f"; on the samples {summary.likeness}")
    )
