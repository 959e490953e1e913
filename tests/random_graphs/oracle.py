"""What a graph gives: onnxruntime without any optimization, and how far that may be off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnxruntime as ort
from onnx import GraphProto, ModelProto, helper, numpy_helper

Arrays = Sequence[np.ndarray]

_EXACT = frozenset(
    [
        "Abs",
        "And",
        "ArgMax",
        "ArgMin",
        "BitCast",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "CenterCropPad",
        "Clip",
        "Compress",
        "Concat",
        "ConcatFromSequence",
        "Constant",
        "ConstantOfShape",
        "DepthToSpace",
        "DequantizeLinear",
        "Equal",
        "Expand",
        "EyeLike",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Hardmax",
        "Identity",
        "If",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Loop",
        "Max",
        "MaxPool",
        "MaxUnpool",
        "Min",
        "Neg",
        "NonMaxSuppression",
        "NonZero",
        "Not",
        "OneHot",
        "Optional",
        "OptionalGetElement",
        "OptionalHasElement",
        "Or",
        "Pad",
        "Range",
        "Relu",
        "Reshape",
        "ReverseSequence",
        "Round",
        "Scan",
        "Scatter",
        "ScatterElements",
        "ScatterND",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "Shape",
        "Sign",
        "Size",
        "Slice",
        "SpaceToDepth",
        "Split",
        "SplitToSequence",
        "Squeeze",
        "TensorScatter",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unique",
        "Unsqueeze",
        "Where",
        "Xor",
        "GlobalMaxPool",
        "ReduceMax",
        "ReduceMin",
    ]
)
"""Operators whose results are no matter of rounding. QuantizeLinear is none: engines round halves either way."""

_NOISE = {onnx.TensorProto.FLOAT: 1e-6, onnx.TensorProto.FLOAT16: 4e-3, onnx.TensorProto.DOUBLE: 4e-15}
"""Some ulps of a type: what the order of a sum, or a function of another library, changes."""

_LARGEST = {"Conv": 1, "Gemm": 1, "MatMul": 1, "Erf": 0.1, "Sigmoid": 0.1, "Softmax": 0.1, "Tanh": 0.1}
"""Operators whose errors go by the largest results, in the noise of their type. Kernels for integers round a bias of floats to a step of the product, and there
the noise is 32 times as large. Functions that end at 0 and 1 are exact to a step of 1."""

_NARROW = (onnx.TensorProto.INT4, onnx.TensorProto.UINT4)
"""Types that onnxruntime does not hand out."""

_MIXED = [onnx.TensorProto.INT8, onnx.TensorProto.UINT8]

_SEEDS = range(1, 9)


def session(model: ModelProto, optimized: bool = False) -> ort.InferenceSession:
    """A session of plain onnxruntime, on one thread."""
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 4
    chosen.intra_op_num_threads = 1
    levels = ort.GraphOptimizationLevel
    chosen.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    # As Pinnace has it: sums of bytes are not cut off on processors without VNNI.
    chosen.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model.SerializeToString(), chosen, providers=["CPUExecutionProvider"])


def run(model: ModelProto, feed: Mapping[str, np.ndarray], optimized: bool = False) -> Arrays:
    """The outputs of a model. Raises what onnxruntime raises, and ValueError for what it computes wrongly."""
    every = [node for graph in graphs(model.graph) for node in graph.node]
    if any(map(_has_holes, every)):
        raise ValueError("onnxruntime forgets the dilations of pools with auto_pad")
    if of_bytes := [node for node in every if node.op_type == "ConvInteger"]:
        kinds = _kinds(model)
        if any([kinds.get(name) for name in node.input[:2]] == _MIXED for node in of_bytes):
            raise ValueError("onnxruntime takes the int8 of a ConvInteger with uint8 weights for uint8")
    whole, given = _with_made_outputs(model)
    made = session(whole, optimized)
    wanted = {i.name for i in made.get_inputs()}
    found = made.run(None, {k: v for k, v in feed.items() if k in wanted})
    if any(node.op_type == "MeanVarianceNormalization" for node in every) and any(map(has_nan, found)):
        raise ValueError("onnxruntime's MeanVarianceNormalization of what is constant is NaN")
    given |= feed | dict(zip((o.name for o in whole.graph.output), found, strict=True))
    return [given[o.name] for o in model.graph.output]


def _with_made_outputs(model: ModelProto) -> tuple[ModelProto, dict[str, Any]]:
    """The model with the outputs that nodes make, each once, for onnxruntime leaves others' memory as it is; and
    its constants.
    """
    made = {o for n in model.graph.node for o in n.output}
    outputs = {o.name: o for o in model.graph.output}
    if len(outputs) == len(model.graph.output) and outputs.keys() <= made:
        return model, {}
    whole = ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(o for name, o in outputs.items() if name in made)
    return whole, {i.name: numpy_helper.to_array(i) for i in model.graph.initializer if i.name in outputs}


def has_nan(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and bool(np.isnan(value).any())


def _has_holes(node: onnx.NodeProto) -> bool:
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    pads = given.get("auto_pad", b"").startswith(b"SAME") and node.op_type.endswith("Pool")
    return pads and max(given.get("dilations", [1])) > 1


def between(model: ModelProto, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the nodes give, as far as these are tensors, without those of nested graphs."""
    whole = ModelProto()
    whole.CopyFrom(model)
    kinds = _kinds(model)
    names = [o for n in model.graph.node for o in n.output if o and kinds.get(o) not in _NARROW]
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    try:
        found = run(whole, feed)
    except Exception:
        return {}
    return {n: v for n, v in zip(names, found, strict=True) if isinstance(v, np.ndarray)}


