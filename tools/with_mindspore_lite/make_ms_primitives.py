"""Write `.ms` files of one primitive each, for those that the converter hardly ever writes.

    python tools/with_mindspore_lite/make_ms_primitives.py FOLDER        # needs flatbuffers, numpy and pinnace's schema

Each NAME.ms has a NAME.npz with inputs x0... `make_ms_primitive_goldens.py` adds what MindSpore Lite's own
runtime gives. For the cases that it cannot run, the outputs y0.. are there already, computed here with numpy
from what is documented of the primitive (`expect`).
"""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ms_file = runpy.run_path(str(Path(__file__).parents[2] / "tests/formats/conftest.py"))["ms_file"]

RANDOM = np.random.default_rng(3)
NUMBERS = {
    "b": (30, "?"),
    "i1": (32, "i1"),
    "i": (34, "<i4"),
    "l": (35, "<i8"),
    "f": (43, "<f4"),
    "u1": (37, "u1"),
}
"""Letters for element types: their number in a file, and numpy's name."""
KINDS = {np.dtype(name): number for number, name in NUMBERS.values()}
NHWC = 1


class Const(NamedTuple):
    """An input that the file holds."""

    array: np.ndarray


class Quant(NamedTuple):
    """An int8 tensor, with what it stands for: one pair, or one for each index of its first axis."""

    array: np.ndarray | None
    scale: tuple[float, ...]
    zero: tuple[int, ...]


@dataclass
class Case:
    """Nodes are (primitive, attributes, inputs, outputs); tensors are named."""

    nodes: list[tuple[str, dict[str, Any], list[str], list[str]]]
    tensors: dict[str, Any]
    results: dict[str, Any]
    expect: Callable[..., Any] | None
    node: dict[str, Any]
    oracle: bool = True
    graphs: Sequence[tuple[list[str], list[str], list[int]]] = ()


CASES: dict[str, Case] = {}


def case(name, primitive, attributes=None, *inputs, out="f", expect=None, oracle=True):
    """A case of one node: inputs are arrays or `Const`s, `out` has a letter for each output's type.

    `oracle` False: MindSpore Lite's runtime runs it, and not to what is documented of the primitive.
    """
    names = [f"x{i}" for i in range(len(inputs))]
    results = {f"y{i}": kind for i, kind in enumerate(out.split())}
    nodes = [(primitive, attributes or {}, names, list(results))]
    CASES[name] = Case(nodes, dict(zip(names, inputs, strict=True)), results, expect, {}, oracle)


def nodes_case(name, nodes, tensors, results, expect=None, graphs=(), **fields):
    """A case of several nodes; `graphs` has (inputs, outputs, nodes) of sub-graphs, `fields` are those of nodes."""
    CASES[name] = Case(nodes, tensors, results, expect, fields, graphs=graphs)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int32)


def floats(*values):
    return np.array(values, np.float32)


def constants(*values):
    return Const(ints(*values))


def tensor_fields(name, value):
    if isinstance(value, str):
        return {"name": name, "dataType": NUMBERS[value][0], "dims": [-1], "nodeType": 3, "format": NHWC}
    quant = value if isinstance(value, Quant) else None
    array = value if isinstance(value, np.ndarray) else value.array
    fields = {"name": name, "nodeType": 2 if is_input(value) else 0, "format": NHWC}
    if quant is not None:
        pairs = zip(quant.scale, quant.zero, strict=True)
        fields["quantParams"] = [{"scale": s, "zeroPoint": z, "inited": True} for s, z in pairs]
    if array is None:
        return {**fields, "nodeType": 2, "dataType": 32, "dims": [-1]}
    fields |= {"dataType": KINDS[array.dtype], "dims": list(array.shape)}
    return fields if isinstance(value, np.ndarray) else {**fields, "data": array.tobytes()}


def is_input(value) -> bool:
    return isinstance(value, np.ndarray)


def file_of(one: Case) -> bytes:
    tensors = {**one.tensors, **one.results}
    place = {name: i for i, name in enumerate(tensors)}
    nodes = [
        {
            "name": f"{primitive}-{i}",
            "primitive": {"value": (primitive, attributes)},
            "inputIndex": [place[n] for n in inputs],
            "outputIndex": [place[n] for n in outputs],
            **one.node,
        }
        for i, (primitive, attributes, inputs, outputs) in enumerate(one.nodes)
    ]
    inputs = [n for n, v in one.tensors.items() if is_input(v)]
    outputs = [n for n in one.results if n.startswith("y")]
    taken = {i for _, _, own in one.graphs for i in own}
    whole = (inputs, outputs, [i for i in range(len(nodes)) if i not in taken])
    graphs = [
        {
            "name": f"graph{i}",
            "inputIndices": [place[n] for n in ins],
            "outputIndices": [place[n] for n in outs],
            "nodeIndices": own,
            "tensorIndices": list(range(len(tensors))),
        }
        for i, (ins, outs, own) in enumerate([whole, *one.graphs])
    ]
    return ms_file(
        name="primitive",
        version="2.0.0",
        fmkType=3,
        inputIndex=graphs[0]["inputIndices"],
        outputIndex=graphs[0]["outputIndices"],
        nodes=nodes,
        allTensors=[tensor_fields(n, v) for n, v in tensors.items()],
        subGraph=graphs,
    )


