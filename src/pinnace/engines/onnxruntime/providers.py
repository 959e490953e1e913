"""Options of onnxruntime's providers for accelerators.

The options are documented in onnxruntime's pages "CUDA Execution Provider", "TensorRT Execution Provider" and
"CANN Execution Provider", the sections of configurations in MindSpore Lite's page "Ascend Conversion Tool
Description" and its page on dynamic shapes with TensorRT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnxruntime as ort

from pinnace.errors import ArgumentValueError, ConfigError
from pinnace.options.target import Target
from pinnace.shapes import Shape, allowed, flattened, named_shapes, parted, sizes, written

CPU, CUDA, TENSORRT, CANN = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "Tensorrt", "CANN"))
Options = dict[str, str]
Chain = list[tuple[str, Options]]
"""Providers with their options; nodes for which one has no kernel go to the next."""

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
"""Boolean values; TensorRT's options accept no others, those of other providers also 1 and 0."""

_PRECISIONS = {
    "enforce_fp32": "force_fp32",
    "preferred_fp32": "allow_fp32_to_fp16",
    "enforce_fp16": "force_fp16",
    "enforce_origin": "must_keep_origin_dtype",
    "preferred_optimal": "allow_mix_precision",
}
"""CANN's values for those of `context.ascend.precision_mode`."""

_CANN_OPTIONS = {
    ("acl_init_options", "ge.opSelectImplmode"): "op_select_impl_mode",
    ("acl_option_cfg_param", "op_select_impl_mode"): "op_select_impl_mode",
    ("ascend_context", "op_select_impl_mode"): "op_select_impl_mode",
    ("acl_init_options", "ge.optypelistForImplmode"): "optypelist_for_implmode",
    ("ascend_context", "ge_graph_memory_max_size"): "npu_mem_limit",
}


def missing(target: Target) -> list[str]:
    """Return what this onnxruntime lacks for the provider of a target.

    Raises `ArgumentValueError` for an unknown provider.
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
    if target.device == "cpu":
        return ON_CPU
    makers = {CUDA: cuda, TENSORRT: tensorrt, CANN: cann}
    found = [(name, makers[name](target)) for name in _CHAINS[target.device, target.provider]]
    return [*found, (CPU, {})]


def cuda(target: Target) -> Options:
    """Return options of the CUDA provider; TF32, with 10 of 23 bits, unless fp32 is enforced."""
    exact = target.precision == "enforce_fp32"
    return {"device_id": str(target.device_id), "use_tf32": _NO if exact else _YES}


def tensorrt(target: Target) -> Options:
    """Return options of the TensorRT provider; `[ms_cache] serialize_path` is the folder of its engines."""
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
    """Convert three options of `[gpu_context]`, whose parts are separated by ";", to TensorRT's profiles.

    input_shape="x:[-1,3,-1,224];y:[1,8]" names inputs with their free dimensions; dynamic_dims="[1~8,32~224]"
    has the minimum and maximum of each free dimension, in brackets for each input with such dimensions;
    opt_dims="[4,128]" has the values to optimize for, by default the maxima. Raises `ConfigError`.
    """
    shapes = {name: shape for name, shape in named_shapes(input_shape).items() if -1 in shape}
    if not shapes or not dynamic_dims:
        if opt_dims:
            raise ConfigError("[gpu_context] opt_dims needs free dimensions in input_shape, and dynamic_dims")
        return {}
    counts = [shape.count(-1) for shape in shapes.values()]
    try:
        within, best = (
            parted(sizes(flattened(text)), counts) for text in (dynamic_dims, opt_dims or dynamic_dims)
        )
    except ValueError as error:
        raise ConfigError(f"[gpu_context] input_shape, dynamic_dims, opt_dims: {error}") from None
    parts: dict[str, list[str]] = {"min": [], "max": [], "opt": []}
    for (name, shape), found, favored in zip(shapes.items(), within, best, strict=True):
        spans = list(zip(*found, strict=True))  # of each free dimension, in all brackets
        chosen = [span[-1] for span in favored[0]]
        if not allowed(found, chosen):
            raise ConfigError(f"[gpu_context] opt_dims {chosen} of {name!r} are not within {written(found)}")
        parts["min"].append(_profile(name, shape, [min(r[0] for r in span) for span in spans]))
        parts["max"].append(_profile(name, shape, [max(r[-1] for r in span) for span in spans]))
        parts["opt"].append(_profile(name, shape, chosen))
    return {f"trt_profile_{key}_shapes": ",".join(texts) for key, texts in parts.items()}


def cann(target: Target) -> Options:
    settings = _settings(target)
    chosen = {
        "device_id": str(target.device_id),
        "precision_mode": precision(target),
        # GE runs the whole graph, as provider "ge" requests and by default.
        "enable_cann_graph": _YES,
    }
    for place, name in _CANN_OPTIONS.items():
        if place in settings:
            chosen.setdefault(name, settings[place])
    return chosen


def precision(target: Target) -> str:
    """Return the type in which an accelerator computes float32; TF32 on cards that have it."""
    if target.device == "ascend":
        return _PRECISIONS.get(target.precision, target.precision)
    if target.provider == "tensorrt":
        return "float16" if _prefers_half(target) else "tf32"
    return "float32" if target.precision == "enforce_fp32" else "tf32"


def _prefers_half(target: Target) -> bool:
    return target.precision in ("preferred_fp16", "enforce_fp16")


def _settings(target: Target) -> Mapping[tuple[str, str], str]:
    return {(section, key): value for section, key, value in target.options}


def _profile(name: str, shape: Shape, values: Sequence[int]) -> str:
    """Return TensorRT's "NAME:1x3x224", with `values` for the free dimensions."""
    rest = iter(values)
    return f"{name}:" + "x".join(str(next(rest) if dim == -1 else dim) for dim in shape)
