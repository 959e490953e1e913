"""Write small ONNX models of many operators, with what onnxruntime makes of them.

    python tools/with_mindspore_lite/make_lite_models.py FOLDER        # needs onnx and onnxruntime

`make_lite_goldens.py` converts them. Each NAME.onnx has a NAME.npz with inputs x0.. and outputs y0...
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(1)
CASES = {}


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


def case(name, nodes, inputs, weights=None, outputs=1, opset=12):
    """Nodes are (operator, inputs, outputs[, attributes]); outputs are called y, or y0, y1, ..."""
    made = [helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes]
    ports = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for key, value in inputs.items()
    ]
    names = ["y"] if outputs == 1 else [f"y{i}" for i in range(outputs)]
    constants = [numpy_helper.from_array(np.asarray(w), key) for key, w in (weights or {}).items()]
    graph = helper.make_graph(
        made, "g", ports, [helper.make_empty_tensor_value_info(n) for n in names], constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    CASES[name] = onnx.shape_inference.infer_shapes(model), inputs


IMAGE = normal(1, 4, 6, 6)
BLOCK = normal(2, 3, 4)
CONV = {"kernel_shape": [3, 3], "strides": [1, 1], "dilations": [1, 1], "pads": [1] * 4, "group": 1}
for m, c in (
    ("nearest", "asymmetric"),
    ("linear", "half_pixel"),
    ("linear", "align_corners"),
    ("linear", "asymmetric"),
):
    case(
        f"resize_{m}_{c}",
        [
            (
                "Resize",
                ["x", "r", "s"],
                ["y"],
                {"mode": m, "coordinate_transformation_mode": c, "nearest_mode": "floor"},
            )
        ],
        {"x": IMAGE},
        {"r": floats(), "s": floats(1, 1, 2, 2)},
    )
case(
    "resize_sizes",
    [
        (
            "Resize",
            ["x", "r", "r", "z"],
            ["y"],
            {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        )
    ],
    {"x": IMAGE},
    {"r": floats(), "z": ints(1, 4, 9, 7)},
)
case(
    "deconv",
    [("ConvTranspose", ["x", "w", "b"], ["y"], {**CONV, "strides": [2, 2], "output_padding": [1, 1]})],
    {"x": IMAGE},
    {"w": normal(4, 5, 3, 3), "b": normal(5)},
)
case(
    "deconv_group",
    [("ConvTranspose", ["x", "w"], ["y"], {**CONV, "group": 4, "strides": [2, 2]})],
    {"x": IMAGE},
    {"w": normal(4, 1, 3, 3)},
)
case(
    "conv_group",
    [("Conv", ["x", "w", "b"], ["y"], {**CONV, "group": 2})],
    {"x": IMAGE},
    {"w": normal(6, 2, 3, 3), "b": normal(6)},
)
case(
    "conv_dil",
    [("Conv", ["x", "w"], ["y"], {**CONV, "dilations": [2, 2], "pads": [2, 2, 2, 2]})],
    {"x": IMAGE},
    {"w": normal(6, 4, 3, 3)},
)
case(
    "conv1d",
    [
        (
            "Conv",
            ["x", "w"],
            ["y"],
            {"kernel_shape": [3], "strides": [1], "dilations": [1], "pads": [1, 1], "group": 1},
        )
    ],
    {"x": normal(1, 4, 8)},
    {"w": normal(6, 4, 3)},
)
case(
    "bn",
    [("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
    {"x": IMAGE},
    {"s": normal(4), "b": normal(4), "m": normal(4), "v": abs(normal(4))},
)
case(
    "bn_relu",
    [
        ("Conv", ["x", "w"], ["a"], CONV),
        ("BatchNormalization", ["a", "s", "b", "m", "v"], ["c"]),
        ("Relu", ["c"], ["y"]),
    ],
    {"x": IMAGE},
    {"w": normal(4, 4, 3, 3), "s": normal(4), "b": normal(4), "m": normal(4), "v": abs(normal(4))},
)
case("prelu", [("PRelu", ["x", "s"], ["y"])], {"x": IMAGE}, {"s": normal(4, 1, 1)})
case("prelu1", [("PRelu", ["x", "s"], ["y"])], {"x": IMAGE}, {"s": normal(1, 1, 1)})
case(
    "pad",
    [("Pad", ["x", "p", "v"], ["y"])],
    {"x": IMAGE},
    {"p": ints(0, 0, 1, 2, 0, 0, 2, 1), "v": np.float32(2)},
)
case(
    "pad_reflect",
    [("Pad", ["x", "p"], ["y"], {"mode": "reflect"})],
    {"x": IMAGE},
    {"p": ints(0, 0, 1, 2, 0, 0, 2, 1)},
)
case("pad3", [("Pad", ["x", "p"], ["y"])], {"x": BLOCK}, {"p": ints(0, 1, 0, 0, 0, 2)})
case(
    "slice",
    [("Slice", ["x", "s", "e", "a", "t"], ["y"])],
    {"x": IMAGE},
    {"s": ints(1, 0), "e": ints(5, 4), "a": ints(2, 3), "t": ints(2, 1)},
)
case(
    "slice_neg",
    [("Slice", ["x", "s", "e", "a"], ["y"])],
    {"x": BLOCK},
    {"s": ints(-3), "e": ints(-1), "a": ints(2)},
)
case(
    "slice_rev",
    [("Slice", ["x", "s", "e", "a", "t"], ["y"])],
    {"x": BLOCK},
    {"s": ints(-1), "e": ints(-100), "a": ints(1), "t": ints(-1)},
)
case("gather", [("Gather", ["x", "i"], ["y"], {"axis": 1})], {"x": BLOCK}, {"i": ints(2, 0)})
case("gather_scalar", [("Gather", ["x", "i"], ["y"], {"axis": 1})], {"x": BLOCK}, {"i": np.int64(1)})
case("gathernd", [("GatherND", ["x", "i"], ["y"])], {"x": BLOCK}, {"i": np.array([[0, 1], [1, 2]], np.int64)})
case(
    "gatherel",
    [("GatherElements", ["x", "i"], ["y"], {"axis": 1})],
    {"x": BLOCK},
    {"i": np.zeros((2, 2, 4), np.int64)},
)
case("squeeze", [("Squeeze", ["x"], ["y"], {"axes": [1]})], {"x": normal(2, 1, 3)})
case("tile", [("Tile", ["x", "r"], ["y"])], {"x": BLOCK}, {"r": ints(1, 2, 2)})
case("expand", [("Expand", ["x", "s"], ["y"])], {"x": normal(3, 1)}, {"s": ints(2, 3, 4)})
case("topk", [("TopK", ["x", "k"], ["y0", "y1"])], {"x": BLOCK}, {"k": ints(2)}, 2)
case(
    "topk_axis",
    [("TopK", ["x", "k"], ["y0", "y1"], {"axis": 1, "largest": 0})],
    {"x": BLOCK},
    {"k": ints(2)},
    2,
)
case(
    "onehot",
    [("OneHot", ["x", "d", "v"], ["y"])],
    {"x": np.array([1, 0, 2], np.int32)},
    {"d": np.int32(4), "v": floats(0, 1)},
)
case("cumsum", [("CumSum", ["x", "a"], ["y"], {"exclusive": 1})], {"x": BLOCK}, {"a": np.int32(1)})
case(
    "lstm",
    [("LSTM", ["x", "W", "R", "B"], ["y0", "y1", "y2"], {"hidden_size": 5})],
    {"x": normal(4, 2, 3)},
    {"W": normal(1, 20, 3), "R": normal(1, 20, 5), "B": normal(1, 40)},
    3,
)
case(
    "bilstm",
    [("LSTM", ["x", "W", "R", "B"], ["y0", "y1", "y2"], {"hidden_size": 5, "direction": "bidirectional"})],
    {"x": normal(4, 2, 3)},
    {"W": normal(2, 20, 3), "R": normal(2, 20, 5), "B": normal(2, 40)},
    3,
)
case(
    "gru",
    [("GRU", ["x", "W", "R", "B"], ["y0", "y1"], {"hidden_size": 5, "linear_before_reset": 1})],
    {"x": normal(4, 2, 3)},
    {"W": normal(1, 15, 3), "R": normal(1, 15, 5), "B": normal(1, 30)},
    2,
)
case("cast", [("Cast", ["x"], ["y"], {"to": TensorProto.INT32})], {"x": BLOCK * 5})
case("cast_b", [("Cast", ["x"], ["y"], {"to": TensorProto.BOOL})], {"x": BLOCK})
case("castf", [("Cast", ["x"], ["y"], {"to": TensorProto.FLOAT})], {"x": np.arange(6, dtype=np.int32)})
for u in [
    "Neg",
    "Floor",
    "Round",
    "Reciprocal",
    "Sqrt",
    "Exp",
    "HardSigmoid",
    "Sigmoid",
    "Selu",
    "Softsign",
    "Sign",
]:
    case(u.lower(), [(u, ["x"], ["y"])], {"x": abs(BLOCK) + 0.3 if u in ("Sqrt", "Reciprocal") else BLOCK})
case("hardswish", [("HardSwish", ["x"], ["y"])], {"x": BLOCK * 4}, opset=14)
case(
    "gelu",
    [
        ("Div", ["x", "a"], ["b"]),
        ("Erf", ["b"], ["c"]),
        ("Add", ["c", "d"], ["e"]),
        ("Mul", ["x", "e"], ["f"]),
        ("Mul", ["f", "hf"], ["y"]),
    ],
    {"x": BLOCK},
    {"a": np.float32(2**0.5), "d": np.float32(1), "hf": np.float32(0.5)},
)
case(
    "ln",
    [
        ("ReduceMean", ["x"], ["m"], {"axes": [-1]}),
        ("Sub", ["x", "m"], ["d"]),
        ("Pow", ["d", "two"], ["q"]),
        ("ReduceMean", ["q"], ["v"], {"axes": [-1]}),
        ("Add", ["v", "eps"], ["ve"]),
        ("Sqrt", ["ve"], ["s"]),
        ("Div", ["d", "s"], ["n"]),
        ("Mul", ["n", "g"], ["o"]),
        ("Add", ["o", "b"], ["y"]),
    ],
    {"x": BLOCK},
    {"two": np.float32(2), "eps": np.float32(1e-5), "g": normal(4), "b": normal(4)},
)
case(
    "ln17",
    [("LayerNormalization", ["x", "g", "b"], ["y"], {"axis": -1})],
    {"x": BLOCK},
    {"g": normal(4), "b": normal(4)},
    opset=17,
)
for c in ["Min", "Max"]:
    case(c.lower() + "3", [(c, ["x", "z", "w"], ["y"])], {"x": BLOCK, "z": normal(2, 3, 4)}, {"w": normal(4)})
case("clip", [("Clip", ["x", "l", "h"], ["y"])], {"x": BLOCK}, {"l": np.float32(-0.5), "h": np.float32(0.7)})
case("clip6", [("Clip", ["x", "l", "h"], ["y"])], {"x": BLOCK * 5}, {"l": np.float32(0), "h": np.float32(6)})
case("cliplow", [("Clip", ["x", "l"], ["y"])], {"x": BLOCK}, {"l": np.float32(0.1)})
case("argmin", [("ArgMin", ["x"], ["y"], {"axis": 1, "keepdims": 0})], {"x": BLOCK})
case("nonzero", [("NonZero", ["x"], ["y"])], {"x": np.array([[1, 0], [2, 3]], np.float32)})
case(
    "cos_shape",
    [("ConstantOfShape", ["s"], ["y"], {"value": helper.make_tensor("v", TensorProto.FLOAT, [1], [3.0])})],
    {"s": ints(2, 3)},
)
case(
    "range",
    [("Range", ["a", "b", "c"], ["y"])],
    {"a": np.array(1, np.float32)},
    {"b": np.float32(9), "c": np.float32(2)},
)
case(
    "scatternd",
    [("ScatterND", ["x", "i", "u"], ["y"])],
    {"x": BLOCK, "u": normal(2, 4)},
    {"i": np.array([[0, 1], [1, 2]], np.int64)},
)
case(
    "scatterel",
    [("ScatterElements", ["x", "i", "u"], ["y"], {"axis": 1})],
    {"x": BLOCK, "u": normal(2, 1, 4)},
    {"i": np.ones((2, 1, 4), np.int64)},
)
case("split_sizes", [("Split", ["x"], ["y0", "y1"], {"axis": 2, "split": [1, 3]})], {"x": BLOCK}, {}, 2)
case(
    "split_input",
    [("Split", ["x", "s"], ["y0", "y1"], {"axis": 2})],
    {"x": BLOCK},
    {"s": ints(1, 3)},
    2,
    opset=13,
)
case(
    "avg_ceil",
    [("AveragePool", ["x"], ["y"], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1})],
    {"x": IMAGE},
)
case(
    "avg_same",
    [("AveragePool", ["x"], ["y"], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"})],
    {"x": IMAGE},
)
case(
    "max_pad",
    [("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]})],
    {"x": IMAGE},
)
case(
    "avg_incl",
    [
        (
            "AveragePool",
            ["x"],
            ["y"],
            {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "count_include_pad": 1},
        )
    ],
    {"x": IMAGE},
)
case(
    "matmul_b",
    [("MatMul", ["x", "w"], ["a"]), ("Add", ["a", "b"], ["y"])],
    {"x": BLOCK},
    {"w": normal(4, 5), "b": normal(5)},
)
case("matmul_vec", [("MatMul", ["x", "w"], ["y"])], {"x": BLOCK}, {"w": normal(4)})
case(
    "gemm_ta",
    [("Gemm", ["x", "w", "b"], ["y"], {"transA": 1, "alpha": 0.5, "beta": 2.0})],
    {"x": normal(4, 3)},
    {"w": normal(4, 5), "b": normal(5)},
)
case(
    "attn",
    [("MatMul", ["q", "k"], ["a"]), ("Softmax", ["a"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"])],
    {"q": normal(2, 4, 5, 8), "k": normal(2, 4, 8, 5), "v": normal(2, 4, 5, 8)},
)
case(
    "scale",
    [("Mul", ["x", "s"], ["a"]), ("Add", ["a", "b"], ["y"])],
    {"x": IMAGE},
    {"s": normal(1, 4, 1, 1), "b": normal(1, 4, 1, 1)},
)
case(
    "scale3",
    [("Mul", ["x", "s"], ["a"]), ("Add", ["a", "b"], ["y"])],
    {"x": BLOCK},
    {"s": normal(4), "b": normal(4)},
)
case("mean4", [("ReduceMean", ["x"], ["y"], {"axes": [2, 3], "keepdims": 0})], {"x": IMAGE})
case(
    "reshape4",
    [("Reshape", ["x", "s"], ["a"]), ("Relu", ["a"], ["y"])],
    {"x": IMAGE},
    {"s": ints(0, 2, -1, 6)},
)
case("tr4", [("Transpose", ["x"], ["y"], {"perm": [0, 2, 3, 1]})], {"x": IMAGE})
case("concat4", [("Relu", ["x"], ["a"]), ("Concat", ["x", "a"], ["y"], {"axis": 1})], {"x": IMAGE})
case("l2n", [("LpNormalization", ["x"], ["y"], {"axis": 1, "p": 2})], {"x": BLOCK})
case(
    "instn",
    [("InstanceNormalization", ["x", "s", "b"], ["y"])],
    {"x": IMAGE},
    {"s": normal(4), "b": normal(4)},
)
case(
    "stack",
    [
        ("Unsqueeze", ["x"], ["a"], {"axes": [0]}),
        ("Unsqueeze", ["z"], ["b"], {"axes": [0]}),
        ("Concat", ["a", "b"], ["y"], {"axis": 0}),
    ],
    {"x": BLOCK, "z": normal(2, 3, 4)},
)
case("softmax4", [("Softmax", ["x"], ["y"], {"axis": 1})], {"x": IMAGE})
case(
    "where",
    [("Greater", ["x", "z"], ["c"]), ("Where", ["c", "x", "z"], ["y"])],
    {"x": BLOCK, "z": normal(2, 3, 4)},
)
case("swish", [("Sigmoid", ["x"], ["a"]), ("Mul", ["x", "a"], ["y"])], {"x": IMAGE})
case("d2s", [("DepthToSpace", ["x"], ["y"], {"blocksize": 2})], {"x": IMAGE})
case("s2d", [("SpaceToDepth", ["x"], ["y"], {"blocksize": 2})], {"x": IMAGE})
case("lrn", [("LRN", ["x"], ["y"], {"size": 3, "alpha": 0.001, "beta": 0.7, "bias": 2.0})], {"x": IMAGE})
case(
    "nms",
    [("NonMaxSuppression", ["b", "s", "m", "i", "t"], ["y"])],
    {"b": np.abs(normal(1, 6, 4)), "s": np.abs(normal(1, 2, 6))},
    {"m": ints(3), "i": floats(0.5), "t": floats(0.0)},
)
case("mod", [("Mod", ["x", "z"], ["y"], {"fmod": 1})], {"x": BLOCK * 4, "z": BLOCK + 3})
case("isnan", [("And", ["x", "z"], ["y"])], {"x": BLOCK > 0, "z": normal(2, 3, 4) > 0})
case(
    "revseq",
    [("ReverseSequence", ["x", "l"], ["y"], {"batch_axis": 0, "time_axis": 1})],
    {"x": BLOCK},
    {"l": ints(2, 3)},
)
for way, count in (("forward", 1), ("bidirectional", 2)):
    case(
        f"lstm_{way}",
        [
            (
                "LSTM",
                ["x", "W", "R", "B", "", "h", "c"],
                ["y0", "y1", "y2"],
                {"hidden_size": 5, "direction": way},
            )
        ],
        {"x": normal(4, 2, 3)},
        {
            "W": normal(count, 20, 3),
            "R": normal(count, 20, 5),
            "B": normal(count, 40),
            "h": normal(count, 2, 5),
            "c": normal(count, 2, 5),
        },
        3,
    )
case("less_equal", [("LessOrEqual", ["x", "z"], ["y"])], {"x": BLOCK, "z": normal(2, 3, 4)})
case("not_equal", [("Equal", ["x", "z"], ["a"]), ("Not", ["a"], ["y"])], {"x": BLOCK, "z": BLOCK.copy()})
case("elu_7", [("Elu", ["x"], ["y"], {"alpha": 0.7})], {"x": BLOCK})
case("leaky", [("LeakyRelu", ["x"], ["y"], {"alpha": 0.2})], {"x": BLOCK})
case("trilu", [("Trilu", ["x"], ["y"], {"upper": 0})], {"x": BLOCK}, opset=14)
case("trilu_up", [("Trilu", ["x"], ["y"], {"upper": 1})], {"x": BLOCK}, opset=14)
case("unsqueeze2", [("Unsqueeze", ["x"], ["y"], {"axes": [0, 2]})], {"x": BLOCK})
case(
    "bn3",
    [("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
    {"x": normal(2, 4, 6)},
    {"s": normal(4), "b": normal(4), "m": normal(4), "v": abs(normal(4))},
)
case(
    "bn_stem",
    [("Relu", ["x"], ["a"]), ("BatchNormalization", ["a", "s", "b", "m", "v"], ["y"])],
    {"x": IMAGE},
    {"s": normal(4), "b": normal(4), "m": normal(4), "v": abs(normal(4))},
)
case(
    "norm_l2",
    [("ReduceL2", ["x"], ["a"], {"axes": [-1], "keepdims": 1}), ("Div", ["x", "a"], ["y"])],
    {"x": BLOCK},
)
case("rsqrt", [("Sqrt", ["x"], ["a"]), ("Reciprocal", ["a"], ["y"])], {"x": abs(BLOCK) + 0.5})
case("square", [("Mul", ["x", "x"], ["y"])], {"x": BLOCK})
case(
    "onehot_axis",
    [("OneHot", ["x", "d", "v"], ["y"], {"axis": 0})],
    {"x": np.array([1, 0, 2], np.int64)},
    {"d": np.int64(4), "v": floats(0, 1)},
)
case(
    "space_batch",
    [
        ("Reshape", ["x", "r"], ["a"]),
        ("Transpose", ["a"], ["b"], {"perm": [3, 5, 0, 1, 2, 4]}),
        ("Reshape", ["b", "t"], ["y"]),
    ],
    {"x": IMAGE},
    {"r": ints(1, 4, 3, 2, 3, 2), "t": ints(4, 4, 3, 3)},
)
case(
    "glu",
    [("Split", ["x"], ["a", "b"], {"axis": 2}), ("Sigmoid", ["b"], ["c"]), ("Mul", ["a", "c"], ["y"])],
    {"x": BLOCK},
)

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, (model, inputs) in CASES.items():
        results = ort.InferenceSession(model.SerializeToString()).run(None, inputs)
        arrays = {f"x{i}": x for i, x in enumerate(inputs.values())}
        np.savez(folder / f"{name}.npz", **arrays, **{f"y{i}": y for i, y in enumerate(results)})
        onnx.save(model, folder / f"{name}.onnx")
