"""The sections of a configuration that a conversion reads, with MindSpore Lite's names.

They ask for quantization, for a model in parts, and for the shapes of Ascend devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinnace.converter.convert import Conversion
from pinnace.converter.splitting import take_pairs
from pinnace.errors import ConfigError, NotSupportedError, warn
from pinnace.options.context import Context
from pinnace.options.effects import FilledContext
from pinnace.options.setting import given
from pinnace.options.settings import Settings
from pinnace.options.table import SECTIONS
from pinnace.options.values import Number, TextFormat, Words
from pinnace.quantization.calibration import Calibration
from pinnace.quantization.files import Quantization
from pinnace.shapes import named_shapes

Sections = Mapping[str, Mapping[str, str]]
_TAKEN = tuple(f"ascend.{name}" for name in ("input_shape", "dynamic_dims", "output_type"))
"""Attributes of a context that decide what is in a converted file."""


def _numbers(text: str) -> str:
    for number in _split(text.strip("[]")):
        float(number)
    return text


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _part(text: str) -> str:
    if not 0 < float(text) < 1:
        raise ValueError("a number between 0 and 1 is wanted")
    return text


def _folders(text: str) -> str:
    if not all(folder.partition(":")[2] for folder in _split(text)):
        raise ValueError("NAME:FOLDER is wanted for each input")
    return text


_SWITCH, _SIZE = Words(("true", "false")), Number(16)
_TEXT = TextFormat("a,b", str)
_LIST = TextFormat("[127.5,127.5,127.5]", _numbers)
_METHODS = {"WEIGHT_QUANT": "stored", "DYNAMIC_QUANT": "dynamic8", "FULL_QUANT": "int8"}
_FILTERS = {"NEAREST": "NEAREST", "LINEAR": "BILINEAR", "CUBIC": "BICUBIC"}

_KEYS: Mapping[str, Mapping[str, Words | Number | TextFormat]] = {
    "common_quant_param": {
        "quant_type": Words(tuple(_METHODS)),
        "bit_num": Number(),
        "min_quant_weight_size": _SIZE,
        "min_quant_weight_channel": _SIZE,
        "skip_quant_node": _TEXT,
        "debug_info_save_path": _TEXT,
        "enable_encode": _SWITCH,
        "workspace": _TEXT,
    },
    "mixed_bit_weight_quant_param": {
        "init_scale": TextFormat("0.02", _part),
        "auto_tune": _SWITCH,
        "use_cv_data": _SWITCH,
        "max_iterations": _SIZE,
    },
    "full_quant_param": {
        "activation_quant_method": Words(("MAX_MIN", "KL", "REMOVAL_OUTLIER")),
        "bias_correction": _SWITCH,
        "target_device": Words(("KIRIN", "NVGPU", "DSP", "ASCEND")),
        "per_channel": _SWITCH,
        "smooth_alpha": TextFormat("0.5", lambda text: str(float(text))),
        "enable_smooth_shift": _SWITCH,
    },
    "weight_quant_param": {
        "dequant_strategy": Words(("ON_THE_FLY",)),
        "quant_strategy": Words(("MAX_MIN", "GPTQ")),
        "update_mindir": _SWITCH,
        "max_segments": _SIZE,
        "per_channel": _SWITCH,
        "bias_correction": _SWITCH,
    },
    "dynamic_quant_param": {"quant_strategy": Words(("ALWC", "ACWL"))},
    "data_preprocess_param": {
        "calibrate_path": TextFormat("image:/data/pictures", _folders),
        "calibrate_size": _SIZE,
        "input_type": Words(("IMAGE", "BIN")),
        "image_to_format": Words(("RGB", "BGR", "GRAY")),
        "normalize_mean": _LIST,
        "normalize_std": _LIST,
        "resize_width": _SIZE,
        "resize_height": _SIZE,
        "resize_method": Words(tuple(_FILTERS)),
        "center_crop_width": _SIZE,
        "center_crop_height": _SIZE,
    },
}
"""The form of each key by section."""
_LACKING = {("quant_strategy", "GPTQ"): "MAX_MIN", ("quant_strategy", "ACWL"): "ALWC"}
"""Values that Pinnace does not have, and what there is."""
_IDLE = (
    *("workspace", "auto_tune", "use_cv_data", "max_iterations", "target_device", "smooth_alpha"),
    *("enable_smooth_shift", "dequant_strategy", "update_mindir", "max_segments"),
)
"""Keys that change nothing."""


def configured(options: Conversion, sections: Sections, device: str, name: str) -> Conversion:
    """Return the choices of a conversion with those of a configuration, which messages call `name`.

    The shapes and sizes that an Ascend device is given are read for that device only. Raises `ConfigError`
    for wrong values, and for shapes that contradict `options`.
    """
    sections = dict(sections)
    options = replace(options, split=take_pairs(sections))
    known = {title.lower(): section.kind for title, section in SECTIONS.items()}
    of_device = {title: values for title, values in sections.items() if known.get(title.lower()) == "ascend"}
    rest = {title: values for title, values in sections.items() if title not in of_device}
    options = replace(options, quantize=_quantization(rest))
    if not of_device:
        return options
    if device != "Ascend":
        titles = ", ".join(f"[{title}]" for title in of_device)
        note = f"{titles}: without effect on the file; optimize=ascend_oriented reads the shapes in it"
        return replace(options, notes=(*options.notes, note))
    return _for_ascend(options, Settings.load(options=of_device, name=name))


def _for_ascend(options: Conversion, settings: Settings) -> Conversion:
    filled, idle = FilledContext(Context()), []
    for title in reversed([title for title in SECTIONS if title in settings.sections]):
        for key, value in settings.sections[title].items():
            option, called = SECTIONS[title].option(key), f"[{title}] {key}"
            if option is None:  # unknown; the reader has warned
                continue
            why = filled.fill(option, value, called) if option.fills in _TAKEN else ""
            if why or option.fills not in _TAKEN:
                idle.append(f"{called} ({why})" if why else called)
    shape, dims, option_of, kind = (
        str(given(filled.context.ascend, what) or "")
        for what in ("input_shape", "dynamic_dims", "dynamic_dims_option", "output_type")
    )
    notes = options.notes
    if idle:
        why = "without effect on the file: give it where the model is built"
        notes = (*notes, f"{', '.join(idle)}: {why}")
    return replace(
        options,
        input_shape=_together(shape, options.input_shape),
        dynamic_dims=dims,
        dynamic_dims_option=option_of,
        output_type=kind,
        notes=notes,
    )


def _together(configuration: str, flag: str) -> str:
    """Return the shapes of a configuration, then those that only a flag has. Raises `ConfigError`."""
    own, others = named_shapes(configuration), named_shapes(flag)
    for name, shape in others.items():
        if own.get(name, shape) != shape:
            raise ConfigError(
                f"input {name!r} is {list(own[name])} in the configuration's input_shape, and {list(shape)} "
                f"in that of the command: give one of them"
            )
    whole = own | others
    return ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in whole.items())


def _quantization(sections: Sections) -> Quantization | None:
    """Return the quantization that sections ask for, None if none.

    Raises ConfigError with section and key for a wrong value, and NotSupportedError for one that Pinnace does
    not have; warns of sections and keys without effect.
    """
    for section, values in sections.items():
        _check(section, values)
    common = sections.get("common_quant_param", {})
    if not common.get("quant_type"):
        asking = next((name for name in sections if name in _KEYS), None)
        if asking is not None:
            raise ConfigError(f"[{asking}] needs quant_type in [common_quant_param]")
        return None
    method = _METHODS[common["quant_type"]]
    calibration = _calibration(sections.get("data_preprocess_param", {}))
    if method == "int8" and calibration is None:
        raise ConfigError("FULL_QUANT needs calibrate_path and calibrate_size in [data_preprocess_param]")
    mixed = sections.get("mixed_bit_weight_quant_param", {})
    own = sections.get({"stored": "weight_quant_param", "int8": "full_quant_param"}.get(method, ""), {})
    return Quantization(
        method,
        _bits(common, method),
        int(common.get("min_quant_weight_size") or 0),
        int(common.get("min_quant_weight_channel") or (0 if method == "int8" else 16)),
        frozenset(_split(common.get("skip_quant_node", ""))),
        float(mixed.get("init_scale") or 0.02),
        common.get("debug_info_save_path", ""),
        calibration,
        own.get("per_channel") != "false",
        own.get("activation_quant_method") or "MAX_MIN",
        own.get("bias_correction") != "false",
    )


def _check(section: str, values: Mapping[str, str]) -> None:
    if section not in _KEYS:
        warn(f"section [{section}] has no effect on a conversion")
        return
    idle = []
    for key, value in values.items():
        place = f"[{section}] {key}"
        if key not in _KEYS[section]:
            raise ConfigError(f"{place} is not known: there are {', '.join(_KEYS[section])}")
        _KEYS[section][key].read(place, value)
        if (key, value) in _LACKING:
            raise NotSupportedError(f"{place}={value}: choose {_LACKING[key, value]}")
        if key in _IDLE:
            idle.append(key)
    if idle:
        warn(f"[{section}] {', '.join(idle)} have no effect")


def _bits(common: Mapping[str, str], method: str) -> int:
    bits = int(common.get("bit_num") or 8)
    if (method != "stored" and bits != 8) or bits == 1 or bits > 16:
        wanted = "0 or 2 to 16" if method == "stored" else f"8 with {common['quant_type']}"
        raise ConfigError(f"[common_quant_param] bit_num must be {wanted}, but got {bits}")
    if common.get("enable_encode") == "false" and bits not in (8, 16):
        raise ConfigError("[common_quant_param] enable_encode must be true for a bit_num other than 8 and 16")
    return bits


def _calibration(given: Mapping[str, str]) -> Calibration | None:
    if not given:
        return None
    for key in ("calibrate_path", "calibrate_size", "input_type"):
        if not given.get(key) or given[key] == "0":
            raise ConfigError(f"[data_preprocess_param] {key} is missing")
    folders = (folder.rpartition(":") for folder in _split(given["calibrate_path"]))
    more: dict[str, Any] = {
        "mean": [float(x) for x in _split(given.get("normalize_mean", "").strip("[]"))],
        "std": [float(x) for x in _split(given.get("normalize_std", "").strip("[]"))],
        "size": _pair(given, "resize"),
        "crop": _pair(given, "center_crop"),
        "colors": given.get("image_to_format") or "BGR",
        "filter": _FILTERS[given.get("resize_method") or "LINEAR"],
    }
    if 0 in more["std"]:
        raise ConfigError("[data_preprocess_param] normalize_std must not be 0: pixels are divided by it")
    named = {name: Path(folder) for name, _, folder in folders}
    return Calibration(named, int(given["calibrate_size"]), given["input_type"] == "IMAGE", **more)


def _pair(given: Mapping[str, str], what: str) -> tuple[int, int] | None:
    width, height = (int(given.get(f"{what}_{side}") or 0) for side in ("width", "height"))
    if bool(width) != bool(height):
        raise ConfigError(f"[data_preprocess_param] {what} needs both {what}_width and {what}_height")
    return (width, height) if width else None
