"""LoRA adapters in `safetensors` files: names, and changes of weights.

An adapter holds for some modules of a network two small matrices each, `down` (rank, inputs) and `up`
(outputs, rank), which change the module's weight W (outputs, inputs):

    W + scale * alpha / rank * (up @ down)

(Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1; `alpha` defaults to the
rank; PEFT's rank-stabilized kind divides by the root of the rank: Kalajdzievski, "A Rank Stabilization
Scaling Factor for Fine-Tuning with LoRA", 2023.) For a convolution, `down` has kernel dimensions after the
two, and `up` has a kernel of size 1.

Three families of names are supported, where X is the path of the module:

* PEFT: `base_model.model.X.lora_A.weight` and `lora_B`, optionally with an adapter's name before `weight`;
  alpha is in `adapter_config.json` beside the file.
* diffusers: PEFT's with the prefix `unet.`, `transformer.` or `text_encoder.`; `X.lora.down.weight`,
  `X.lora_linear_layer.down.weight`; `X.processor.to_q_lora.down.weight` belongs to `X.to_q`.
* kohya: `lora_unet_X.lora_down.weight` with X's dots as underscores, and `lora_unet_X.alpha`.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from pinnace.errors import ArgumentValueError, DataMismatchError, ModelFormatError, warn
from pinnace.types import Array

_Floats = npt.NDArray[np.float32]

_PART = re.compile(
    r"(?P<module>.+?)"
    r"(?:\.lora_(?P<peft>[AB])(?:\.[^.]+)?|\.lora_(?P<kohya>down|up)"
    r"|[._]lora(?:_linear_layer)?\.(?P<diffusers>down|up))\.weight"
)
_PLAIN = re.compile(r"[\w-]*")
_MATCHING = 5  # seconds
_MATCH = r"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
patterns, keys = json.load(sys.stdin)
json.dump([[k for k in keys if re.fullmatch(rf"(.*\.)?({p})", k)] for p in patterns], sys.stdout)
"""
_DOWN = ("A", "down")
_CONFIG = "adapter_config.json"
_NETWORK = re.compile(
    r"(?:base_model\.model\.)?(lora_(?:unet|te\d*|transformer)_|(?:unet|text_encoder(?:_\d)?|transformer)\.|)"
)
_DTYPES: Mapping[str, npt.DTypeLike] = {
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F32": np.float32,
    "F64": np.float64,
}


@dataclass(frozen=True)
class Pair:
    """The change of a module's weight: factor * (up @ down). `key` is the module's name in the file."""

    key: str
    down: _Floats
    up: _Floats
    factor: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the change: outputs, inputs, and the kernel's dimensions."""
        return (self.up.shape[0], *self.down.shape[1:])

    def delta(self) -> _Floats:
        rank, outputs = self.down.shape[0], self.up.shape[0]
        product = self.up.reshape(outputs, rank) @ self.down.reshape(rank, -1)
        return (np.float32(self.factor) * product).reshape(self.shape)


def read(path: Path) -> list[Pair]:
    """Read the pairs of an adapter file.

    Raises `ImportError` without the package safetensors, `ModelFormatError` if the file is missing or
    damaged, `ArgumentValueError` for keys that are not LoRA's, `DataMismatchError` if two matrices do not
    match.
    """
    tensors = _tensors(path)
    down: dict[str, _Floats] = {}
    up: dict[str, _Floats] = {}
    alphas: dict[str, float] = {}
    for key, array in tensors.items():
        if key.endswith(".alpha") and array.size == 1:
            alphas[_module(key.removesuffix(".alpha"))] = float(array.reshape(-1)[0])
            continue
        part = _PART.fullmatch(key)
        if part is None:
            raise ArgumentValueError(f"{path}: {key!r} is not a known name in a LoRA adapter")
        side = down if (part["peft"] or part["kohya"] or part["diffusers"]) in _DOWN else up
        module = _module(part["module"])
        if module in side:
            raise ArgumentValueError(f"{path}: {key!r} repeats {module!r}: the file has two adapters")
        side[module] = array
    unpaired = down.keys() ^ up.keys()
    if unpaired or not down:
        what = f"{min(unpaired)!r} has only one of its two matrices" if unpaired else "it has no matrices"
        raise ModelFormatError(f"{path}: {what}")
    if stray := alphas.keys() - down.keys():
        raise ArgumentValueError(f"{path}: {min(stray)!r} has an alpha and no matrices")
    for key in down:
        _check_pair(key, down[key], up[key])
    config = _config(path)
    try:
        matching = _matching(config.get("alpha_pattern") or {}, down)
        return [
            Pair(key, down[key], up[key], _factor(key, len(down[key]), alphas.get(key), config, matching))
            for key in down
        ]
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ModelFormatError(f"{path.with_name(_CONFIG)}: alpha is not in PEFT's form: {error}") from None


