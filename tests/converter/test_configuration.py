"""Every key of a converter's configuration reaches what it decides."""

from pathlib import Path

import pytest

from pinnace.converter.configuration import configured
from pinnace.converter.convert import Conversion
from pinnace.errors import ConfigError, NotSupportedError, PinnaceWarning
from pinnace.quantization.calibration import Calibration
from pinnace.quantization.files import Quantization

COMMON, DATA = "common_quant_param", "data_preprocess_param"
PATH = {"calibrate_path": "a:/one, b:0:/two", "calibrate_size": "7", "input_type": "BIN"}
FOLDERS = {"a": Path("/one"), "b:0": Path("/two")}
PICTURES = {
    "input_type": "IMAGE",
    "image_to_format": "GRAY",
    "normalize_mean": "[1.5, 2, 3]",
    "normalize_std": "[4,5,6]",
    "resize_width": "8",
    "resize_height": "9",
    "resize_method": "CUBIC",
    "center_crop_width": "5",
    "center_crop_height": "6",
}


def asked(**sections):
    return configured(Conversion(), sections, "", "c.cfg").quantize


@pytest.mark.parametrize(
    ("sections", "wanted"),
    [
        ({}, None),
        ({COMMON: {"quant_type": "WEIGHT_QUANT"}}, Quantization("stored", 8, 0, 16, ends="MAX_MIN")),
        ({COMMON: {"quant_type": "DYNAMIC_QUANT"}}, Quantization("dynamic8", 8, 0, 16)),
        ({COMMON: {"quant_type": "WEIGHT_QUANT", "bit_num": "0"}}, Quantization("stored", 0, 0, 16)),
        (
            {
                COMMON: {
                    "quant_type": "WEIGHT_QUANT",
                    "bit_num": "16",
                    "min_quant_weight_size": "5000",
                    "min_quant_weight_channel": "4",
                    "skip_quant_node": "p, q",
                    "debug_info_save_path": "notes",
                    "enable_encode": "false",
                },
                "mixed_bit_weight_quant_param": {"init_scale": "0.5"},
                "weight_quant_param": {"per_channel": "false", "bias_correction": "false"},
            },
            Quantization("stored", 16, 5000, 4, frozenset("pq"), 0.5, "notes", None, False, "MAX_MIN", False),
        ),
        (
            {
                COMMON: {"quant_type": "FULL_QUANT"},
                "full_quant_param": {"activation_quant_method": "KL"},
                "weight_quant_param": {"per_channel": "false"},  # of another method
                DATA: PATH,
            },
            Quantization("int8", 8, 0, 0, calibration=Calibration(FOLDERS, 7, mean=[], std=[]), ends="KL"),
        ),
        (
            {COMMON: {"quant_type": "FULL_QUANT"}, DATA: PATH | {"input_type": "IMAGE"}},
            Quantization("int8", 8, 0, 0, calibration=Calibration(FOLDERS, 7, True, "BGR", [], [])),
        ),
        (
            {COMMON: {"quant_type": "FULL_QUANT"}, DATA: PATH | PICTURES},
            Quantization(
                *("int8", 8, 0, 0),
                calibration=Calibration(
                    *(FOLDERS, 7, True, "GRAY", [1.5, 2, 3], [4, 5, 6], (8, 9), "BICUBIC", (5, 6))
                ),
            ),
        ),
        (
            {COMMON: {"quant_type": "DYNAMIC_QUANT"}, "dynamic_quant_param": {"quant_strategy": "ALWC"}},
            Quantization("dynamic8", 8, 0, 16),
        ),
        (
            {
                COMMON: {"quant_type": "WEIGHT_QUANT", "bit_num": "2", "enable_encode": "true"},
                "weight_quant_param": {"quant_strategy": "MAX_MIN"},
            },
            Quantization("stored", 2, 0, 16),
        ),
        (
            {
                COMMON: {"quant_type": "FULL_QUANT", "bit_num": "8", "enable_encode": "false"},
                "full_quant_param": {
                    "activation_quant_method": "REMOVAL_OUTLIER",
                    **dict.fromkeys(("per_channel", "bias_correction"), "false"),
                },
                DATA: PATH | {"input_type": "IMAGE", "resize_method": "NEAREST", "image_to_format": "RGB"},
            },
            Quantization(
                *("int8", 8, 0, 0),
                calibration=Calibration(FOLDERS, 7, True, "RGB", [], [], filter="NEAREST"),
                per_channel=False, ends="REMOVAL_OUTLIER", corrected=False,
            ),
        ),
        (
            {COMMON: {"quant_type": "FULL_QUANT"}, DATA: PATH | {"resize_method": "LINEAR"}},
            Quantization("int8", 8, 0, 0, calibration=Calibration(FOLDERS, 7, False, "BGR", [], [])),
        ),
    ],
)  # fmt: skip
def test_keys_of_quantization(sections, wanted):
    assert asked(**sections) == wanted