def values(one: Case) -> dict[str, np.ndarray]:
    given = [v for v in one.tensors.values() if is_input(v)]
    arrays = {f"x{i}": v for i, v in enumerate(given)}
    if one.expect is None:
        return arrays
    every = [v if isinstance(v, np.ndarray) else v.array for v in one.tensors.values()]
    result = one.expect(*every)
    parts = result if isinstance(result, tuple) else (result,)
    kinds = [NUMBERS[kind][1] for name, kind in one.results.items() if name.startswith("y")]
    return arrays | {f"y{i}": np.asarray(y, k) for i, (y, k) in enumerate(zip(parts, kinds, strict=True))}


IMAGE = normal(1, 4, 6, 3)  # channels last
BLOCK = normal(2, 3, 4)
COUNT = RANDOM.integers(-9, 9, (2, 3, 4)).astype(np.int32)
TRUTH = BLOCK > 0


def adder(x, w, bias):
    around = np.pad(x[0], ((1, 1), (1, 1), (0, 0)))
    places = [[around[i : i + 3, j : j + 3] for j in range(6)] for i in range(4)]
    return np.array([[[[-abs(p - k).sum() for k in w] for p in row] for row in places]], np.float32) + bias


def affine(x, w, bias):
    return np.maximum(np.stack([np.concatenate(x[0, t : t + 3]) for t in range(3)]) @ w.T + bias, 0)[None]


def spectrogram(x):
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8)
    return np.stack([abs(np.fft.rfft(x[t : t + 8].T * window)) ** 2 for t in (0, 4, 8, 12)], 1)


def mfcc(power, rate):
    """As TensorFlow's: every bin gives to the two filters that its frequency lies between."""
    centers = [
        1127 * math.log1p(20 / 700) + (i + 1) * (1127 * math.log(47 / 7 / (1 + 20 / 700))) / 7
        for i in range(7)
    ]
    energies = np.zeros((3, 6))
    for i in range(1, 17):
        mel = 1127 * math.log1p(i * 250 / 700)
        channel = sum(c < mel for c in centers)
        before = centers[channel - 1] if channel else 1127 * math.log1p(20 / 700)
        share = (centers[min(channel, 6)] - mel) / (centers[min(channel, 6)] - before) if channel < 7 else 0
        root = np.sqrt(power[0, :, i])
        if 0 <= channel - 1 < 6:
            energies[:, channel - 1] += share * root
        if channel < 6:
            energies[:, channel] += (1 - share) * root
    transform = np.cos(np.pi / 6 * np.outer(np.arange(6) + 0.5, np.arange(4))) * math.sqrt(2 / 6)
    return (np.log(np.maximum(energies, 1e-12)) @ transform)[None]


def group_norm(x, scale, bias):
    parts = x.reshape(2, 2, -1)
    parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-4)
    return parts.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


case("add_n", "AddN", {}, BLOCK, BLOCK * 2, BLOCK + 1)
case(
    "all", "All", {"keep_dims": 1}, TRUTH, constants(1), out="b", expect=lambda x, a: x.all(1, keepdims=True)
)
case("arg_min", "ArgMinFusion", {"axis": 1, "top_k": 1, "keep_dims": True}, BLOCK, out="i")
case("batch_norm", "BatchNorm", {"epsilon": 1e-3}, IMAGE, Const(normal(3)), Const(abs(normal(3)) + 0.5))
case(
    "fused_batch_norm",
    "FusedBatchNorm",
    {"epsilon": 1e-3},
    IMAGE,
    *(Const(v) for v in (normal(3), normal(3), normal(3), abs(normal(3)) + 0.5)),
)
case("bias_add", "BiasAdd", {"format": NHWC}, IMAGE, Const(normal(3)))
case("crop", "Crop", {"axis": 1, "offsets": [1, 2, 0]}, IMAGE, normal(1, 2, 3, 3))
case("elu", "Elu", {"alpha": 0.7}, BLOCK, expect=lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)))
case(
    "leaky_relu",
    "LeakyRelu",
    {"negative_slope": 0.2},
    BLOCK,
    expect=lambda x: np.where(x > 0, x, np.float32(0.2) * x),
)
case("expand_dims", "ExpandDims", {}, BLOCK, constants(1))
case("floor_div_f", "FloorDiv", {}, BLOCK * 5, BLOCK + 3)
case("floor_mod", "FloorMod", {}, BLOCK * 5, BLOCK + 3)
case("fill", "Fill", {}, floats(2.5), constants(2, 3))
case("fill_v2", "FillV2", {}, constants(2, 3), floats(2.5), expect=lambda s, v: np.full(s, v[0]))
case(
    "full_connection",
    "FullConnection",
    {"has_bias": True, "axis": 1, "use_axis": True},
    BLOCK,
    Const(normal(5, 12)),
    Const(normal(5)),
)
for n in ("GreaterEqual", "LessEqual", "NotEqual"):
    case(n.lower(), n, {}, COUNT, COUNT[::-1].copy(), out="b")
    case(f"{n.lower()}_f", n, {}, BLOCK, np.where(TRUTH, BLOCK, 0), out="b")