def _check_pair(key: str, down: _Floats, up: _Floats) -> None:
    fits = down.ndim > 1 and up.ndim > 1 and down.shape[0] > 0
    if not fits or up.shape[1] != down.shape[0] or up.size != math.prod(up.shape[:2]):
        raise DataMismatchError(
            f"{key}: down {list(down.shape)} and up {list(up.shape)} do not match: "
            f"they must be (rank, inputs, ...) and (outputs, rank)"
        )


def match_weights(path: Path, pairs: Iterable[Pair], modules: Mapping[str, str]) -> dict[str, list[Pair]]:
    """Return the pairs by the weights that they change; `modules` maps module paths to weights.

    Files for pipelines contain parts for several networks: if one network's part matches completely, parts
    that do not match at all are skipped with a warning. Raises `ArgumentValueError` for keys that match no
    weight or several.
    """
    finder = _WeightFinder(modules)
    parts: dict[str, list[tuple[Pair, set[str]]]] = {}
    for pair in pairs:
        network, module = _network(pair.key)
        parts.setdefault(network, []).append((pair, finder.weights(network, module)))
    foreign = [n for n, part in parts.items() if n and not any(weights for _, weights in part)]
    if foreign and len(foreign) < len(parts):
        for network in foreign:
            warn(f"{path}: its part {network!r} is for another network and is skipped")
            del parts[network]
    found: dict[str, list[Pair]] = {}
    for part in parts.values():
        for pair, weights in part:
            if len(weights) != 1:
                raise ArgumentValueError(f"{path}: {finder.complaint(pair.key, weights)}")
            found.setdefault(weights.pop(), []).append(pair)
    return found


def apply_pairs(
    first: Array, axes: tuple[int, ...] | None, name: str, pairs: Iterable[tuple[Pair, float]]
) -> Array:
    """Return a weight with the changes of `pairs`, each with its scale, added in order.

    `axes` permutes the weight's dimensions to outputs, inputs and kernel; None if unknown. Computed in
    float32, or in float64 for float64 weights. Raises `DataMismatchError`.
    """
    total = first.astype(np.promote_types(first.dtype, np.float32))
    for pair, scale in pairs:
        order = _order(first.shape, pair.shape) if axes is None else axes
        oriented = tuple(first.shape[a] for a in order)
        ones = pair.shape[:2] == oriented[:2] and math.prod(pair.shape) == math.prod(oriented)
        if len(order) != first.ndim or not (pair.shape == oriented or ones):
            raise DataMismatchError(
                f"{pair.key} changes a weight of {list(pair.shape)} (outputs, inputs, ...), and {name!r} "
                f"has the shape {list(first.shape)}"
            )
        total += scale * pair.delta().reshape(oriented).transpose(np.argsort(order))
    return np.ascontiguousarray(total.astype(first.dtype))