def slack(model: ModelProto, feed: Mapping[str, np.ndarray], expected: Arrays) -> list[np.ndarray | None]:
    """How far each element of each output moves where every inexact step is off by some ulps.

    An element that becomes another number by a jump, or NaN, has infinite slack; None is an output that gets
    another shape. Each noise is there in both directions, so that a step at a threshold is on either side.
    """
    found: list[np.ndarray | None] = [np.zeros(np.shape(y)) for y in expected]
    for seed in _SEEDS:
        for sign in (1, -1):
            moved = run(_noisy(model, seed, sign), feed)
            found = [_wider(s, y, z) for s, y, z in zip(found, expected, moved, strict=True)]
    return found


def _wider(slack: np.ndarray | None, y: np.ndarray, moved: np.ndarray) -> np.ndarray | None:
    if slack is None or np.shape(y) != np.shape(moved):
        return None
    if y.dtype.kind in "biuOSU":
        return np.where(y == moved, slack, np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(y.astype(np.float64) - moved.astype(np.float64))
    same = (y == moved) | (np.isnan(y) & np.isnan(moved))
    off = np.where(same, 0, np.where(np.isfinite(off), off, np.inf))
    return np.maximum(slack, off)


def _noisy(model: ModelProto, seed: int, sign: int) -> ModelProto:
    noisy = onnx.inliner.inline_local_functions(model)
    kinds = _kinds(noisy)
    _add_noise(noisy.graph, kinds, seed, sign, next(o.version for o in model.opset_import if not o.domain))
    return noisy


def _kinds(model: ModelProto) -> dict[str, int]:
    """The element types of values, as far as onnx infers them."""
    found: dict[str, int] = {}
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=False)
    except Exception:
        inferred = model
    for graph in graphs(inferred.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            found[value.name] = value.type.tensor_type.elem_type
        for tensor in graph.initializer:
            found[tensor.name] = tensor.data_type
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                found[node.output[0]] = node.attribute[0].t.data_type
    return found


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and those nested in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def _add_noise(graph: GraphProto, kinds: Mapping[str, int], seed: int, sign: int, opset: int) -> None:
    """Put noise on what each inexact node reads and gives."""
    nodes = list(graph.node)
    quantized = any(node.op_type == "QuantizeLinear" for node in nodes)
    makers = {o: node for node in nodes for o in node.output}
    del graph.node[:]
    for number, node in enumerate(nodes):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _add_noise(attribute.g, kinds, seed, sign, opset)
        if node.op_type in _EXACT:
            graph.node.append(node)
            continue
        roundings = [_rounding(node, place, makers) for place in range(len(node.input))]
        for place, name in enumerate(node.input):
            if kinds.get(name) in _NOISE and (node.op_type, place) != ("Resize", 2):
                share, of = roundings[place]
                prefix = f"{name}.{number}.{place}"
                made = _shaken(name, prefix, kinds[name], seed + 7 * place, sign, opset, share, of)
                graph.node.extend(made)
                node.input[place] = made[-1].output[0]
        after = []
        for place, name in enumerate(node.output):
            if kinds.get(name) in _NOISE and (node.op_type, place) != ("Resize", 2):
                node.output[place] = f"{name}.exact"
                made = _shaken(
                    f"{name}.exact",
                    f"{name}.",
                    kinds[name],
                    seed + 7 * place + 3,
                    sign,
                    opset,
                    _LARGEST.get(node.op_type, 0) * (32 if quantized else 1),
                )
                made[-1].output[0] = name
                after += made
        graph.node.extend([node, *after])


def _rounding(
    node: onnx.NodeProto, place: int, makers: Mapping[str, onnx.NodeProto]
) -> tuple[float, Sequence[str]]:
    """How far kernels of integers round an input of floats: a share of the noise, and the values it goes by."""

    def step(name: str) -> onnx.NodeProto | None:
        made = makers.get(name)
        while made is not None and made.op_type in ("Transpose", "Reshape"):
            made = makers.get(made.input[0])
        return made if made is not None and made.op_type == "DequantizeLinear" else None

    if node.op_type == "QuantizeLinear" and place == 0:
        made = makers.get(node.input[0])
        # Errors of OpenVINO's go by the limits of the type; `QLinearSoftmax` takes 1 for a whole number of steps.
        return 1 / 1e-6 if made is not None and made.op_type == "Softmax" else 128, node.input[1:2]
    if node.op_type in ("Conv", "ConvTranspose", "Gemm") and place == 2:
        x, weight = map(step, node.input[:2])
        if x and weight:  # a bias is rounded to the product of the steps
            return 1 / 1e-6, (x.input[1], weight.input[1])
    return 0, ()


def _shaken(
    name: str,
    prefix: str,
    kind: int,
    seed: int,
    sign: int,
    opset: int,
    share: float = 0,
    of: Sequence[str] = (),
) -> list[onnx.NodeProto]:
    """Nodes that give `name` times a number near 1 for each element.

    There is noise that goes by a `share` of the largest element, or of the product of those `of` others.
    """
    wide = onnx.TensorProto.DOUBLE
    prefix = f"{prefix}.noise"

    def node(op_type: str, *inputs: str, **attributes: object) -> str:
        made.append(helper.make_node(op_type, list(inputs), [f"{prefix}{len(made)}"], **attributes))
        return made[-1].output[0]

    def number(value: float, dtype: type = np.float64) -> str:
        return node("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    made: list[onnx.NodeProto] = []
    if opset < 22:  # later ones have no kernel
        noise = node("RandomUniformLike", name, low=-1.0, high=1.0, seed=float(seed), dtype=wide)
    else:
        places = node("Range", number(0, np.int64), node("Size", name), number(1, np.int64))
        angles = node("Mul", node("Add", node("Cast", places, to=wide), number(1)), number(12345.678 + seed))
        noise = node("Reshape", node("Sin", angles), node("Shape", name), allowzero=1)
    noise = node("Mul", noise, number(sign * _NOISE[kind]))
    exact = node("Cast", name, to=wide)
    shaken = node("Mul", exact, node("Add", number(1), noise))
    if share:
        noise = node("Mul", noise, number(share))
        for other in of or (name,):
            noise = node(
                "Mul", noise, node("ReduceMax", node("Abs", node("Cast", other, to=wide)), keepdims=0)
            )
        shaken = node("Add", shaken, noise)
    node("Cast", shaken, to=kind)
    return made