case(
    "layer_norm",
    "LayerNormFusion",
    {"begin_norm_axis": 2, "begin_params_axis": 2, "epsilon": 1e-4, "elementwise_affine": True},
    BLOCK,
    Const(normal(4)),
    Const(normal(4)),
)
case(
    "layer_norm_2",
    "LayerNormFusion",
    {"begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-4, "elementwise_affine": True},
    BLOCK,
    Const(normal(3, 4)),
    Const(normal(3, 4)),
)
case(
    "group_norm",
    "GroupNormFusion",
    {"num_groups": 2, "epsilon": 1e-4, "affine": True},
    normal(2, 4, 3, 5),
    Const(normal(4)),
    Const(normal(4)),
    expect=group_norm,
)
case("real_div", "RealDiv", {}, BLOCK, BLOCK[::-1] + 4)
case("size", "Size", {}, BLOCK, out="i")
case("ones_like", "OnesLike", {}, BLOCK)
case("zeros_like", "ZerosLike", {}, BLOCK)
case("rsqrt", "Rsqrt", {}, abs(BLOCK) + 0.1)
case("square", "Square", {}, BLOCK)
case("squared_difference", "SquaredDifference", {}, BLOCK, BLOCK[::-1] + 1)
case("log1p", "Log1p", {}, abs(BLOCK))
case("is_finite", "IsFinite", {}, np.where(TRUTH, BLOCK, np.inf).astype(np.float32), out="b")
case("erf", "Erf", {}, BLOCK)
case("depend", "Depend", {}, BLOCK, BLOCK + 1, expect=lambda x, y: x)
case("dropout", "Dropout", {"keep_prob": 0.5}, BLOCK, out="f", expect=lambda x: x)
case("select", "Select", {}, TRUTH, BLOCK, BLOCK[::-1] + 4)
case("reverse", "ReverseV2", {"axis": [1]}, BLOCK)
case("reverse_sequence", "ReverseSequence", {"seq_dim": 1, "batch_dim": 0}, BLOCK, ints(2, 3))
case("stack", "Stack", {"axis": 1}, BLOCK, BLOCK + 1)
case("unstack", "Unstack", {"axis": 1}, BLOCK, out="f f f")
case("non_zero_l", "NonZero", {}, TRUTH, out="l", expect=lambda x: np.argwhere(x))
case("unique", "Unique", {}, floats(3, 1, 3, 2, 1), out="f i")
case(
    "segment_sum",
    "UnsortedSegmentSum",
    {},
    BLOCK,
    ints(1, 0),
    constants(3),
    expect=lambda x, i, n: np.stack([x[1], x[0], 0 * x[0]]),
)
case("scatter_nd", "ScatterNd", {}, ints(0, 2).reshape(2, 1), normal(2, 4), constants(3, 4))
case("tensor_scatter_add", "TensorScatterAdd", {}, normal(3, 4), ints(0, 2).reshape(2, 1), normal(2, 4))
case(
    "scatter_elements",
    "ScatterElements",
    {"axis": 1},
    BLOCK,
    np.ones((2, 1, 4), np.int32),
    normal(2, 1, 4),
    expect=lambda x, i, u: np.concatenate([x[:, :1], u, x[:, 2:]], 1),
)
case("one_hot", "OneHot", {"axis": -1}, ints(1, 0, 2), constants(4), Const(floats(2)), Const(floats(-1)))
case("one_hot_0", "OneHot", {"axis": 0}, ints(1, 0, 2), constants(4), Const(floats(2)), Const(floats(-1)))
case("cum_sum", "CumSum", {"exclusive": True, "reverse": True}, BLOCK, constants(1))
case("clip", "Clip", {"min": -0.5, "max": 0.5}, BLOCK, expect=lambda x: x.clip(-0.5, 0.5))
case("invert_permutation", "InvertPermutation", {}, ints(2, 0, 3, 1), out="i")
case("glu", "GLU", {"axis": -1}, BLOCK)
case("glu_1", "GLU", {"axis": 1}, normal(2, 4, 3))
case("floor_div", "FloorDiv", {}, abs(COUNT), abs(COUNT[::-1]) + 1, out="i")
case(
    "lin_space",
    "LinSpace",
    {},
    floats(1),
    floats(3),
    constants(5),
    expect=lambda a, b, n: np.linspace(1, 3, 5),
)
case("rank", "Rank", {}, BLOCK, out="i", expect=lambda x: np.int32(3), oracle=False)
for name, shape in (("triu", (4, 5)), ("tril", (2, 4, 3))):
    case(name, name.capitalize(), {}, normal(*shape))
    case(f"{name}_k", name.capitalize(), {}, normal(*shape), constants(1))
case(
    "space_to_batch",
    "SpaceToBatch",
    {"block_size": [2, 3], "paddings": {"data": [{"data": [0, 0]}, {"data": [0, 0]}]}},
    IMAGE,
)
case(
    "space_to_batch_pad",
    "SpaceToBatchND",
    {"block_shape": [2, 2], "paddings": {"data": [{"data": [1, 1]}, {"data": [0, 2]}]}},
    IMAGE,
)
case(
    "batch_to_space",
    "BatchToSpace",
    {"block_size": [2, 2], "crops": {"data": [{"data": [0, 0]}, {"data": [0, 0]}]}},
    normal(4, 2, 3, 3),
)
case(
    "batch_to_space_crop",
    "BatchToSpaceND",
    {"block_shape": [2, 2], "crops": {"data": [{"data": [1, 0]}, {"data": [0, 2]}]}},
    normal(4, 2, 3, 3),
    expect=lambda x: x.reshape(2, 2, 1, 2, 3, 3).transpose(2, 3, 0, 4, 1, 5).reshape(1, 4, 6, 3)[:, 1:, :-2],
)
case(
    "crop_and_resize",
    "CropAndResize",
    {"method": 0, "extrapolation_value": 0.5},
    normal(2, 5, 6, 3),
    floats(0, 0, 1, 1, 0.1, 0.2, 0.8, 0.7).reshape(2, 4),
    ints(0, 1),
    constants(3, 4),
)
case("slice_fusion", "SliceFusion", {"axes": [0, 1, 2]}, BLOCK, constants(0, 1, 1), constants(2, 2, -1))
case(
    "slice_axes",
    "SliceFusion",
    {"axes": [1, 2]},
    BLOCK,
    constants(1, 1),
    constants(2, 2),
    expect=lambda x, i, n: x[:, 1:3, 1:3],
)
case("l2_normalize", "L2NormalizeFusion", {"axis": [-1], "epsilon": 1e-6}, BLOCK)
case(
    "l2_normalize_relu",
    "L2NormalizeFusion",
    {"axis": [0, 1, 2], "epsilon": 1e-6, "activation_type": 1},
    BLOCK,
)
case(
    "lp_normalize_1",
    "LpNormalization",
    {"axis": 1, "p": 1},
    BLOCK,
    expect=lambda x: x / abs(x).sum(1, keepdims=True),
)
case(
    "lp_normalize_2",
    "LpNormalization",
    {"axis": 1, "p": 2},
    BLOCK,
    expect=lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
)
case(
    "embedding_lookup",
    "EmbeddingLookupFusion",
    {"max_norm": 0.0},
    normal(4, 3),
    normal(3, 3),
    ints(0, 5, 6, 3),
)
case(
    "hashtable_lookup",
    "HashtableLookup",
    {},
    ints(4, 1, 7),
    ints(1, 4, 9),
    normal(3, 2),
    out="f u1",
    expect=lambda x, k, v: (v[[1, 0, 2]] * [[1], [1], [0]], np.uint8([1, 1, 0])),
)
case(
    "prior_box",
    "PriorBox",
    {
        "min_sizes": [4],
        "max_sizes": [7],
        "aspect_ratios": [2.0, 3.0],
        "variances": [0.1, 0.1, 0.2, 0.2],
        "clip": True,
        "flip": True,
        "offset": 0.5,
    },
    normal(1, 2, 3, 4),
    normal(1, 16, 24, 3),
)
case(
    "prior_box_step",
    "PriorBox",
    {
        "min_sizes": [4],
        "max_sizes": [],
        "aspect_ratios": [1.0, 2.0],
        "variances": [0.1, 0.1, 0.2, 0.2],
        "step_w": 8.0,
        "step_h": 7.0,
        "offset": 0.5,
    },
    normal(1, 2, 3, 4),
    normal(1, 16, 24, 3),
)
case(
    "roi_pooling",
    "ROIPooling",
    {"pooled_h": 2, "pooled_w": 3, "scale": 0.5},
    normal(1, 8, 9, 2),
    floats(0, 0, 0, 10, 8, 0, 2, 4, 14, 12).reshape(2, 5),
)
case(
    "sparse_to_dense",
    "SparseToDense",
    {},
    ints(0, 1, 2, 3).reshape(2, 2),
    constants(3, 4),
    Const(floats(5, 6)),
    Const(floats(-1)),
    expect=lambda *a: np.array([[-1, 5, -1, -1], [-1] * 4, [-1, -1, -1, 6]], np.float32),
    oracle=False,
)
case(
    "sparse_to_dense_1",
    "SparseToDense",
    {},
    ints(0, 3),
    constants(5),
    Const(ints(5, 6)),
    Const(ints(-1)),
    out="i",
    expect=lambda *a: ints(5, -1, -1, 6, -1),
)
case(
    "sparse_reshape",
    "SparseReshape",
    {},
    ints(0, 0, 1, 2, 1, 3).reshape(3, 2),
    ints(2, 4),
    ints(4, -1),
    out="i i",
)
case("sparse_segment_sum", "SparseSegmentSum", {}, normal(5, 3), ints(4, 0, 2, 1), ints(0, 0, 2, 3))
case(
    "sparse_fill",
    "SparseFillEmptyRows",
    {},
    ints(0, 1, 2, 0, 2, 3).reshape(3, 2),
    floats(1, 2, 3),
    ints(5, 4),
    floats(-1),
    out="i f b i",
)
case(
    "splice",
    "Splice",
    {"context": [-1, 0, 1], "forward_indexes": [0, 1, 2, 1, 2, 3, 2, 3, 4], "output_dim": 9},
    normal(1, 5, 3),
)
case(
    "splice_forward",
    "Splice",
    {"context": [-2, 0, 2], "forward_indexes": [2, 3, 4], "output_dim": 9},
    normal(1, 7, 3),
)
case(
    "affine",
    "Affine",
    {"context": [-1, 0, 1], "output_dim": 4, "activation_type": 1, "transpose_b": True},
    normal(1, 5, 3),
    Const(normal(4, 9)),
    Const(normal(4)),
    expect=affine,
)
case(
    "split_overlap",
    "SplitWithOverlap",
    {"split_dim": 1, "number_split": 2, "ratio": [1, 1], "extend_top": [0, 1], "extend_bottom": [1, 0]},
    normal(1, 8, 3, 2),
    out="f f",
)
case("ragged_range", "RaggedRange", {}, ints(0, 5, 8), ints(3, 5, 2), ints(1, 1, -2), out="i i")
case(
    "rfft",
    "Rfft",
    {"fft_length": 8},
    normal(2, 8),
    out="f",
    expect=lambda x: (lambda c: np.stack([c.real, c.imag], -1))(np.fft.rfft(x)),
)
case(
    "format_transpose",
    "FormatTranspose",
    {"src_format": 1, "dst_format": 0},
    IMAGE,
    expect=lambda x: x.transpose(0, 3, 1, 2),
)
case(
    "format_transpose_back",
    "FormatTranspose",
    {"src_format": 0, "dst_format": 1},
    IMAGE,
    expect=lambda x: x.transpose(0, 2, 3, 1),
)
case(
    "adder",
    "AdderFusion",
    {
        "format": NHWC,
        "kernel_size": [3, 3],
        "stride": [1, 1],
        "dilation": [1, 1],
        "pad_list": [1, 1, 1, 1],
        "group": 1,
        "in_channel": 3,
        "out_channel": 2,
    },
    IMAGE,
    Const(normal(2, 3, 3, 3)),
    Const(normal(2)),
    expect=adder,
    oracle=False,
)
case(
    "audio_spectrogram",
    "AudioSpectrogram",
    {"window_size": 8, "stride": 4, "mag_square": True},
    normal(20, 2),
    expect=spectrogram,
)
case(
    "mfcc",
    "Mfcc",
    {"freq_upper_limit": 4000.0, "freq_lower_limit": 20.0, "filter_bank_channel_num": 6, "dct_coeff_num": 4},
    abs(normal(1, 3, 33)),
    Const(ints(16000)),
    expect=mfcc,
)
case(
    "detection",
    "DetectionPostProcess",
    {
        "format": NHWC,
        "input_size": 10,
        "scale": [10.0, 10.0, 5.0, 5.0],
        "nms_iou_threshold": 0.5,
        "nms_score_threshold": 0.2,
        "max_detections": 4,
        "detections_per_class": 10,
        "max_classes_per_detection": 1,
        "num_classes": 2,
    },
    normal(1, 6, 4) * 0.3,
    abs(normal(1, 6, 3)) / 3,
    Const(np.concatenate([RANDOM.random((6, 2)), 0.2 + RANDOM.random((6, 2)) / 2], 1).astype(np.float32)),
    out="f f f f",
)
case(
    "detection_regular",
    "DetectionPostProcess",
    {
        "format": NHWC,
        "input_size": 10,
        "scale": [10.0, 10.0, 5.0, 5.0],
        "nms_iou_threshold": 0.5,
        "nms_score_threshold": 0.2,
        "max_detections": 4,
        "detections_per_class": 3,
        "max_classes_per_detection": 1,
        "num_classes": 2,
        "use_regular_nms": True,
    },
    normal(1, 6, 4) * 0.3,
    abs(normal(1, 6, 3)) / 3,
    Const(np.concatenate([RANDOM.random((6, 2)), 0.2 + RANDOM.random((6, 2)) / 2], 1).astype(np.float32)),
    out="f f f f",
)
case(
    "nms",
    "NonMaxSuppression",
    {},
    abs(normal(1, 6, 4)),
    abs(normal(1, 1, 6)),
    constants(3),
    Const(floats(0.5)),
    Const(floats(0)),
    out="i",
)
case(
    "smooth_l1",
    "SmoothL1Loss",
    {"beta": 0.5},
    BLOCK,
    BLOCK[::-1].copy(),
    expect=lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2, abs(x - y) - 0.25),
)
case("nll_loss", "NLLLoss", {"reduction": 1}, normal(4, 3), ints(0, 2, 1, 1), floats(1, 2, 0.5), out="f f")
case(
    "softmax_ce",
    "SoftmaxCrossEntropyWithLogits",
    {},
    normal(4, 3),
    np.eye(3, dtype=np.float32)[[0, 2, 1, 1]],
    out="f f",
    expect=lambda x, t: (-(t * np.log(softmax(x))).sum(-1), softmax(x) - t),
)
case(
    "sparse_softmax_ce",
    "SparseSoftmaxCrossEntropyWithLogits",
    {},
    normal(4, 3),
    ints(0, 2, 1, 1),
    expect=lambda x, t: -np.log(softmax(x))[range(4), t].mean(),
)
case(
    "sigmoid_ce",
    "SigmoidCrossEntropyWithLogits",
    {},
    normal(4, 3),
    abs(normal(4, 3)) / 4,
    expect=lambda x, t: np.maximum(x, 0) - x * t + np.log1p(np.exp(-abs(x))),
)
case(
    "bce",
    "BinaryCrossEntropy",
    {"reduction": 2},
    RANDOM.random((4, 3)).astype(np.float32),
    (normal(4, 3) > 0).astype(np.float32),
    np.ones((4, 3), np.float32),
    expect=lambda p, t, w: -(t * np.log(p) + (1 - t) * np.log(1 - p)),
)
case(
    "fake_quant",
    "FakeQuantWithMinMaxVars",
    {"num_bits": 8},
    BLOCK,
    Const(floats(-1.02)),
    Const(floats(1.53)),
    expect=lambda x, a, b: np.round(x.clip(-1.02, 1.53) / np.float32(0.01)) * np.float32(0.01),
)
for pads, s in (([1, 1, 1, 1], [2, 2]), ([0, 0, 0, 0], [1, 1])):
    case(
        f"max_pool_{s[0]}",
        "MaxPoolFusion",
        {"kernel_size": [3, 2], "strides": s, "pad": pads, "format": NHWC, "round_mode": 1},
        IMAGE,
    )
    case(
        f"avg_pool_{s[0]}",
        "AvgPoolFusion",
        {"kernel_size": [3, 2], "strides": s, "pad": pads, "format": NHWC, "activation_type": 1},
        IMAGE,
    )
