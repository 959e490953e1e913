"""Settings of a build: from an .ini file, from a dict, or from both.

Sections and keys are those that MindSpore Lite knows (its API pages, "Ascend Conversion Tool Description"
of its guide, and the seeds). Most of them steer hardware that this process may not have: they are kept,
checked, and read by whoever needs them.
"""

from __future__ import annotations

import configparser
import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pinnace.arguments import check_sections, check_type
from pinnace.errors import ArgumentTypeError, ConfigError, warn

_Values = frozenset[str] | type[int] | None
"""What an option may hold: one of some words, a number, or (None) anything."""


def _words(*words: str) -> frozenset[str]:
    return frozenset(words)


def _anything(names: str) -> dict[str, _Values]:
    return dict.fromkeys(names.split())


_SWITCH = _words("true", "false")
_BIT = _words("0", "1")
_ACL_PRECISION = _words(
    "force_fp32",
    "force_fp16",
    "allow_fp32_to_fp16",
    "must_keep_origin_dtype",
    "allow_mix_precision",
    "allow_mix_precision_fp16",
    "allow_mix_precision_bf16",
)
_ASCEND: dict[str, _Values] = {
    **_anything(
        "input_shape dynamic_dims dynamic_batch_size dynamic_image_size fusion_switch_config_file_path "
        "insert_op_config_file_path aoe_mode plugin_custom_ops custom_fusion_pattern op_attrs "
        "stream_label_file profiling_config_file dump_config_file dump_model_name model_cache_dir "
        "model_cache_mode mixprecision_list_path enable_custom_op provider parameter_as_refdata "
        "rank_table_file variable_weights_file variable_weights_list shareable_weight_pid_list "
        "shareable_weight_mem_handle kvcache_input_layout bundle_model"
    ),
    "device_id": int,
    "max_weight_batch": int,
    "ge_variable_memory_max_size": int,
    "ge_graph_memory_max_size": int,
    "input_format": _words("NCHW", "NHWC", "ND"),
    "output_type": _words("FP16", "FP32", "UINT8"),
    "op_select_impl_mode": _words("high_performance", "high_precision"),
    "precision_mode": _words(
        "enforce_fp32", "preferred_fp32", "enforce_fp16", "enforce_origin", "preferred_optimal"
    )
    | _ACL_PRECISION,
}
_GE_COMMON: dict[str, _Values] = {
    **_anything(
        "input_shape ge.op_compiler_cache_dir ge.debugDir ge.opDebugLevel ge.exec.modify_mixlist "
        "ge.dynamicDims ge.inputShape"
    ),
    "input_format": _words("NCHW", "NHWC", "ND"),
    "ge.exec.precision_mode": _ACL_PRECISION,
    "ge.exec.disableReuseMemory": _BIT,
    "ge.op_compiler_cache_mode": _words("enable", "force", "disable"),
    "ge.externalWeight": _BIT,
}