def _order(shape: tuple[int, ...], delta: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of a matrix's dimensions from its shape, if its uses do not determine it."""
    if len(shape) == 2 and shape[0] != shape[1]:
        return (0, 1) if delta[:2] == shape else (1, 0)
    return ()


def _tensors(path: Path) -> dict[str, _Floats]:
    try:
        import safetensors
    except ImportError:
        raise ImportError(
            "LoRA adapters are read with the package safetensors: pip install safetensors"
        ) from None
    try:
        entries = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{path}: cannot be read: {error}") from None
    except safetensors.SafetensorError as error:
        raise ModelFormatError(f"{path}: is not a safetensors file: {error}") from None
    return {key: _floats(path, key, entry) for key, entry in entries}


def _floats(path: Path, key: str, entry: Mapping[str, Any]) -> _Floats:
    if entry["dtype"] not in _DTYPES:
        raise ModelFormatError(
            f"{path}: {key!r} has elements of type {entry['dtype']}, but floats are expected"
        )
    try:
        array = np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    except (ValueError, OverflowError):
        raise ModelFormatError(f"{path}: {key!r} cannot have the shape {entry['shape']}") from None
    return array.astype(np.float32)


def _module(name: str) -> str:
    """Return the path of a module, without the parts that attention processors add."""
    if ".processor." in name:
        name = name.replace(".processor.", ".")
        name = f"{name}.0" if name.endswith(".to_out") else name
    return name


def _config(path: Path) -> Mapping[str, Any]:
    """Read PEFT's configuration beside an adapter; {} if there is none."""
    beside = path.with_name(_CONFIG)
    try:
        config = json.loads(beside.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFormatError(f"{beside}: cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ModelFormatError(f"{beside}: is not an adapter configuration")
    return config


def _matching(patterns: Iterable[str], keys: Iterable[str]) -> dict[str, set[str]]:
    """Return the keys that each pattern matches, by PEFT's rules. Raises ValueError.

    A regular expression can run for ever and block all threads, so patterns other than plain text are matched
    in another process with a time limit.
    """
    found: dict[str, set[str]] = {}
    for pattern in patterns:
        if _PLAIN.fullmatch(pattern):
            found[pattern] = {key for key in keys if f".{key}".endswith(f".{pattern}")}
    rest = [pattern for pattern in patterns if pattern not in found]
    if not rest:
        return found
    given = json.dumps([rest, list(keys)])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _MATCH],
            input=given,
            capture_output=True,
            text=True,
            timeout=_MATCHING,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"alpha_pattern takes more than {_MATCHING} s to match") from None
    if done.returncode:
        raise ValueError(f"alpha_pattern: {(done.stderr.splitlines() or ['cannot be matched'])[-1]}")
    return found | {
        pattern: set(matches) for pattern, matches in zip(rest, json.loads(done.stdout), strict=True)
    }


def _factor(
    key: str, rank: int, alpha: float | None, config: Mapping[str, Any], matching: Mapping[str, set[str]]
) -> float:
    """Return the factor of a pair; `matching` has the keys that patterns match."""
    if alpha is None and "lora_alpha" in config:
        alpha = float(config["lora_alpha"])
        for pattern, other in (config.get("alpha_pattern") or {}).items():
            if key in matching[pattern]:
                alpha = float(other)
        if config.get("use_rslora"):
            return alpha / math.sqrt(rank)
    return 1.0 if alpha is None else alpha / rank


def _network(key: str) -> tuple[str, str]:
    """Return the network of a pipeline that a module belongs to, "" if unnamed, and its path there."""
    prefix = _NETWORK.match(key)
    assert prefix is not None  # it matches the empty string
    return prefix[1].strip("_."), key[prefix.end() :]


class _WeightFinder:
    """Finds weights by module names, which a file may prefix or write with underscores."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._dotted: dict[str, set[str]] = {}
        self._flat: dict[str, set[str]] = {}
        for module, weight in modules.items():
            self._dotted.setdefault(module, set()).add(weight)
            self._flat.setdefault(module.replace(".", "_"), set()).add(weight)
        self._modules = modules

    def weights(self, network: str, module: str) -> set[str]:
        """Return the weights of the module with this path, or else of all modules whose paths end with it."""
        paths, dot = (self._flat, "_") if network.startswith("lora_") else (self._dotted, ".")
        if module in paths:
            return set(paths[module])
        return {w for path, weights in paths.items() if path.endswith(dot + module) for w in weights}

    def complaint(self, key: str, weights: set[str]) -> str:
        if weights:
            return f"{key!r} may mean any of the weights {', '.join(map(repr, sorted(weights)[:5]))}"
        flat = {path.replace(".", "_"): path for path in self._modules}
        near = difflib.get_close_matches(_network(key)[1].replace(".", "_"), flat, n=3, cutoff=0.4)
        hint = f"; the nearest are {', '.join(repr(self._modules[flat[n]]) for n in near)}" if near else ""
        return f"{key!r} fits no weight of the model{hint}"