case(
    "conv_same",
    "Conv2DFusion",
    {
        "format": NHWC,
        "kernel_size": [3, 3],
        "stride": [2, 2],
        "dilation": [1, 1],
        "pad_mode": 1,
        "group": 1,
        "in_channel": 3,
        "out_channel": 2,
        "activation_type": 3,
    },
    IMAGE,
    Const(normal(2, 3, 3, 3)),
    Const(normal(2)),
)
case("depth_to_space", "DepthToSpace", {"block_size": 2, "format": NHWC, "mode": "CRD"}, normal(1, 2, 3, 8))
case("space_to_depth", "SpaceToDepth", {"block_size": 2, "format": NHWC}, IMAGE)
case(
    "resize_nearest_align",
    "Resize",
    {
        "format": NHWC,
        "method": 1,
        "new_height": 7,
        "new_width": 9,
        "coordinate_transform_mode": 1,
        "nearest_mode": 0,
    },
    IMAGE,
)
case("prelu", "PReLUFusion", {}, IMAGE, Const(normal(3)))
case(
    "scale_nhwc", "ScaleFusion", {"axis": 3, "activation_type": 1}, IMAGE, Const(normal(3)), Const(normal(3))
)
case(
    "instance_norm", "InstanceNorm", {"epsilon": 1e-3}, normal(1, 4, 6, 3), Const(normal(3)), Const(normal(3))
)
case("pad_symmetric", "PadFusion", {"padding_mode": 2}, BLOCK, Const(ints(0, 0, 1, 2, 2, 1).reshape(3, 2)))
case("pad_reflect", "PadFusion", {"padding_mode": 1}, BLOCK, Const(ints(0, 0, 1, 2, 2, 1).reshape(3, 2)))


