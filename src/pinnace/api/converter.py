"""Conversion of models to files that MindSpore opens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pinnace.errors import ArgumentTypeError, ArgumentValueError, ModelFormatError, warn
from pinnace.options.arguments import check_type, one_of, path
from pinnace.options.setting import setting
from pinnace.types import DataType, Format, ModelType
from pinnace.weights.encryption import MODES, key_of

if TYPE_CHECKING:
    from pinnace.converter.convert import Summary

__all__ = ["Converter", "FmkType"]


class FmkType(Enum):
    """The framework of a model to convert."""

    TF = 0
    CAFFE = 1
    ONNX = 2
    MINDIR = 3
    TFLITE = 4
    PYTORCH = 5


_OPTIMIZE = ("none", "general", "gpu_oriented", "ascend_oriented")
_CHIPS = ("default", "910b")
_DTYPES = (DataType.FLOAT32, DataType.INT8, DataType.UINT8, DataType.UNKNOWN)


def _of(kind: type) -> Callable[[str, object], object]:
    return lambda name, value: check_type(name, value, kind)


def _quantized_type(name: str, value: object) -> DataType:
    if check_type(name, value, DataType) not in _DTYPES:
        allowed = ", ".join(f"DataType.{t.name}" for t in _DTYPES)
        raise ArgumentValueError(f"{name} must be in [{allowed}].")
    return check_type(name, value, DataType)


def _shapes(name: str, value: object) -> dict[str, list[int]]:
    for key, dims in check_type(name, value, dict).items():
        check_type(f"{name} key", key, str)
        if not isinstance(dims, list):
            raise ArgumentTypeError(f"{name} value must be list, but got {type(dims)} at key {key}.")
        for index, element in enumerate(dims):
            if not isinstance(element, int):
                what = f"{name} value's element must be int, but got {type(element)}"
                raise ArgumentTypeError(f"{what} at index {index}.")
    return dict(check_type(name, value, dict))


class Converter:
    """Converts a model to a `.mindir` that MindSpore, MindSpore Lite and Pinnace open.

    The properties are the choices. `convert` reads `.onnx` files, the `.mindir` and `.ms` files of MindSpore
    and MindSpore Lite, `.tflite` files, frozen graphs and SavedModels of TensorFlow, Caffe's networks with
    their weights, and TorchScripts and ExportedPrograms of PyTorch. Files of PyTorch and TensorFlow are
    programs, which may read and write files while they are converted: they need `trust`.
    """

    input_data_type: DataType = setting(
        "input_data_type", _quantized_type, DataType.FLOAT32,
        "The element type of quantized inputs; others keep theirs.",
    )  # fmt: skip
    output_data_type: DataType = setting(
        "output_data_type", _quantized_type, DataType.FLOAT32,
        "The element type of quantized outputs; others keep theirs.",
    )  # fmt: skip
    save_type: ModelType = setting(
        "save_type", _of(ModelType), ModelType.MINDIR,
        "The format of the result: ModelType.MINDIR, or ModelType.MINDIR_LITE for a `.ms`.",
    )  # fmt: skip
    weight_fp16: bool = setting(
        "weight_fp16", _of(bool), False,
        "True to store float32 weights in float16, which halves the file; the model computes in float32.",
    )  # fmt: skip
    device_id: int = setting(
        "device_id", _of(int), 0,
        "The number of the device, which changes nothing in the file.",
    )  # fmt: skip
    rank_id: int = setting(
        "rank_id", _of(int), 0,
        "The number of the rank, which changes nothing in the file.",
    )  # fmt: skip
    infer: bool = setting(
        "infer", _of(bool), False,
        "True to compare the result with the model on random inputs after conversion (`summary.error`).",
    )  # fmt: skip
    decrypt_mode: str = setting(
        "decrypt_mode", one_of(*MODES), "AES-GCM",
        'The mode of an encrypted `.mindir`: "AES-GCM", "AES-CBC" or "SM4-CBC".',
    )  # fmt: skip
    enable_encryption: bool = setting(
        "enable_encryption", _of(bool), False,
        "True to encrypt the result with `encrypt_key` by AES-GCM.",
    )  # fmt: skip

    trust: bool = setting(
        "trust", _of(bool), False,
        "True to convert files that are programs, as those of PyTorch and TensorFlow are.",
    )  # fmt: skip

    def __init__(self, *, trust: bool = False) -> None:
        self.trust = trust
        self._input_shape: dict[str, list[int]] = {}
        self._input_format: Format | None = None
        self._optimize, self._device = "general", ""
        self._decrypt_key = self._encrypt_key = ""
        self._config: dict[str, dict[str, str]] = {}
        self.summary: Summary | None = None
        """The result of the last conversion; mindspore_lite has no such attribute."""

    def __str__(self) -> str:
        names = (
            "weight_fp16 input_shape input_format input_data_type output_data_type save_type "
            "enable_encryption infer optimize device"
        )
        rows = [f"config_info: {self._config}", *(f"{name}: {getattr(self, name)}" for name in names.split())]
        return ",\n".join(rows) + "."

    @property
    def input_shape(self) -> dict[str, list[int]]:
        """The shapes of inputs, {name: [1, 3, 224, 224]}; an input that is not named keeps its own."""
        return self._input_shape

    @input_shape.setter
    def input_shape(self, input_shape: Mapping[str, list[int]]) -> None:
        self._input_shape = _shapes("input_shape", input_shape)

    @property
    def input_format(self) -> Format:
        """The order of dimensions of four-dimensional inputs; they keep that of the model until it is set.

        Format.NHWC makes them channels last, Format.NCHW keeps them. It is Format.NHWC while it is not set,
        as in mindspore_lite.
        """
        return self._input_format or Format.NHWC

    @input_format.setter
    def input_format(self, input_format: Format) -> None:
        if check_type("input_format", input_format, Format) not in (Format.NCHW, Format.NHWC):
            raise ArgumentValueError("input_format must be in [Format.NCHW, Format.NHWC].")
        self._input_format = input_format

    @property
    def optimize(self) -> str:
        """The changes of the graph: "none", "general", "gpu_oriented" or "ascend_oriented".

        "none" keeps the nodes; "general" removes those that do nothing and equal ones; "gpu_oriented" does
        the same, and "ascend_oriented", also followed by ":910b", asks for inputs of fixed shapes beside.
        """
        return self._optimize

    @optimize.setter
    def optimize(self, optimize: str) -> None:
        name, _, chip = check_type("optimize", optimize, str).partition(":")
        if name not in _OPTIMIZE or (chip and name != "ascend_oriented"):
            raise ArgumentValueError(
                "optimize must be 'none', 'general', 'gpu_oriented', 'ascend_oriented' or "
                "'ascend_oriented:910b'."
            )
        if chip and chip not in _CHIPS:
            raise ArgumentValueError(f"chip_name must be in [{', '.join(_CHIPS)}], but got {chip}.")
        self._optimize = name
        self._device = {"gpu_oriented": "GPU", "ascend_oriented": "Ascend"}.get(name, self._device)

    @property
    def device(self) -> str:
        """The device that the result is for, "" for any; it changes nothing in the file."""
        return self._device

    @device.setter
    def device(self, device: str) -> None:
        self._device = one_of("Ascend")("device", device)

    @property
    def decrypt_key(self) -> NoReturn:
        """The key of an encrypted `.mindir`, in hexadecimal digits. It can only be set."""
        raise ArgumentTypeError("decrypt_key is write-only.")

    @decrypt_key.setter
    def decrypt_key(self, decrypt_key: str) -> None:
        self._decrypt_key = check_type("decrypt_key", decrypt_key, str)

    @property
    def encrypt_key(self) -> NoReturn:
        """The key to encrypt with, in 32 hexadecimal digits. It can only be set."""
        raise ArgumentTypeError("encrypt_key is write-only.")

    @encrypt_key.setter
    def encrypt_key(self, encrypt_key: str) -> None:
        self._encrypt_key = check_type("encrypt_key", encrypt_key, str)

    def get_config_info(self) -> dict[str, dict[str, str]]:
        """Return the options that `set_config_info` was given, {section: {key: value}}."""
        return self._config

    def set_config_info(self, section: str = "", config_info: Mapping[str, str] | None = None) -> None:
        """Set the options of a section, as a configuration file has them."""
        check_type("section", section, str)
        if config_info is None:
            return
        for key, value in check_type("config_info", config_info, dict).items():
            for what, word in (("key", key), ("val", value)):
                if not isinstance(word, str):
                    what = f"config_info {what} must be str, but got {type(word)}"
                    raise ArgumentTypeError(f"{what} at key {key}.")
        if section:
            self._config[section] = dict(config_info)

    def convert(
        self,
        fmk_type: FmkType,
        model_file: str | os.PathLike[str],
        output_file: str | os.PathLike[str],
        weight_file: str | os.PathLike[str] = "",
        config_file: str | os.PathLike[str] = "",
    ) -> None:
        """Convert `model_file` to `output_file`, to which ".mindir" is appended unless it ends so.

        `weight_file` has the weights of a Caffe model, `config_file` sections that ask for quantization.
        Raises `ArgumentTypeError` for arguments of other types, `ModelFormatError` for a missing or damaged
        file, `ArgumentValueError` for a program without `trust`, `UnsupportedModelError` for operators that
        no primitive expresses, `ConfigError` for wrong options, `FileWriteError`, `NotSupportedError` for
        formats and options that this version does not have, and if the package that reads the framework's
        files is missing.
        """
        check_type("fmk_type", fmk_type, FmkType)
        model_file, output_file = path("model_file", model_file), path("output_file", output_file)
        weight_file, config_file = path("weight_file", weight_file), path("config_file", config_file)
        for name, file in (
            ("model_file", model_file),
            ("weight_file", weight_file),
            ("config_file", config_file),
        ):
            if (file or name == "model_file") and not os.path.exists(file):
                raise ModelFormatError(f"Perform convert method failed, {name} does not exist! ({file})")
        self._run(fmk_type.name, model_file, weight_file, output_file, config_file)

    def _run(
        self, framework: str, model_file: str, weight_file: str, output_file: str, config_file: str
    ) -> None:
        from pinnace.deferred import import_onnx_ir

        import_onnx_ir()
        from pinnace.converter.configuration import configured
        from pinnace.converter.convert import Conversion
        from pinnace.converter.frontends import convert_from, turned
        from pinnace.options.settings import sections_of

        sections = {**(sections_of(config_file) if config_file else {}), **self._config}

        options = Conversion(
            save_type=self.save_type,
            input_shape=";".join(f"{k}:{','.join(map(str, v))}" for k, v in self.input_shape.items()),
            optimize=self._optimize,  # type: ignore[arg-type]
            turn=turned(framework, self._input_format.name if self._input_format else ""),
            half=self.weight_fp16,
            check=self.infer,
            decrypt=self._secret("decrypt_key", self._decrypt_key, self.decrypt_mode),
            encrypt=self._secret("encrypt_key", self._encrypt_key, MODES[0])
            if self.enable_encryption
            else None,
            trust=self.trust,
            int32=framework != "MINDIR" and os.environ.get("KEEP_ORIGIN_DTYPE") != "1",
            files=(Path(config_file),) if config_file else (),
        )
        options = configured(options, sections, self._device, config_file or "config_info")
        if self.enable_encryption and options.encrypt is None:
            raise ArgumentValueError("enable_encryption needs encrypt_key.")
        self.summary = convert_from(framework, model_file, weight_file, output_file, options)
        for note in self.summary.notes:
            warn(note)

    @staticmethod
    def _secret(name: str, key: str, mode: str) -> tuple[bytes, str] | None:
        return (key_of(key, name), mode) if key else None