SECTIONS: Mapping[str, Mapping[str, _Values] | None] = {
    "model_file": _anything("mindir_path"),
    "weight": _anything("weight_path"),
    "execution_plan": None,  # keys are names of nodes
    "ms_cache": {
        **_anything("cache_model_path serialize_path"),
        "vocab_size": int,
        "device_cache_size": int,
    },
    "common_context": _anything("compile_graph_parallel variable_weights_file"),
    "gpu_context": _anything("input_shape dynamic_dims opt_dims precision_mode dump_ops dump_dir"),
    "ascend_context": _ASCEND,
    "acl_option_cfg_param": _ASCEND,
    "acl_init_options": {
        **_GE_COMMON,
        **_anything(
            "ge.engineType ge.socVersion compress_weight_conf ge.fusionSwitchFile ge.optypelistForImplmode "
            "ge.compressionOptimizeConf ge.host_env_os ge.host_env_cpu"
        ),
        "ge.bufferOptimize": _words("l1_optimize", "l2_optimize", "off_optimize"),
        "ge.enableCompressWeight": _SWITCH,
        "ge.enableSingleStream": _SWITCH,
        "ge.aicoreNum": int,
        "ge.enableSmallChannel": _BIT,
        "ge.opSelectImplmode": _words("high_precision", "high_performance"),
        "ge.enableSparseMatrixWeight": _BIT,
        "ge.deterministic": _BIT,
        "ge.virtual_type": _BIT,
    },
    "acl_build_options": {
        **_GE_COMMON,
        **_anything(
            "op_name_map ge.dynamicBatchSize ge.dynamicImageSize ge.inserOpFile ge.outputNodeName "
            "ge.INPUT_NODES_SET_FP16 ge.mdl_bank_path ge.op_bank_path ge.exec.op_precision_mode "
            "op_debug_config ge.exec.exclude_engines"
        ),
        "ge.outputDataType": _words("FP32", "UINT8", "FP16"),
        "log": _words("debug", "info", "warning", "error"),
        "ge.shape_generalized_build_mode": _words("shape_generalized", "shape_precise"),
    },
    "ge_global_options": None,  # CANN's own, too many and too new to list
    "ge_session_options": None,
    "ge_graph_options": None,
    "aoe_global_options": None,
    "aoe_tuning_options": None,
    "transformer_context": _anything("encoder_input decoder_input ffn_fp16 optimize_transformer"),
    "shared_thread_pool": {
        "enable_shared_thread_pool": _SWITCH,
        "thread_num_limit_per_worker": None,  # one number, or one for each worker: "1,2,3"
        "thread_num_remaining_per_worker": None,
    },
    "lite_inner_group": _anything("group_id"),
    "inner_common": _anything(
        "inner_sharing_workspace inner_model_path inner_weightspace inner_workspace "
        "inner_calc_workspace_size inner_weightspace_workspace inner_pids inner_sharable_handle"
    ),
    "runner": {"max_queue": int, "max_batch_size": int, "max_queue_delay_us": int},  # ours
    "distributed": {"timeout": int},  # ours
    "inner_model_parallel_runner": _anything(
        "sharing_weight_copy_buf inner_model_id inner_runner_id inner_numa_id inner_worker_num"
    ),
}
"""Known sections and, where they are fixed, their keys with what these may hold."""

_FLAT = {
    "pids": ("ascend_context", "shareable_weight_pid_list"),
    "shared_mem_handle": ("ascend_context", "shareable_weight_mem_handle"),
}
"""Keys that scripts give without a section, and where they belong."""

_PLAN_TYPES = ("float32", "float16")


@dataclass(frozen=True)
class Settings:
    """Options by section and key, checked. `Settings()` has none.

    `folder` is that of the .ini file, "" where there is none.
    """

    sections: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    folder: str = ""

    @classmethod
    def load(cls, path: str = "", options: Mapping[str, Any] | None = None, name: str = "config") -> Settings:
        """Read the .ini file at `path` ("" is none) and lay `options` over it.

        `options` is {section: {key: value}} of strings, and is called `name` in messages; the keys `pids`
        and `shared_mem_handle` may stand in it without a section. Values in double quotes lose them.
        Raises `ConfigError` for a file that cannot be read and for an impossible value,
        `ArgumentTypeError` for other things than strings; warns of unknown sections and keys.
        """
        sources = [(path, _read(path))] if path else []
        if options:
            sources.append((name, _nested(options, name)))
        merged: dict[str, dict[str, str]] = {}
        for origin, sections in sources:
            for section, values in sections.items():
                clean = {key: _unquote(value) for key, value in values.items()}
                _check(origin, section, clean)
                merged.setdefault(section, {}).update(clean)
        return cls(merged, os.path.dirname(path))

    def get(self, section: str, key: str, default: str = "") -> str:
        """The value of an option, `default` where it is not given."""
        return self.sections.get(section, {}).get(key, default)

    def number(self, section: str, key: str) -> int:
        """The value of an option that is a number, 0 where it is not given."""
        return int(self.get(section, key) or 0)

    @property
    def flat(self) -> tuple[tuple[str, str, str], ...]:
        """All options as (section, key, value)."""
        return tuple((s, key, value) for s, values in self.sections.items() for key, value in values.items())

    @property
    def precision_plan(self) -> dict[str, str]:
        """Element types ("float16" or "float32") by node name, of `[execution_plan]`."""
        plan = self.sections.get("execution_plan", {})
        return {node: kind for node, value in plan.items() if (kind := _plan_type(value))}

    @property
    def variable_weights(self) -> tuple[str, ...]:
        """Names of the weights that may be exchanged, a line each in the file `variable_weights_file`.

        The option is one of `[ascend_context]`, as in MindSpore Lite, or of `[common_context]`. A path that
        leads nowhere from the working directory is tried from the folder of the .ini file. ConfigError.
        """
        given = [self.get(section, _VARIABLE_WEIGHTS) for section in _VARIABLE_SECTIONS]
        path = next(filter(None, given), "")
        if not path:
            return ()
        beside = os.path.join(self.folder, path)
        path = path if os.path.exists(path) or not os.path.exists(beside) else beside
        names: dict[str, int] = {}
        for number, line in enumerate(_text(path, _VARIABLE_WEIGHTS).splitlines(), 1):
            name = line.strip()
            if name in names:
                raise ConfigError(f"{path}:{number}: {name!r} stands in line {names[name]} already")
            if name:
                names[name] = number
        if not names:
            raise ConfigError(f"{path}: {_VARIABLE_WEIGHTS} names no weights: write one name a line")
        return tuple(names)