def gru_case(name, k):
    # Hidden sizes that are no multiple of 8, and batches, come out wrong in release 2.0.0.
    weights = (Const(v) for v in (normal(k, 24, 3), normal(k, 24, 8), normal(k, 48), normal(k, 1, 8)))
    case(name, "GRU", {"bidirectional": k == 2}, normal(3, 1, 3), *weights, out="f f")


gru_case("gru", 1)
gru_case("gru_bi", 2)

# -- int8 throughout: QuantDTypeCast, the operator on integers, QuantDTypeCast ------------------------


def quantized(array, axes):
    """Integers without offset, a scale for each index of the first axis."""
    scale = abs(array).max(axes) / np.float32(127)
    integers = np.round(array / scale.reshape(-1, *[1] * len(axes))).astype(np.int8)
    return Quant(integers, tuple(map(float, scale)), (0,) * len(scale))


def int8_case(name, primitive, attributes, x, weight=None, bias=None, y_scale=0.05, y_zero=-2):
    """x has a scale of 1/40 and an offset of 3."""
    tensors = {"x0": x}
    inputs = ["q"]
    if weight is not None:
        tensors["w"] = quantized(weight, tuple(range(1, weight.ndim)))
        scales = tuple(s * 0.025 for s in tensors["w"].scale)
        integers = np.round(bias / np.float32(scales)).astype(np.int32)
        tensors["b"] = Quant(integers, scales, (0,) * len(scales))
        inputs += ["w", "b"]
    first = ("QuantDTypeCast", {"src_t": 43, "dst_t": 32}, ["x0"], ["q"])
    last = ("QuantDTypeCast", {"src_t": 32, "dst_t": 43}, ["r"], ["y0"])
    results = {"q": Quant(None, (0.025,), (3,)), "r": Quant(None, (y_scale,), (y_zero,)), "y0": "f"}
    nodes = [first, (primitive, attributes, inputs, ["r"]), last]
    nodes_case(name, nodes, tensors, results, quantType=5)


