"""The inputs and attributes of each primitive, in order, with types and defaults: `signatures.jsonl`.

`tools/tables/make_signatures.py` makes it from MindSpore's operator definitions and the schema of `.ms`. A
line is `[dialect, primitive, {"inputs": [...], "attributes": [...], "derived": [...]}]`. An argument is
`[name, type, default]`, without the default where every file gives it. The last `moved` of the inputs were
attributes in files of MindSpore 2.0. `derived` is what MindSpore's own constructors add, `[name, value]`,
without the value where it follows from the rest, and `older` what only MindSpore 2.0 had. `{"NAME":
number}` is a member of an enumeration or an element type, which files give by its number.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.program import Dialect

GIVEN = object()
"""The default of what every file gives."""
DERIVED = object()
"""The default of what follows from other arguments."""
_OF_COMPILERS = """
checkpoint constexpr_prim cust_aicpu forbid_reuse_result has_effect input_names is_backend_cast
is_dynamic_shape is_load IsFeatureMapInputList IsFeatureMapOutput max_length multi_output no_eliminate
op_adaptation_processed output_names primitive_target pure_input_names reg_op_name side_effect_backprop
side_effect_backprop_mem side_effect_hidden side_effect_io side_effect_mem side_effect_propagate uniq_name
unique_name use_locking
"""
"""Names, origins, the order of effects, where it runs, how much room a result may take."""
_OF_TRAINING = """
backward_prefetch bprop_return_sparse comm_reuse fusion gen_strategy grad_scale in_strategy keep_alive
mean_flag micro not_delay_fusion offload order_enforce_skip out_layout out_strategy parallel_group
parameter_start pipeline_begin pipeline_end primal_attr recompute recompute_comm_op related_fusion_key
related_node_id self_define_shard slice_activation stage strategy_gen_mode
"""
"""Gradients, and how training was spread over devices, stages and memory, which the nodes already say."""
_OF_CONVERTER = """
deviceType fmk fmk_type graph_name infer_done is_optimized original_op_name OriginalFormat output_Names
outputs_format quant_param quant_params quant_type quantType trainOp
"""
"""Notes of MindSpore Lite's converter."""
WITHOUT_EFFECT = frozenset(f"{_OF_COMPILERS} {_OF_TRAINING} {_OF_CONVERTER}".split())
"""Attributes of any primitive that say nothing of what it computes."""


class Signature(NamedTuple):
    """The arguments of a primitive and their defaults, `GIVEN` or `DERIVED` where they have none."""

    inputs: Mapping[str, object]
    """Those that are inputs of a node, in order."""
    defaults: Mapping[str, object]
    """Those of all arguments: MindSpore has moved some from attributes to inputs."""
    attributes: Collection[str]
    """Those that are attributes of a node."""
    kinds: Mapping[str, str]
    """The type of each argument: "tensor", "int", "ints" and so on, "" where nothing tells."""
    moved: Collection[str]
    """The inputs that were attributes in MindSpore 2.0."""


@cache
def find(dialect: Dialect, name: str) -> Signature | None:
    """The signature of a primitive, None where its dialect does not define it."""
    start = _text().find(f'["{dialect.value}", "{name}", ')
    if start < 0:
        return None
    row: dict[str, Any] = json.JSONDecoder().raw_decode(_text(), start)[0][2]
    inputs, attributes = (
        {name: default[0] if default else GIVEN for name, _, *default in row.get(part, ())}
        for part in ("inputs", "attributes")
    )
    added = {
        n: value[0] if value else DERIVED for n, *value in (*row.get("older", ()), *row.get("derived", ()))
    }
    kinds = {name: kind for part in ("inputs", "attributes") for name, kind, *_ in row.get(part, ())}
    moved = tuple(inputs)[len(inputs) - row.get("moved", 0) :]
    return Signature(inputs, added | attributes | inputs, attributes.keys(), kinds, moved)


def is_argument(name: str) -> bool:
    """True for the name of any argument of any primitive; attributes of other names are users' notes."""
    return f"[{json.dumps(name)}" in _text()


@cache
def _text() -> str:
    return Path(__file__).with_name("signatures.jsonl").read_text(encoding="utf-8")


def same(value: object, default: object) -> bool:
    """Return whether a value that a file gives is the default.

    One number stands for a tuple of it, and float32 is as exact as a file is.
    """
    if value is None:
        return True
    if isinstance(default, dict):
        ((name, number),) = default.items()
        return _plain(value) in (number, name.casefold())
    if isinstance(value, np.ndarray):
        value = tuple(value.flat) if value.ndim else value.item()
    if isinstance(default, list):
        values = value if isinstance(value, tuple) else (value,) * len(default)
        return value == tuple(default) or (
            len(values) == len(default) > 0 and all(map(same, values, default))
        )
    if isinstance(value, tuple):
        return all(same(item, default) for item in value)
    return bool(_plain(value) == _plain(default))


def _plain(value: Any) -> Any:
    if isinstance(value, ir.DataType):
        return value.numpy().name
    if isinstance(value, float | np.floating):
        return np.float32(value)
    return value.casefold() if isinstance(value, str) else value
