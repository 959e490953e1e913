"""Rewrites of forms that onnxruntime refuses, or for which a faster form was measured.

A rule examines one node and its neighbors. It writes nodes as a lowering does, and returns the value that
replaces the node's first output; None leaves the node unchanged. `RULES` lists the rules by operator. Results
stay the same except for the rounding of floats. docs/performance.md has what each gains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from pinnace.engines.onnxruntime.rules.attention import attention
from pinnace.engines.onnxruntime.rules.gelu import gelu
from pinnace.engines.onnxruntime.rules.norm import (
    batch_norm_of_merged,
    group_norm,
    layer_norm,
    root_mean_square,
    scale_of_channels,
    scaled_layer_norm,
)
from pinnace.engines.onnxruntime.rules.pool import average_pool
from pinnace.engines.onnxruntime.rules.product import product_of_three, sum_of_rows
from pinnace.engines.onnxruntime.rules.quantized import activation_of_integers, bias_of_integers
from pinnace.engines.onnxruntime.rules.refused import (
    log_of_sigmoid,
    mean_variance,
    of_exact_sigmoid,
    pool_of_nothing,
    prelu_of_integers,
    product_with_vector,
    reduction_of_nothing,
    resize_of_all_axes,
    same_as_pads,
    same_with_holes,
    signed_steps,
)
from pinnace.engines.onnxruntime.rules.scales import (
    dequantized_in_floats,
    quantized_in_floats,
    with_zero_point,
)
from pinnace.engines.onnxruntime.rules.signs import OPERATORS, unsigned_bytes, unsigned_step
from pinnace.engines.onnxruntime.rules.softplus import faster_mish, faster_softplus
from pinnace.graph.builder import Builder
from pinnace.graph.editor import Editor
from pinnace.graph.failures import MISFITS, Unsupported
from pinnace.graph.inference import OPSET, opset_of
from pinnace.graph.traits import Trait, having
from pinnace.graph.walk import nodes
from pinnace.lowering.plan import PLANNED

Rule = Callable[[Builder, ir.Node], ir.Value | None]

REFUSED: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(OPERATORS, (unsigned_bytes,)),
    "Conv": (same_as_pads, same_with_holes),
    "ConvInteger": (same_as_pads, unsigned_bytes),
    "DequantizeLinear": (dequantized_in_floats, signed_steps, unsigned_step, with_zero_point),
    "Div": (of_exact_sigmoid,),
    "Log": (log_of_sigmoid,),
    "MatMul": (product_with_vector,),
    "MeanVarianceNormalization": (mean_variance,),
    "PRelu": (prelu_of_integers,),
    "Pow": (of_exact_sigmoid,),
    "QuantizeLinear": (quantized_in_floats,),
    "Reciprocal": (of_exact_sigmoid,),
    "Resize": (resize_of_all_axes,),
    "Sqrt": (of_exact_sigmoid,),
    **dict.fromkeys(("AveragePool", "MaxPool"), (same_as_pads, pool_of_nothing)),
    "GlobalAveragePool": (pool_of_nothing,),
    "LpPool": (same_as_pads,),
    **dict.fromkeys(having(Trait.REDUCING), (reduction_of_nothing,)),
}
"""Rules without which models do not run, or compute wrongly; they also apply to planned nodes."""

RULES: dict[str, tuple[Rule, ...]] = {
    "Add": (scaled_layer_norm, scale_of_channels),
    "AveragePool": (average_pool,),
    "Div": (layer_norm,),
    "Gemm": (bias_of_integers,),
    "GroupNormalization": (group_norm,),
    "MatMul": (product_of_three,),
    "Mul": (layer_norm, scaled_layer_norm, root_mean_square, gelu),
    "QuantizeLinear": (activation_of_integers,),
    "ReduceL2": (sum_of_rows,),
    "ReduceMean": (sum_of_rows,),
    "ReduceSum": (sum_of_rows,),
    "ReduceSumSquare": (sum_of_rows,),
    "Reshape": (batch_norm_of_merged,),
    "Transpose": (attention,),
}

ON_CPU: dict[str, tuple[Rule, ...]] = {
    "Mish": (faster_mish,),
    "Softplus": (faster_softplus,),
}
"""Rules that apply to the CPU only: accelerators have fast kernels of their own."""

_BLOCKS: dict[str, tuple[Rule, ...]] = {
    "Add": (scaled_layer_norm,),
    "Div": (layer_norm,),
    "Mul": (layer_norm, scaled_layer_norm, gelu),
}
"""Rules that write one operator of ONNX, which MindSpore has too, for many."""

_SINCE: dict[Rule, int] = {
    activation_of_integers: 11,  # bounds of a Clip were attributes
    batch_norm_of_merged: 9,  # statistics could be those of every element
    bias_of_integers: 11,  # a Gemm had to have a bias
    gelu: 20,  # there was no Gelu; onnxruntime fuses its own
    layer_norm: 17,  # likewise
    group_norm: 21,  # factors and offsets were those of groups
    pool_of_nothing: 14,  # a Reshape could not make a dimension of 0
    quantized_in_floats: 13,  # there was one scale, and bounds of a Clip were attributes
    same_with_holes: 15,  # Pad had attributes, and Shape gave all dimensions
}
"""The first ONNX operator set whose operators a rule understands; 7 for all other rules, the oldest that
onnxruntime runs."""


def rewrite(model: ir.Model, on_cpu: bool = True) -> Counter[str]:
    """Apply the rules to every node of a model, once and in order.

    Returns how often each of the faster ones applied.
    """
    model.opset_imports.setdefault("com.microsoft", 1)
    return _rewritten(Editor(model, "%fused"), REFUSED, RULES | ON_CPU if on_cpu else RULES)


def fuse_blocks(model: ir.Model) -> None:
    """Write GELU and normalization of layers as one node each, for formats without operator sets."""
    _rewritten(Editor(model, "%fused", max(OPSET, opset_of(model))), {}, _BLOCKS)


def _rewritten(
    b: Editor, needed: Mapping[str, Sequence[Rule]], rules: Mapping[str, Sequence[Rule]]
) -> Counter[str]:
    applied: Counter[str] = Counter()
    for node in list(nodes(b.model.graph)):
        if node.domain:
            continue
        refused = needed.get(node.op_type, ())
        faster = () if PLANNED in node.meta else rules.get(node.op_type, ())
        for rule in (*refused, *faster):
            replacement = _applied(rule, b, node) if _SINCE.get(rule, 0) <= b.opset else None
            if replacement is not None:
                b.put_before(node, replacement)
                applied[rule.__name__] += rule not in refused
                break
    b.finish()
    return +applied


def _applied(rule: Rule, b: Editor, node: ir.Node) -> ir.Value | None:
    if node.graph is None:  # an earlier rule removed it
        return None
    b.follow(node)
    try:
        return rule(b, node)
    except (Unsupported, *MISFITS):  # a shape is unknown, or the graph is invalid, which the engine reports
        return None