CONV = {
    "format": NHWC,
    "kernel_size": [3, 3],
    "stride": [1, 1],
    "dilation": [1, 1],
    "pad_list": [1, 1, 1, 1],
    "group": 1,
    "in_channel": 3,
    "out_channel": 4,
    "activation_type": 1,
}
int8_case("int8_conv", "Conv2DFusion", CONV, normal(1, 4, 6, 3), normal(4, 3, 3, 3), normal(4), 0.1)
DEPTHWISE = {**CONV, "group": 4, "in_channel": 4, "activation_type": 3}
int8_case(
    "int8_depthwise", "Conv2DFusion", DEPTHWISE, normal(1, 4, 6, 4), normal(4, 3, 3, 1), normal(4), 0.05
)
int8_case("int8_matmul", "MatMulFusion", {"transpose_b": True}, normal(3, 8), normal(5, 8), normal(5), 0.1)
int8_case(
    "int8_max_pool",
    "MaxPoolFusion",
    {"kernel_size": [2, 2], "strides": [2, 2], "pad": [0, 0, 0, 0], "format": NHWC},
    normal(1, 4, 6, 3),
    y_scale=0.025,
    y_zero=3,
)
int8_case("int8_sigmoid", "Activation", {"activation_type": 2}, normal(2, 3, 4), y_scale=1 / 256)

