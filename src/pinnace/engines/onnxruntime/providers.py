"""Options of a target, as onnxruntime's providers for accelerators take them.

What they take is said in onnxruntime's pages "CUDA Execution Provider", "TensorRT Execution Provider" and
"CANN Execution Provider". What the sections of a configuration mean is said in MindSpore Lite's page "Ascend
Conversion Tool Description" and its page on dynamic shapes with TensorRT.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import onnxruntime as ort

from pinnace.errors import ArgumentValueError, ConfigError
from pinnace.target import Target

CPU, CUDA, TENSORRT, CANN = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "Tensorrt", "CANN"))
Options = dict[str, str]
Chain = list[tuple[str, Options]]
"""Providers with their options; what one has no kernel for goes to the next."""

ON_CPU: Chain = [(CPU, {})]

_CHAINS = {
    ("gpu", ""): (CUDA,),
    ("gpu", "cuda"): (CUDA,),
    ("gpu", "tensorrt"): (TENSORRT, CUDA),
    ("ascend", ""): (CANN,),
    ("ascend", "acl"): (CANN,),
    ("ascend", "ge"): (CANN,),
}
_PACKAGES = {"gpu": "onnxruntime-gpu[cuda,cudnn]", "ascend": "onnxruntime-cann"}
_YES, _NO = "True", "False"
"""The only words that TensorRT's options take (those of other providers take 1 and 0 as well)."""

_PRECISIONS = {
    "enforce_fp32": "force_fp32",
    "preferred_fp32": "allow_fp32_to_fp16",
    "enforce_fp16": "force_fp16",
    "enforce_origin": "must_keep_origin_dtype",
    "preferred_optimal": "allow_mix_precision",
}
"""CANN's words for those of `context.ascend.precision_mode`."""

_CANN_OPTIONS = {
    ("ascend_context", "op_select_impl_mode"): "op_select_impl_mode",
    ("acl_init_options", "ge.opSelectImplmode"): "op_select_impl_mode",
    ("acl_init_options", "ge.optypelistForImplmode"): "optypelist_for_implmode",
    ("ascend_context", "ge_graph_memory_max_size"): "npu_mem_limit",
}

def missing(target: Target) -> list[str]:
    """What this onnxruntime lacks for the provider that a target names.

    Raises `ArgumentValueError` for a provider that is not known.
    """
    kind, provider = target.device, target.provider
    if (kind, provider) not in _CHAINS:
        known = ", ".join(repr(name) for device, name in _CHAINS if device == kind)
        raise ArgumentValueError(f"{kind} provider {provider!r} is not known; choose from {known}")
    there = ort.get_available_providers()
    package = _PACKAGES[kind]
    return [
        f"onnxruntime with {name} (pip uninstall onnxruntime; pip install --force-reinstall {package!r})"
        for name in _CHAINS[kind, provider]
        if name not in there
    ][:1]


def chain(target: Target) -> Chain:
    """The providers of a target, the CPU's last."""
    if target.device == "cpu":
        return ON_CPU
    makers = {CUDA: cuda, TENSORRT: tensorrt, CANN: cann}
    found = [(name, makers[name](target)) for name in _CHAINS[target.device, target.provider]]
    return [*found, (CPU, {})]


def cuda(target: Target) -> Options:
    """Options of the CUDA provider; TF32, which keeps 10 bits of 23, only where less than fp32 will do."""
    exact = target.precision == "enforce_fp32"
    return {"device_id": str(target.device_id), "use_tf32": _NO if exact else _YES}


def tensorrt(target: Target) -> Options:
    """Options of the TensorRT provider; `[ms_cache] serialize_path` is the folder of its engines."""
    settings = _settings(target)
    half = _YES if _prefers_half(target) else _NO
    chosen = {"device_id": str(target.device_id), "trt_fp16_enable": half}
    folder = settings.get(("ms_cache", "serialize_path"))
    if folder:
        chosen |= {
            "trt_engine_cache_enable": _YES,
            "trt_engine_cache_path": folder,
            "trt_timing_cache_enable": _YES,
            "trt_timing_cache_path": folder,
        }
    shapes, ranges, best = (
        settings.get(("gpu_context", key), "") for key in ("input_shape", "dynamic_dims", "opt_dims")
    )
    return {**chosen, **profiles(shapes, ranges, best)}


