"""Calls of operators outside of ONNX's own domain, as `tools/tables/make_foreign_operators.py` tries them.

A call is written as its operator, its inputs and its attributes. An input is an element type and a shape:
`f2,4,8` are float32, `p` positive ones, `h` and `d` 16 and 64 bits, `b c s i l` integers from uint8 to int64,
`?` bools, `t` texts; `<9` are integers below 9, `<=9` all 9. `!` is a constant in most files, `-` left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from tests.requests.models import Subject
from tests.requests.mutate import Feed, mutated

from pinnace import ModelType

MS, ML = "com.microsoft", "ai.onnx.ml"
_KINDS = {
    "f": np.float32,
    "p": np.float32,
    "h": np.float16,
    "d": np.float64,
    "b": np.uint8,
    "c": np.int8,
    "s": np.int16,
    "i": np.int32,
    "l": np.int64,
    "?": np.bool_,
    "t": np.object_,
}


@dataclass(frozen=True)
class Call:
    """A node of an operator with its inputs, some of which are constants in the file."""

    domain: str
    op_type: str
    inputs: str
    attributes: dict[str, object]
    outputs: int

    @property
    def name(self) -> str:
        return f"{self.domain} {self.op_type}({self.inputs})"

    def arrays(self, rng: np.random.Generator) -> tuple[Feed, set[str]]:
        """Inputs by names, and the names of constants."""
        feed: Feed = {}
        constants: set[str] = set()
        for place, text in enumerate(self.inputs.split()):
            if text != "-":
                feed[f"x{place}"] = _array(rng, text)
                if "!" in text:
                    constants.add(f"x{place}")
        return feed, constants

    def model(self, feed: Feed, constants: set[str], fixed: bool, **changed: object) -> ModelProto:
        """A model of this node; `changed` are other attributes."""
        outputs = [
            helper.make_tensor_value_info(f"y{place}", kind, [None] * rank)
            for place, (kind, rank) in enumerate(self._results)
        ]
        return self._model(feed, constants, fixed, outputs, changed)

    @cached_property
    def _results(self) -> list[tuple[int, int]]:
        """Element types and ranks of the results, which onnxruntime tells."""
        feed, constants = self.arrays(np.random.default_rng(0))
        outputs = [ValueInfoProto(name=f"y{place}") for place in range(self.outputs)]
        model = self._model(feed, constants, True, outputs, {})
        options = ort.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        session = ort.InferenceSession(model.SerializeToString(), options)
        found = session.run(None, {n: a for n, a in feed.items() if n not in constants})
        return [(_element(y), y.ndim) for y in found]

    def _model(
        self,
        feed: Feed,
        constants: set[str],
        fixed: bool,
        outputs: list[ValueInfoProto],
        changed: dict[str, object],
    ) -> ModelProto:
        places = range(len(self.inputs.split()))
        names = [f"x{place}" if f"x{place}" in feed else "" for place in places]
        attributes = {**self.attributes, **changed}
        node = helper.make_node(
            self.op_type, names, [y.name for y in outputs], self.op_type, domain=self.domain, **attributes
        )
        inputs = [
            helper.make_tensor_value_info(n, _element(a), a.shape if fixed else [None] * a.ndim)
            for n, a in feed.items()
            if n not in constants
        ]
        tensors = [numpy_helper.from_array(a, n) for n, a in feed.items() if n in constants]
        graph = helper.make_graph([node], "call", inputs, outputs, tensors)
        newer = self.op_type in ("LabelEncoder", "TreeEnsemble")
        versions = {"": 21, MS: 1, ML: 5 if newer else 3}
        opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def subject_of(call: Call, rng: np.random.Generator, number: int) -> Subject:
    """A model of a call: as files are, with all inputs free, or with a change, or an input less."""
    feed, constants = call.arrays(rng)
    changed: dict[str, object] = {}
    if number % 3 == 1:
        constants = set()
    if number % 3 == 2 and rng.random() < 0.2:
        feed.pop(str(rng.choice(list(feed))))
        constants &= feed.keys()
    elif number % 3 == 2 and rng.random() < 0.5 and call.attributes:
        changed = _changed(rng, call.attributes)
    elif number % 3 == 2 and constants:
        feed |= mutated(rng, {n: feed[n] for n in constants}, empty=False)
    elif number % 3 == 2:
        feed = mutated(rng, feed, empty=False)
    model = call.model(feed, constants, bool(rng.random() < 0.3), **changed)
    given = {n: a for n, a in feed.items() if n not in constants}
    return Subject(f"{call.name} {changed}", model.SerializeToString(), ModelType.ONNX, given)


def _changed(rng: np.random.Generator, attributes: Mapping[str, object]) -> dict[str, object]:
    """Another value for one attribute of integers, floats or a tensor."""
    name = str(rng.choice(list(attributes)))
    value = attributes[name]
    if isinstance(value, TensorProto):
        return {
            name: numpy_helper.from_array(mutated(rng, {"": numpy_helper.to_array(value)}, empty=False)[""])
        }
    if isinstance(value, list) and value:
        values = list(value)
        values[int(rng.integers(len(values)))] = _other(rng, values[0])
        return {name: values[: int(rng.integers(1, len(values) + 1))] if rng.random() < 0.5 else values}
    return {name: _other(rng, value)}


def _other(rng: np.random.Generator, value: object) -> object:
    if isinstance(value, int):
        return int(rng.choice([0, -1, 1, 2, 3, value + 1, 2 * value, 100, 2**31 - 1, 2**31, -(2**31)]))
    return float(rng.choice([0.0, -1.0, 1e30])) if isinstance(value, float) else value


def _element(array: np.ndarray) -> int:
    return int(
        TensorProto.STRING if array.dtype.kind in "OSU" else helper.np_dtype_to_tensor_dtype(array.dtype)
    )


def _array(rng: np.random.Generator, text: str) -> np.ndarray:
    kind, (rest, _, below) = text[0], text[1:].replace("!", "").partition("<")
    shape = tuple(int(n) for n in rest.split(",") if n)
    if kind == "t":
        return rng.choice(np.array(["a", "b", "c"], object), shape)
    if kind == "p":
        return np.asarray(rng.integers(1, 9, shape) / 64, np.float32)
    if kind == "?":
        return np.asarray(rng.random(shape) < 0.5)
    if kind in "bcsil":
        if below.startswith("="):
            return np.full(shape, int(below[1:]), _KINDS[kind])
        return np.asarray(rng.integers(0, int(below or 9), shape)).astype(_KINDS[kind])
    return np.asarray(rng.integers(-8, 9, shape) / 8).astype(_KINDS[kind])


def _ms(op_type: str, *inputs: str, outputs: int = 1, **attributes: object) -> Iterator[Call]:
    for text in inputs:
        yield Call(MS, op_type, text, attributes, outputs)


def _ml(op_type: str, inputs: str, outputs: int = 1, **attributes: object) -> Call:
    return Call(ML, op_type, inputs, attributes, outputs)


def _quantized(kind: str) -> tuple[Call, ...]:
    one, s, z = f"{kind}2,3,4", "p!", f"{kind}!"
    image = f"{kind}1,4,6,6"
    return (
        *_ms("QLinearAdd", f"{one} {s} {z} {one} {s} {z} {s} {z}", f"{one} {s} {z} {kind}4! {s} {z} {s} {z}"),
        *_ms(
            "QLinearMul", f"{one} {s} {z} {one} {s} {z} {s} {z}", f"{one} {s} {z} {kind}3,1 {s} {z} {s} {z}"
        ),
        *_ms("QLinearSigmoid", f"{one} {s} {z} {s} {z}"),
        *_ms("QLinearLeakyRelu", f"{one} {s} {z} {s} {z}", alpha=0.1),
        *_ms("QLinearSoftmax", f"{one} {s} {z} {s} {z}", opset=13, axis=-1),
        *_ms("QLinearSoftmax", f"{one} {s} {z} {s} {z}", opset=11, axis=1),
        *_ms("QLinearGlobalAveragePool", f"{image} {s} {z} {s} {z}", channels_last=0),
        *_ms("QLinearGlobalAveragePool", f"{image} {s} {z} {s} {z}", channels_last=1),
        *_ms("QLinearAveragePool", f"{image} {s} {z} {s} {z}", kernel_shape=[2, 2], strides=[2, 2]),
        *_ms("QLinearAveragePool", f"{image} {s} {z} {s} {z}", kernel_shape=[2, 2], channels_last=1),
        *_ms(
            "QLinearAveragePool",
            f"{image} {s} {z} {s} {z}",
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        ),
        *_ms("QLinearAveragePool", f"{image} {s} {z} {s} {z}", kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        *_ms(
            "QLinearConv",
            f"{image} {s} {z} {kind}8,2,3,3! {s} {z} {s} {z} i8!",
            group=2,
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            strides=[2, 2],
            dilations=[1, 1],
        ),
        *_ms("QLinearConv", f"{image} {s} {z} {kind}8,4,3,3! {s} {z} {s} {z}", auto_pad="SAME_LOWER"),
        *_ms(
            "NhwcMaxPool",
            f"{kind}1,6,6,4",
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            dilations=[2, 2],
            strides=[2, 2],
            ceil_mode=1,
        ),
        *_ms("NhwcMaxPool", f"{kind}1,6,6,4", kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        *_ms("QGemm", f"{kind}4,3 {s} {z} {kind}4,5! {s} {z} i3,5! {s} {z}", transA=1),
        *_ms("QLinearConcat", f"{s} {z} {one} {s} {z} {one} {s} {z}", axis=1),
        *_ms("QLinearWhere", f"?2,3,4 {one} {s} {z} {one} {s} {z} {s} {z}"),
        *_ms("QLinearConv", f"{image} {s} {z} {kind}8,4,3,3! {s} {z} {s} {z} i8!"),
        *_ms(
            "QLinearConv",
            f"{kind}1,6,6,4 {s} {z} {kind}8,4,3,3! p8! {kind}8!<=0 {s} {z} i8!",
            channels_last=1,
        ),
        *_ms("NhwcMaxPool", f"{kind}1,6,6,4", kernel_shape=[2, 2], strides=[2, 2]),
        *_ms("QuantizeLinear", f"f2,3,4 {s} {z}", f"f2,3,4 p3! {kind}3!", axis=1),
        *_ms("DequantizeLinear", f"{one} {s} {z}", f"{one} p3! {kind}3!", axis=1),
        *_ms(
            "QGemm",
            f"{kind}3,4 {s} {z} {kind}4,5! {s} {z} i5! {s} {z}",
            f"{kind}3,4 {s} {z} {kind}4,5! p5! {kind}5!",
        ),
        *_ms("QGemm", f"{kind}3,4 {s} {z} {kind}5,4! {s} {z} - {s} {z}", transB=1),
        *_ms(
            "MatMulIntegerToFloat",
            *(f"{kind}3,4 {kind}4,5! p p! {z} {z} f5!", f"{kind}2,3,4 {kind}4,5! p p5! {kind} {kind}5!"),
        ),
        *_ms("DynamicQuantizeMatMul", f"f3,4 {kind}4,5! p! {z} f5!", f"f2,3,4 {kind}4,5! p5! {kind}5!"),
        *_ms(
            "DynamicQuantizeLSTM",
            f"f3,2,4 {kind}1,4,20! {kind}1,5,20! f1,40! i2<3 f1,2,5 f1,2,5 - p1! {kind}1! p1! {kind}1!",
            hidden_size=5,
            outputs=3,
        ),
    )


_TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def _tensor(values: list[float], dtype: type) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype))


_NORMALIZED = {"epsilon": 1e-5}

_SAME = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1], "dilations": [1, 1]}

CALLS: tuple[Call, ...] = (
    *_quantized("b"),
    *_quantized("c"),
    *(c for name in ("Gelu", "QuickGelu", "FastGelu") for c in _ms(name, "f2,3,8", "f3")),
    *_ms("FastGelu", "f2,3,8 f8!"),
    *_ms("BiasGelu", "f2,3,8 f8!"),
    *_ms("SkipLayerNormalization", "f2,3,8 f2,3,8 f8! f8! f8!", "f2,3,8 f3,8 f8!", outputs=1),
    *_ms("SkipLayerNormalization", "f2,3,8 f2,3,8 f8! f8! f8!", outputs=4, **_NORMALIZED),
    *_ms("SkipSimplifiedLayerNormalization", "f2,3,8 f2,3,8 f8! f8!", "f2,3,8 f1,3,8 f8!", outputs=4),
    *_ms("EmbedLayerNormalization", "i2,4<9 i2,4<2 f9,8! f6,8! f2,8! f8! f8! i2,4<2", outputs=3),
    *_ms("EmbedLayerNormalization", "i2,4<9 - f9,8! f6,8! - f8! f8! - i2,4<6", outputs=2),
    *_ms(
        "EmbedLayerNormalization",
        "i2,4<9 i2,4<2 f9,8! f6,8! f2,8! f8! f8! i2,4<2",
        mask_index_type=1,
        outputs=2,
    ),
    *_ms(
        "QEmbedLayerNormalization",
        "i2,4<9 i2,4<2 b9,8! b6,8! b2,8! b8! b8! i2,4<2 p! p! p! p! p! b! b! b! b! b!",
        outputs=2,
    ),
    *_ms("RotaryEmbedding", "f2,2,3,8 l2,3<6 f6,4! f6,4!", "f2,3,16 l1<=2 f6,4! f6,4!"),
    *_ms("RotaryEmbedding", "f2,3,16 l2,3<6 f6,2! f6,2!", num_heads=2, rotary_embedding_dim=4),
    *_ms("RotaryEmbedding", "f2,3,16 l2,3<6 f6,4! f6,4!", num_heads=2, interleaved=1),
    *_ms("FusedMatMul", "f2,3,4 f4,5!", "f2,3,4 f2,4,5", alpha=0.5),
    *_ms("FusedMatMul", "f2,4,3 f2,5,4", transA=1, transB=1),
    *_ms("FusedMatMul", "f3,2,4 f2,4,5", transBatchA=1),
    *_ms("FusedMatMul", "f3,2,4 f4,2,5", transBatchA=1, transBatchB=1),
    *_ms("FusedMatMul", "f4,2,3 f2,4,5", transA=1, transBatchA=1, transB=0),
    *_ms("TransposeMatMul", "f2,4,3 f2,5,4", transA=1, transB=1),
    *_ms("TransposeMatMul", "f2,4,3 f2,4,5", transA=1),
    *_ms("FusedGemm", "f3,4 f4,5! f5!", "f3,4 f4,5 f3,5", activation="Relu"),
    *_ms("FusedConv", "f1,4,6,6 f8,4,3,3! f8!", "f1,4,6,6 f8,4,3,3! f8! f1,8,4,4", activation="Relu"),
    *_ms("FusedConv", "f1,4,6,6 f8,2,3,3! f8!", activation="Clip", activation_params=[0.0, 6.0], group=2),
    *_ms("FusedGemm", "f4,3 f5,4 f3,1", transA=1, transB=1, activation="LeakyRelu", activation_alpha=0.1),
    *_ms(
        "FusedConv",
        "f1,4,6,6 f8,4,3,3! f8!",
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
        dilations=[1, 1],
        activation="HardSigmoid",
        activation_params=[0.2, 0.5],
    ),
    *_ms("FusedConv", "f1,4,9 f8,4,3!", activation="Sigmoid", auto_pad="SAME_UPPER"),
    *_ms("MatMulInteger16", "s3,4 s4,5!", "s2,3,4 s2,4,5"),
    *_ms("MatMulNBits", "f3,32 b8,2,8! p16! b8!", "f2,3,32 b8,2,8! p16!", N=8, K=32, bits=4, block_size=16),
    *_ms(
        "MatMulNBits", "f3,32 b8,2,8! p8,2! b8,1! - f8!", N=8, K=32, bits=4, block_size=16, accuracy_level=4
    ),
    *_ms("MatMulNBits", "f3,32 b8,2,16! p16! b16!", N=8, K=32, bits=8, block_size=16),
    *_ms("MatMulNBits", "h3,32 b8,2,8! h16!", N=8, K=32, bits=4, block_size=16),
    *_ms("MatMulNBits", "f3,32 b8,2,8! p16! - i32!<2", N=8, K=32, bits=4, block_size=16),
    *_ms("MatMulNBits", "f3,32 b8,2,4! p16!", N=8, K=32, bits=2, block_size=16),
    *_ms("MatMulBnb4", "f3,32 b128! p16!", N=8, K=32, block_size=16, quant_type=0, transB=1),
    *_ms("MatMulBnb4", "f3,32 b128! p16!", N=8, K=32, block_size=16, quant_type=1),
    *_ms(
        "GatherBlockQuantized",
        "b9,16! l2,3<9 p9,2! b9,1!",
        block_size=16,
        quantize_axis=1,
        gather_axis=0,
        bits=4,
    ),
    *_ms("GatherBlockQuantized", "b9,32! i2<9 p9,2!", block_size=16, quantize_axis=1, gather_axis=0, bits=8),
    *_ms(
        "Attention", "f2,4,8 f8,24! f24!", "f2,4,8 f8,24! f24! i2<4", "f2,4,8 f8,24! f24! i2,4<2", num_heads=2
    ),
    *_ms(
        "Attention",
        "f2,4,8 f8,24! f24! i2,4,4<2",
        "f2,4,8 f8,24! f24! - - f2,2,4,4",
        num_heads=2,
        unidirectional=1,
    ),
    *_ms("Attention", "f2,4,8 f8,24! f24! i2,7<2 f2,2,2,3,4", num_heads=2, outputs=2),
    *_ms("Attention", "f2,4,8 f8,20! f20!", num_heads=2, qkv_hidden_sizes=[8, 8, 4]),
    *_ms(
        "QAttention",
        *("b2,4,8 b8,24! f24! p! p! i2<4 b! b!", "b2,4,8 c8,24! f24! p! p24! i2,4<2 b! c24!"),
        num_heads=2,
    ),
    *_ms(
        "QAttention", "b2,4,8 b8,24! f24! p! p! - b! b! f2,2,2,3,4", num_heads=2, outputs=2, unidirectional=1
    ),
    *_ms(
        "MultiHeadAttention",
        *(
            "f2,4,8 f2,5,8 f2,5,8",
            "f2,4,8 f2,5,8 f2,5,8 f24!",
            "f2,4,8 f2,5,8 f2,5,12 f28!",
            "f2,4,8 f2,5,8 f2,5,8 - - f2,1,4,5",
        ),
        *("f2,4,8 f2,2,5,4 f2,2,5,4", "f2,4,8 f2,5,8 f2,5,8 - i2,5<2 f2,2,4,5"),
        *(
            "f2,4,8 f2,5,8 f2,5,8 - i2<5",
            "f2,4,8 f2,5,8 f2,5,8 - - f1,2,4,5",
            "f2,4,8 f2,5,8 f2,5,8 - i2,4,5<2",
        ),
        num_heads=2,
    ),
    *_ms(
        "MultiHeadAttention",
        *(
            "f2,4,8 f2,5,8 f2,5,8 - - - f2,2,3,4 f2,2,3,4",
            "f2,4,8 f2,5,8 f2,5,8 f24! i2,8<2 f2,2,4,8 f2,2,3,4 f2,2,3,4",
        ),
        num_heads=2,
        outputs=3,
    ),
    *_ms("MultiHeadAttention", "f2,4,8 f2,4,8 f2,4,8", num_heads=2, unidirectional=1),
    *_ms(
        "DecoderMaskedMultiHeadAttention",
        "f2,1,8 f2,1,8 f2,1,8 i2,4<2 - f2,2,9,4 f2,2,9,4 i1<=3",
        num_heads=2,
        past_present_share_buffer=1,
        outputs=3,
    ),
    *_ms(
        "GroupQueryAttention",
        *(
            "f1,3,32 f1,3,16 f1,3,16 f1,2,5,8 f1,2,5,8 i1<=7 i<=8",
            "f2,1,32 f2,1,16 f2,1,16 f2,2,7,8 f2,2,7,8 i2<=7 i<=8",
        ),
        *("f1,3,64 - - f1,2,5,8 f1,2,5,8 i1<=7 i<=8", "f2,3,32 f2,3,16 f2,3,16 - - i2<=2 i<=3"),
        num_heads=4,
        kv_num_heads=2,
        outputs=3,
    ),
    *_ms(
        "GroupQueryAttention",
        *("f1,3,64 f1,3,32 f1,3,32 f1,2,5,16 f1,2,5,16 i1<=7 i<=8 f16,8! f16,8!",),
        *("f1,3,64 f1,3,32 f1,3,32 f1,2,5,16 f1,2,5,16 i1<=7 i<=8 f16,8! f16,8! l1,3<9",),
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
        outputs=3,
    ),
    *_ms(
        "GroupQueryAttention",
        "f1,3,32 f1,3,16 f1,3,16 f1,2,5,8 f1,2,5,8 i1<=7 i<=8 - - - f1,4,3,8",
        num_heads=4,
        kv_num_heads=2,
        local_window_size=4,
        outputs=3,
    ),
    *_ms(
        "GroupQueryAttention",
        *("f1,3,64 f1,3,32 f1,3,32 f1,2,5,16 f1,2,5,16 i1<=7 i<=8 f16,8! f16,8! - - f4!",),
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
        rotary_interleaved=1,
        smooth_softmax=1,
        local_window_size=2,
        outputs=3,
    ),
    *_ms(
        "GroupQueryAttention",
        "f2,1,32 f2,1,16 f2,1,16 f2,2,7,8 f2,2,7,8 i2<8 i<=8 - - - f2,4,1,8",
        num_heads=4,
        kv_num_heads=2,
        outputs=3,
    ),
    *_ms("MoE", "f3,8 f3,4 f4,16,8! f4,16! f4,8,16! f4,8!", k=2, activation_type="relu"),
    *_ms("CDist", "f3,4 f5,4", metric="euclidean"),
    *_ms("ConvTransposeWithDynamicPads", "f1,4,5,5 f4,3,3,3! l4<2", strides=[2, 2]),
    *_ms("CropAndResize", "f2,3,8,8 p4,4 i4<2 i2<=5"),
    *_ms("DynamicTimeWarping", "f3,5", "f1,4,6"),
    *_ms("ExpandDims", "f2,3 i<2"),
    *_ms("GatherND", "f2,3,4 l2,2<2"),
    *_ms("GridSample", "f1,2,5,5 f1,3,3,2"),
    *_ms("Inverse", "f3,3", "f2,3,3"),
    *_ms("MaxpoolWithMask", "f1,2,6,6 i1,2,6,6<2", kernel_shape=[2, 2]),
    *_ms("MurmurHash3", "i2,3", "t4"),
    *_ms("NGramRepeatBlock", "l2,6<9 f2,9", ngram_size=2),
    *_ms("Pad", "f2,3 l4<3 f1"),
    *_ms("Range", "i<1 i<9 i<=1", "p p p"),
    *_ms("Tokenizer", "t3", mark=1, pad_value="#", separators=[" "], mincharnum=1),
    *_ms("Trilu", "f2,4,4 l<2"),
    *_ms("UnfoldTensor", "f2,6", dim=1, size=3, step=1),
    *_ms("Unique", "f6", outputs=3),
    *_ms("WordConvEmbedding", "i2,6<9 f5,1,3,4! f5! f9,4!"),
    *_ms("BifurcationDetector", "l8<9 l5<9 l<=0", outputs=2),
    *_ms("ScaledSiLU", "f2,3,8"),
    *_ms("GatedRMSNorm", "f2,3,8 f8! f2,3,8"),
    *_ms("GatedAdd", "f2,3,8 f2,3,8 f2,3,1"),
    *_ms("CausalConvWithState", "f2,8,5 f8,1,3! f8! f2,8,2", outputs=2),
    *_ms(
        "LinearAttention",
        "f2,3,8 f2,3,8 f2,3,8",
        update_rule="linear",
        q_num_heads=2,
        kv_num_heads=2,
        outputs=2,
    ),
    _ml("CategoryMapper", "l3", cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"], default_string="d"),
    _ml("CategoryMapper", "t3", cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"], default_int64=-1),
    _ml("Imputer", "f3,4", imputed_value_floats=[0.5], replaced_value_float=0.5),
    _ml("LabelEncoder", "t3", keys_strings=["a", "b"], values_strings=["x", "y"], default_string="z"),
    _ml("LabelEncoder", "f3", keys_floats=[0.5, 1.0], values_floats=[1.0, 2.0], default_float=-1.0),
    _ml("LabelEncoder", "l3", keys_int64s=[1, 2], values_int64s=[7, 8], default_int64=-1),
    _ml(
        "LabelEncoder",
        "l3",
        keys_tensor=_tensor([1, 2], np.int64),
        values_tensor=_tensor([0.5, 1.5], np.float32),
        default_tensor=_tensor([0.0], np.float32),
    ),
    _ml(
        "LinearClassifier",
        "f3,2",
        2,
        coefficients=[0.5, 1.0],
        intercepts=[0.0],
        classlabels_strings=["a", "b"],
        multi_class=1,
        post_transform="LOGISTIC",
    ),
    _ml("LinearRegressor", "f3,2", coefficients=[0.5, 1.0], post_transform="NONE"),
    _ml("OneHotEncoder", "l3,2<3", cats_int64s=[0, 1, 2], zeros=0),
    _ml(
        "SVMClassifier",
        "f3,2",
        2,
        classlabels_strings=["a", "b"],
        coefficients=[1.0, -1.0, 0.5],
        kernel_params=[0.5, 0.0, 3.0],
        kernel_type="POLY",
        rho=[0.1],
        prob_a=[0.5],
        prob_b=[0.1],
        support_vectors=[0.5, 1.0, -1.0, 2.0, 0.0, 1.0],
        vectors_per_class=[2, 1],
        post_transform="NONE",
    ),
    _ml(
        "SVMRegressor",
        "f3,2",
        coefficients=[1.0, -1.0],
        kernel_type="LINEAR",
        rho=[0.1],
        n_supports=0,
        kernel_params=[0.5, 0.0, 3.0],
        post_transform="NONE",
        one_class=1,
    ),
    _ml(
        "TreeEnsembleClassifier",
        "f3,4",
        2,
        class_ids=[0, 1],
        class_nodeids=[1, 2],
        class_treeids=[0, 0],
        class_weights=[1.0, 1.0],
        classlabels_strings=["a", "b"],
        base_values=[0.5, 0.5],
        nodes_hitrates=[1.0, 1.0, 1.0],
        nodes_missing_value_tracks_true=[0, 0, 0],
        post_transform="SOFTMAX",
        **_TREE,
    ),
    _ml(
        "TreeEnsembleRegressor",
        "f3,4",
        n_targets=2,
        target_ids=[0, 1],
        target_nodeids=[1, 2],
        target_treeids=[0, 0],
        target_weights=[1.0, 2.0],
        base_values=[0.5, 0.25],
        aggregate_function="AVERAGE",
        nodes_hitrates=[1.0, 1.0, 1.0],
        nodes_missing_value_tracks_true=[1, 0, 0],
        post_transform="NONE",
        **_TREE,
    ),
    _ml("ArrayFeatureExtractor", "f3,5 l2<5"),
    _ml("Binarizer", "f3,4", threshold=0.25),
    _ml("CategoryMapper", "t3", cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"]),
    _ml("FeatureVectorizer", "f3,2 f3,3", inputdimensions=[2, 3]),
    _ml("Imputer", "f3,4", imputed_value_floats=[0.0, 1.0, 2.0, 3.0], replaced_value_float=0.5),
    _ml("Imputer", "l3,4", imputed_value_int64s=[7], replaced_value_int64=2),
    _ml("LabelEncoder", "t3", keys_strings=["a", "b"], values_int64s=[1, 2]),
    _ml("LabelEncoder", "l3,2", keys_int64s=[1, 2], values_floats=[0.5, 1.5]),
    _ml(
        "LinearClassifier",
        "f3,2",
        2,
        coefficients=[0.5, 1.0, -1.0, 2.0, 0.0, 1.0],
        intercepts=[0.0, 0.5, 1.0],
        classlabels_ints=[0, 1, 2],
        post_transform="SOFTMAX",
    ),
    _ml("LinearRegressor", "f3,2", coefficients=[0.5, 1.0, -1.0, 2.0], intercepts=[0.0, 0.5], targets=2),
    _ml("Normalizer", "f3,4", norm="L2"),
    _ml("OneHotEncoder", "l3,2<4", cats_int64s=[0, 1, 2]),
    _ml("OneHotEncoder", "t3", cats_strings=["a", "b"]),
    _ml("Scaler", "f3,4", offset=[0.0, 1.0, 2.0, 3.0], scale=[1.0, 2.0, 3.0, 4.0]),
    _ml(
        "SVMClassifier",
        "f3,2",
        2,
        classlabels_ints=[0, 1],
        coefficients=[1.0, -1.0, 0.5],
        kernel_params=[0.5, 0.0, 3.0],
        kernel_type="RBF",
        rho=[0.1],
        support_vectors=[0.5, 1.0, -1.0, 2.0, 0.0, 1.0],
        vectors_per_class=[2, 1],
    ),
    _ml(
        "SVMRegressor",
        "f3,2",
        coefficients=[1.0, -1.0, 0.5],
        kernel_params=[0.5, 0.0, 3.0],
        kernel_type="RBF",
        rho=[0.1],
        n_supports=3,
        support_vectors=[0.5, 1.0, -1.0, 2.0, 0.0, 1.0],
    ),
    _ml(
        "TreeEnsembleClassifier",
        "f3,4",
        2,
        class_ids=[0, 1],
        class_nodeids=[1, 2],
        class_treeids=[0, 0],
        class_weights=[1.0, 1.0],
        classlabels_int64s=[0, 1],
        **_TREE,
    ),
    _ml(
        "TreeEnsembleRegressor",
        "f3,4",
        n_targets=1,
        target_ids=[0, 0],
        target_nodeids=[1, 2],
        target_treeids=[0, 0],
        target_weights=[1.0, 2.0],
        **_TREE,
    ),
    _ml(
        "TreeEnsemble",
        "f3,4",
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[1],
        nodes_splits=numpy_helper.from_array(np.array([0.5], np.float32)),
        nodes_modes=numpy_helper.from_array(np.array([0], np.uint8)),
        nodes_truenodeids=[0],
        nodes_falsenodeids=[1],
        nodes_trueleafs=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 0],
        leaf_weights=numpy_helper.from_array(np.array([1.0, 2.0], np.float32)),
    ),
    # Of ONNX's own domain, but with as many channels as onnxruntime computes in blocks.
    Call("", "Conv", "f1,16,6,6 f16,16,3,3! f16!", {}, 1),
    Call("", "MaxPool", "f1,16,6,6", {"kernel_shape": [2, 2]}, 1),
    Call("", "AveragePool", "f1,16,6,6", {"kernel_shape": [2, 2]}, 1),
    Call("", "MaxPool", "f1,16,6,6", _SAME | {"ceil_mode": 1}, 1),
    Call("", "AveragePool", "f1,16,6,6", _SAME | {"count_include_pad": 1}, 1),
    Call("", "GlobalAveragePool", "f1,16,6,6", {}, 1),
    Call("", "GlobalMaxPool", "f1,16,6,6", {}, 1),
)
"""At least one valid call of each operator; onnxruntime computes all of them."""