# -- functions ---------------------------------------------------------------------------------------

nodes_case(
    "switch",
    [
        ("PartialFusion", {"sub_graph_index": 1}, ["x1"], ["p"]),
        ("PartialFusion", {"sub_graph_index": 2}, ["x1"], ["q"]),
        ("Switch", {}, ["x0", "p", "q"], ["s"]),
        ("Call", {}, ["s"], ["y0"]),
        ("Abs", {}, ["a"], ["b"]),
        ("Neg", {}, ["c"], ["d"]),
    ],
    {"x0": np.array([False]), "x1": BLOCK},
    {"p": "f", "q": "f", "s": "f", "y0": "f", "a": "f", "b": "f", "c": "f", "d": "f"},
    expect=lambda t, x: -x,
    graphs=[(["a"], ["b"], [4]), (["c"], ["d"], [5])],
)
nodes_case(
    "tensor_list",
    [
        ("TensorListReserve", {"element_dtype": 43}, ["shape", "count"], ["a"]),
        ("TensorListSetItem", {"element_dtype": 43}, ["a", "one", "x0"], ["b"]),
        ("TensorListGetItem", {"element_dtype": 43}, ["b", "one", "shape"], ["y0"]),
        ("TensorListStack", {"element_dtype": 43, "num_elements": 3}, ["b", "shape"], ["y1"]),
        ("TensorListFromTensor", {"element_dtype": 43}, ["x1", "shape"], ["c"]),
        ("TensorListGetItem", {"element_dtype": 43}, ["c", "one", "shape"], ["y2"]),
    ],
    {
        "x0": normal(4),
        "x1": normal(2, 4),
        "shape": constants(4),
        "count": Const(np.int32(3)),
        "one": Const(np.int32(1)),
    },
    {"a": "f", "b": "f", "y0": "f", "y1": "f", "c": "f", "y2": "f"},
    expect=lambda x, z, *rest: (x, np.stack([0 * x, x, 0 * x]), z[1]),
)
nodes_case(
    "tensor_array",
    [
        ("TensorArray", {"element_shape": [4], "data_type": 43}, ["count"], ["h", "f0"]),
        ("TensorArrayWrite", {}, ["h", "one", "x0", "f0"], ["f1"]),
        ("TensorArrayRead", {}, ["h", "one", "f1"], ["y0"]),
    ],
    {"x0": normal(4), "count": Const(np.int32(3)), "one": Const(np.int32(1))},
    {"h": "f", "f0": "f", "f1": "f", "y0": "f"},
    expect=lambda x, *rest: x,
)
nodes_case(
    "spectrum",
    [
        ("Rfft", {"fft_length": 8}, ["x0"], ["c"]),
        ("FftReal", {}, ["c"], ["y0"]),
        ("FftImag", {}, ["c"], ["y1"]),
    ],
    {"x0": normal(2, 6)},
    {"c": "f", "y0": "f", "y1": "f"},
    expect=lambda x: (np.fft.rfft(x, 8).real, np.fft.rfft(x, 8).imag),
)
# Bits of masks count the dimensions of the tensor, not those that are named.
for name, masks in {"begin_end": {"begin_mask": 2, "end_mask": 4}, "shrink": {"shrink_axis_mask": 1}}.items():
    named = (constants(1, 2), constants(3, 4), constants(1, 2), constants(1, 1))
    case(f"strided_axes_{name}", "StridedSlice", masks, normal(3, 4, 5), *named)

# Arguments other than those that the cases above give, as far as the runtime of release 2.0.0 takes them.
for number in (1, 2, 3, 4, 5, 9, 10, 12, 13, 16, 18, 19):
    bounds = {"min_val": -0.5, "max_val": 0.25} if number == 16 else {}
    case(f"activation_{number}", "Activation", {"activation_type": number, "alpha": 0.3, **bounds}, BLOCK * 3)
case("activation_gelu_tanh", "Activation", {"activation_type": 19, "approximate": True}, BLOCK * 3)
for primitive in ("AddFusion", "MulFusion"):  # the runtime ignores those of SubFusion and DivFusion
    case(
        f"{primitive[:3].lower()}_relu6", primitive, {"activation_type": 3}, BLOCK * 5, abs(BLOCK[::-1]) + 0.5
    )