def profiles(input_shape: str, dynamic_dims: str, opt_dims: str) -> Options:
    """TensorRT's profiles of the three options of `[gpu_context]`, whose parts are separated by ";".

    input_shape="x:[-1,3,-1,224];y:[1,8]" names inputs with their free dimensions; dynamic_dims="[1~8,32~224]"
    has the least and the largest value of each free dimension, a pair of brackets for every input that has
    some, and opt_dims="[4,128]" those to be fast for; without it those are the largest. Raises `ConfigError`.
    """
    if not input_shape and not dynamic_dims:
        return {}
    shapes = _named_shapes(input_shape)
    free = {name: shape for name, shape in shapes.items() if -1 in shape}
    if not free:
        return {}
    ranges = _brackets("dynamic_dims", dynamic_dims, len(free))
    best = _brackets("opt_dims", opt_dims, len(free)) if opt_dims else [[] for _ in free]
    written: dict[str, list[str]] = {"min": [], "max": [], "opt": []}
    for (name, shape), within, favoured in zip(free.items(), ranges, best, strict=True):
        count = shape.count(-1)
        pairs = [_pair(text) for text in within]
        wanted = [int(text) for text in favoured if text.isdecimal()] if favoured else [b for _, b in pairs]
        if len(pairs) != count or len(wanted) != count:
            raise ConfigError(
                f"[gpu_context] input_shape gives {name!r} {count} free dimensions: dynamic_dims {within} "
                f"and opt_dims {favoured} must have one value for each"
            )
        if any(not low <= value <= high for value, (low, high) in zip(wanted, pairs, strict=True)):
            raise ConfigError(f"[gpu_context] opt_dims {favoured} of {name!r} are not within {within}")
        for key, values in zip(written, (zip(*pairs, strict=True)), strict=False):
            written[key].append(_profile(name, shape, values))
        written["opt"].append(_profile(name, shape, tuple(wanted)))
    return {f"trt_profile_{key}_shapes": ",".join(parts) for key, parts in written.items()}


def cann(target: Target) -> Options:
    """Options of the CANN provider."""
    settings = _settings(target)
    chosen = {
        "device_id": str(target.device_id),
        "precision_mode": precision(target),
        # GE runs the whole graph, which is what provider "ge" asks for and the default as well.
        "enable_cann_graph": _YES,
    }
    for place, name in _CANN_OPTIONS.items():
        if place in settings:
            chosen.setdefault(name, settings[place])
    return chosen


def precision(target: Target) -> str:
    """What an accelerator computes float32 in: TensorRT in TF32 at most, on the cards that have it."""
    if target.device == "ascend":
        return _PRECISIONS.get(target.precision, target.precision)
    if target.provider == "tensorrt":
        return "float16" if _prefers_half(target) else "tf32"
    return "float32" if target.precision == "enforce_fp32" else "tf32"


def _prefers_half(target: Target) -> bool:
    return target.precision in ("preferred_fp16", "enforce_fp16")


def _settings(target: Target) -> Mapping[tuple[str, str], str]:
    return {(section, key): value for section, key, value in target.options}


def _named_shapes(text: str) -> dict[str, list[int]]:
    """Shapes by the names of inputs, of "x:[-1,3];y:[1,8]"; brackets may be left out."""
    found = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        match = re.fullmatch(r"(.+):\s*\[?\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]?", part)
        if not match:
            raise ConfigError(f"[gpu_context] input_shape: {part!r} is not NAME:[DIM,DIM,...]")
        found[match[1].strip()] = [int(dim) for dim in match[2].split(",")]
    return found


def _brackets(key: str, text: str, count: int) -> list[list[str]]:
    parts = [p.strip() for p in text.split(";") if p.strip()]
    if len(parts) != count or not all(p.startswith("[") and p.endswith("]") for p in parts):
        raise ConfigError(
            f"[gpu_context] {key}={text!r} must have a pair of brackets for each of the {count} inputs with "
            f'free dimensions, separated by ";"'
        )
    return [[item.strip() for item in part[1:-1].split(",")] for part in parts]


def _pair(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:\s*~\s*(\d+))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if low > high or math.prod((low, high)) == 0:
        raise ConfigError(f"[gpu_context] dynamic_dims: {text!r} is neither a size nor LEAST~LARGEST")
    return low, high


def _profile(name: str, shape: list[int], values: tuple[int, ...]) -> str:
    """TensorRT's "NAME:1x3x224" with `values` in the places of the free dimensions."""
    rest = iter(values)
    return f"{name}:" + "x".join(str(next(rest) if dim == -1 else dim) for dim in shape)
