"""Sections of a configuration that ask for quantization, with MindSpore Lite's names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinnace.errors import ConfigError, NotSupportedError, warn
from pinnace.options.forms import Number, TextFormat, Words
from pinnace.quantization.calibration import Calibration
from pinnace.quantization.files import Quantization

Sections = Mapping[str, Mapping[str, str]]


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


def quantization(sections: Sections) -> Quantization | None:
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