case("all_axes", "All", {"keep_dims": 0}, TRUTH, constants(0, 2), out="b", expect=lambda x, a: x.all((0, 2)))
case("arg_max_last", "ArgMaxFusion", {"axis": -1, "top_k": 1, "keep_dims": False}, BLOCK, out="i")
case("arg_min_first", "ArgMinFusion", {"axis": 0, "top_k": 1, "keep_dims": False}, BLOCK, out="i")
case(
    "arg_max_value", "ArgMaxFusion", {"axis": 1, "top_k": 1, "keep_dims": True, "out_max_value": True}, BLOCK
)
case("clip_high", "Clip", {"min": -0.1, "max": 0.9}, BLOCK, expect=lambda x: x.clip(-0.1, 0.9))
for exclusive, reverse in ((False, False), (True, False), (False, True)):
    attributes = {"exclusive": exclusive, "reverse": reverse}
    case(f"cum_sum_{exclusive:d}{reverse:d}", "CumSum", attributes, BLOCK, constants(2))
for mode in (0, 2):
    case(f"eltwise_{mode}", "Eltwise", {"mode": mode}, BLOCK, BLOCK[::-1].copy())
# The runtime of release 2.0.0 ignores the scale.
exp = {"scale": 0.5, "shift": 0.25}
case(
    "exp_scale",
    "ExpFusion",
    {"base": -1.0, **exp},
    BLOCK,
    expect=lambda x: np.exp(x / 2 + 0.25),
    oracle=False,
)
case("exp_base", "ExpFusion", {"base": 2.0, **exp}, BLOCK, expect=lambda x: 2 ** (x / 2 + 0.25), oracle=False)
case("pow_scale", "PowFusion", {"scale": 2.0, "shift": 0.5}, abs(BLOCK), Const(floats(1.5)))
case(
    "full_connection_relu",
    "FullConnection",
    {"has_bias": True, "axis": 1, "use_axis": True, "activation_type": 1},
    BLOCK,
    Const(normal(5, 12)),
    Const(normal(5)),
)
for axis in (0, 2):
    case(f"gather_{axis}", "Gather", {}, BLOCK, constants(1, 0, 1), constants(axis))
case("lrn_2", "LRN", {"depth_radius": 2, "bias": 1.5, "alpha": 0.2, "beta": 0.6}, normal(1, 3, 4, 7))
case(
    "leaky_relu_3",
    "LeakyRelu",
    {"negative_slope": 0.03},
    BLOCK,
    expect=lambda x: np.where(x > 0, x, np.float32(0.03) * x),
)
case(
    "pad_value",
    "PadFusion",
    {"padding_mode": 0, "constant_value": 1.5},
    BLOCK,
    Const(ints(1, 0, 0, 2, 3, 1).reshape(3, 2)),
)
for mode in (*range(7), 8):  # the runtime takes no maximum below 0
    for end in (False, True):
        attributes = {"mode": mode, "keep_dims": True, "reduce_to_end": end, "coeff": 0.5 if end else 1.0}
        case(
            f"reduce_{mode}{'_end' * end}",
            "ReduceFusion",
            attributes,
            abs(BLOCK) if mode == 1 else BLOCK,
            constants(1),
        )
case("reverse_0_2", "ReverseV2", {"axis": [0, 2]}, BLOCK)
case("reverse_sequence_rows", "ReverseSequence", {"seq_dim": 0, "batch_dim": 1}, BLOCK, ints(2, 1, 2))
case(
    "scatter_elements_0",
    "ScatterElements",
    {"axis": 0},
    BLOCK,
    np.ones((1, 3, 4), np.int32),
    normal(1, 3, 4),
    expect=lambda x, i, u: np.concatenate([x[:1], u]),
)
for axis in (0, 2, -1):
    case(f"stack_{axis}", "Stack", {"axis": axis}, BLOCK, BLOCK + 1)
case("unstack_0", "Unstack", {"axis": 0}, BLOCK, out="f f")
case("top_k_rows", "TopKFusion", {"sorted": True, "axis": -1}, BLOCK, constants(2), out="f i")
for first, second in ((True, False), (False, True), (True, True)):
    a, b = (normal(4, 3) if first else normal(3, 4)), (normal(5, 4) if second else normal(4, 5))
    attributes = {"transpose_a": first, "transpose_b": second, "activation_type": 1}
    case(f"matmul_{first:d}{second:d}", "MatMulFusion", attributes, a, b)
for sizes in ((2, 2), (3, 2)):
    attributes = {
        "kernel_size": list(sizes),
        "strides": [1, 2],
        "pad": [0, 1, 0, 1],
        "format": NHWC,
        "activation_type": 1,
    }
    case(f"max_pool_{sizes[0]}{sizes[1]}", "MaxPoolFusion", attributes, IMAGE)
    case(f"avg_pool_{sizes[0]}{sizes[1]}", "AvgPoolFusion", attributes, IMAGE)
case("space_to_depth_1", "SpaceToDepth", {"block_size": 2, "format": NHWC}, normal(2, 4, 4, 1))
case(
    "depth_to_space_dcr", "DepthToSpace", {"block_size": 2, "format": NHWC, "mode": "DCR"}, normal(1, 2, 3, 8)
)
case(
    "layer_norm_rows",
    "LayerNormFusion",
    {"begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-3, "elementwise_affine": True},
    BLOCK,
    Const(normal(3, 4)),
    Const(normal(3, 4)),
)
case("log_softmax_1", "LogSoftmax", {"axis": 1}, BLOCK)
case("softmax_1", "Softmax", {"axis": [1]}, BLOCK)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, one in CASES.items():
        (folder / f"{name}.ms").write_bytes(file_of(one))
        np.savez(folder / f"{name}.npz", **values(one), **({} if one.oracle else {"own": 1}))