@pytest.mark.parametrize(
    ("method", "keys", "error", "message"),
    [
        ("WEIGHT_QUANT", {COMMON: {"bit_num": "17"}}, ConfigError, "must be 0 or 2 to 16, but got 17"),
        ("DYNAMIC_QUANT", {COMMON: {"bit_num": "16"}}, ConfigError, "must be 8 with DYNAMIC_QUANT"),
        ("WEIGHT_QUANT", {COMMON: {"bit_num": "4", "enable_encode": "false"}}, ConfigError, "must be true"),
        ("WEIGHT_QUANT", {"weight_quant_param": {"quant_strategy": "GPTQ"}}, NotSupportedError, "MAX_MIN"),
        ("WEIGHT_QUANT", {"mixed_bit_weight_quant_param": {"init_scale": "1"}}, ConfigError, "'1'"),
        ("WEIGHT_QUANT", {"mixed_bit_weight_quant_param": {"init_scale": "0"}}, ConfigError, "'0'"),
        ("FULL_QUANT", {DATA: PATH | {"resize_width": "4"}}, ConfigError, "resize needs both"),
        ("FULL_QUANT", {DATA: PATH | {"center_crop_height": "4"}}, ConfigError, "center_crop needs both"),
        ("FULL_QUANT", {DATA: PATH | {"normalize_std": "[1,0]"}}, ConfigError, "must not be 0"),
        ("FULL_QUANT", {DATA: PATH | {"normalize_mean": "[1,x]"}}, ConfigError, "normalize_mean"),
        ("FULL_QUANT", {DATA: PATH | {"input_type": ""}}, ConfigError, "input_type"),
        ("FULL_QUANT", {DATA: PATH | {"calibrate_path": ""}}, ConfigError, "calibrate_path is missing"),
        ("FULL_QUANT", {DATA: PATH | {"calibrate_path": "x:"}}, ConfigError, "calibrate_path"),
        ("FULL_QUANT", {DATA: PATH | {"calibrate_size": "0"}}, ConfigError, "calibrate_size is missing"),
        ("FULL_QUANT", {}, ConfigError, "needs calibrate_path and calibrate_size"),
        ("FULL_QUANT", {DATA: PATH, "full_quant_param": {"smooth_alpha": "x"}}, ConfigError, "smooth_alpha"),
        ("WEIGHT_QUANT", {COMMON: {"bit_num": "1"}}, ConfigError, "must be 0 or 2 to 16, but got 1"),
        (
            "WEIGHT_QUANT",
            {COMMON: {"bits": "1"}},
            ConfigError,
            "bits is not known: there are quant_type, bit",
        ),
        ("DYNAMIC_QUANT", {"dynamic_quant_param": {"quant_strategy": "ACWL"}}, NotSupportedError, "ALWC"),
    ],
)
def test_keys_that_contradict_are_named(method, keys, error, message):
    common = {"quant_type": method, **keys.pop(COMMON, {})} if COMMON in keys else {"quant_type": method}
    with pytest.raises(error, match=message):
        asked(**{COMMON: common, **keys})


def test_keys_of_quantization_without_its_type_are_refused():
    with pytest.raises(ConfigError, match=r"\[weight_quant_param\] needs quant_type in"):
        asked(weight_quant_param={"per_channel": "true"})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        (COMMON, "workspace", "w"),
        ("mixed_bit_weight_quant_param", "auto_tune", "true"),
        ("mixed_bit_weight_quant_param", "use_cv_data", "true"),
        ("mixed_bit_weight_quant_param", "max_iterations", "3"),
        ("full_quant_param", "target_device", "KIRIN"),
        ("full_quant_param", "smooth_alpha", "0.5"),
        ("full_quant_param", "enable_smooth_shift", "true"),
        ("weight_quant_param", "dequant_strategy", "ON_THE_FLY"),
        ("weight_quant_param", "update_mindir", "true"),
        ("weight_quant_param", "max_segments", "3"),
        ("other_param", "key", "value"),
    ],
)
def test_keys_without_effect_are_named(section, key, value):
    sections = {COMMON: {"quant_type": "WEIGHT_QUANT"}}
    sections[section] = sections.get(section, {}) | {key: value}
    with pytest.warns(PinnaceWarning, match=rf"\[{section}\].*no effect"):
        assert asked(**sections) == Quantization("stored", 8, 0, 16)


def test_keys_of_a_device_without_effect_on_a_file_are_noted():
    sections = {"ascend_context": {"provider": "ge", "input_shape": "x:[1,2]", "dynamic_dims": "[1],[2]"}}
    given = configured(Conversion(), sections, "Ascend", "c.cfg")
    assert given.input_shape == "x:1,2"
    assert given.notes == (
        "[ascend_context] provider: without effect on the file: give it where the model is built",
    )
    del sections["ascend_context"]["provider"]
    assert configured(Conversion(notes=("kept",)), sections, "Ascend", "c.cfg").notes == ("kept",)


def test_shapes_of_a_command_and_of_a_configuration_join():
    sections = {"ascend_context": {"input_shape": "x:[1,2];z:[3]"}}
    given = configured(Conversion(input_shape="y:4,-1;z:3"), sections, "Ascend", "c.cfg")
    assert given.input_shape == "x:1,2;z:3;y:4,-1"