_VARIABLE_WEIGHTS = "variable_weights_file"
_VARIABLE_SECTIONS = ("ascend_context", "acl_option_cfg_param", "common_context")


def _text(path: str, what: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {what} {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file, byte {error.start} is no UTF-8") from None


def _read(path: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#", ";"), interpolation=None, default_section="\0"
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    text = _text(path, "configuration file")
    try:
        # MindSpore Lite trims lines; without that an indented key would continue the one above.
        parser.read_string("\n".join(line.strip() for line in text.split("\n")), source=path)
    except configparser.Error as error:
        raise ConfigError(_place(path, error)) from None
    return {section: dict(parser[section]) for section in parser.sections()}


def _place(path: str, error: configparser.Error) -> str:
    """Say in one line where a file is wrong."""
    match error:
        case configparser.DuplicateSectionError():
            return f"{path}:{error.lineno}: section [{error.section}] is there twice"
        case configparser.DuplicateOptionError():
            return f"{path}:{error.lineno}: key {error.option!r} is twice in [{error.section}]"
        case configparser.MissingSectionHeaderError():
            return f"{path}:{error.lineno}: {error.line.strip()!r} stands before any [section]"
        case configparser.ParsingError():
            line, _ = error.errors[0]
            return f"{path}:{line}: the line is neither [section] nor key=value"
        case _:
            return f"{path}: {error}"


def _nested(options: Mapping[str, Any], name: str) -> dict[str, dict[str, str]]:
    """Move keys that stand without a section to theirs, and check the types of all."""
    check_type(name, options, dict)
    nested: dict[str, Any] = {}
    for key, value in options.items():
        if key in _FLAT and isinstance(value, str | int):
            section, option = _FLAT[key]
            nested.setdefault(section, {})[option] = str(value)
        elif key in _FLAT and not isinstance(value, dict):
            raise ArgumentTypeError(f"{name}[{key!r}] must be str or int, but got {type(value)}.")
        elif isinstance(value, dict) and isinstance(nested.get(key), dict):
            nested[key].update(value)
        else:
            nested[key] = dict(value) if isinstance(value, dict) else value
    check_sections(name, nested)
    return nested


def _check(origin: str, section: str, values: Mapping[str, str]) -> None:
    if section not in SECTIONS:
        warn(f"{origin}: unknown section [{section}] is ignored{_nearest(section, SECTIONS)}")
        return
    if section == "execution_plan":
        _check_plan(origin, values)
    known = SECTIONS[section]
    if known is None:
        return
    for key, value in values.items():
        if key not in known:
            warn(f"{origin}: unknown key {key!r} in [{section}] is ignored{_nearest(key, known)}")
        else:
            _check_value(f"{origin}: [{section}] {key}", value, known[key])


def _check_value(place: str, value: str, allowed: _Values) -> None:
    if isinstance(allowed, frozenset) and value not in allowed:
        raise ConfigError(f"{place} must be one of {', '.join(sorted(allowed))}, but got {value!r}")
    if allowed is int and not value.isdecimal():
        raise ConfigError(f"{place} must be a number that is not negative, but got {value!r}")


def _check_plan(origin: str, values: Mapping[str, str]) -> None:
    # mindspore_lite skips a wrong line of the plan and goes on; so do we, aloud.
    for node, value in values.items():
        if _plan_type(value) is None:
            warn(
                f"{origin}: [execution_plan] {node}={value} is ignored: "
                f"it must be data_type:float16 or data_type:float32"
            )


def _plan_type(value: str) -> str | None:
    key, _, kind = value.partition(":")
    kind = kind.strip().lower()
    return kind if key.strip().lower() == "data_type" and kind in _PLAN_TYPES else None


def _nearest(word: str, known: Iterable[str]) -> str:
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]!r}?" if near else ""


def _unquote(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
