"""The engine of a model's first build: a rule on what its multiplications are, and on the processor.

Each line has its measurement: OpenVINO's time over onnxruntime's in fp32 on one thread of an EPYC with
AVX-512 and BF16 (Zen 5), where nothing else is said; docs/engines-figures.md has the networks. When a model
is kept, a measurement decides (`pinnace.building.measuring`).
"""

from __future__ import annotations

import math
from collections.abc import Collection

import onnx_ir as ir

from pinnace.engines.choice import FP32, HALF, Choice
from pinnace.graph.constants import constant
from pinnace.graph.walk import nodes
from pinnace.machine.processor import features, sixteen_bit_type, sums_of_bytes_overflow
from pinnace.options.table import MEMORY
from pinnace.options.target import Target

WEIGHTS_OF_16_BITS = "weights16"
"""The form (`pinnace.quantization`) in which OpenVINO holds the weights of products in float16."""

_SMALL = 2e6
"""Multiplications up to which a model without convolutions gets one thread and onnxruntime, also in 16 bits:
an MLP of 6 us takes 4.5, in bfloat16 5.4, transformers of 2 million 1.05 to 1.3."""

_LARGE = 1e8
"""Multiplications from which on transformers gain on OpenVINO. Those of 17 to 63 million take 1 to 1.07."""

_FEW_CONVOLUTIONS, _PATCH = 4, 16 * 16
"""Convolutions of a transformer of images, which cut these into patches, and their pixels."""

_FEW_ROWS = 4
"""Rows up to which products take the time to read their weights."""

_BLOCK, _COLORS = 16, 4
"""Channels of a block of onnxruntime's convolutions. Those in groups of 4 and 8 channels take 0.65 and 0.44,
and 0.92 and 0.84 between 1x1 convolutions, as in ResNeXt; those in groups of 16, 32 and 64 take 0.95 to 1.10.
RegNets with groups of 24 and 40 channels take 0.74 and 0.80 (a Xeon with AMX), and 0.91; one with 48 1.02."""

_SOME = 0.25
"""The part of the convolutions that must be in groups that fill no whole blocks: a third is in ResNeXt.
RegNetZ has 0.19, and takes 1.09."""

_MOST = 0.8
"""The part of the convolutions' weights that must be of channels that fill no whole blocks. A pruned
ResNet-101 has 0.9, and takes 0.88, NF-RegNet 0.81 and 0.78; Xception has 0.75, and takes 1.02."""


def candidates(
    graph: ir.Graph, target: Target, providers: Collection[str], may_round: bool = True
) -> list[Choice]:
    """Return the choice among some engines, then that for the other engine, which may be faster.

    A form with fewer bits is a choice if the model `may_round`.
    """
    facts = _Multiplications(graph)
    threads = 1 if target.fewer_threads and facts.are_few else target.threads_of_request
    lean = Choice(target.provider or "onnxruntime", target.precision, threads, "by rule: ")
    if target.provider or "openvino" not in providers:
        return [lean._replace(why="" if target.provider or target.prefer == MEMORY else "the only engine")]
    packed = lean._replace(provider="openvino")
    half = target.precision == HALF
    computes_half = half and bool(sixteen_bit_type())
    # Without 16-bit arithmetic the engine gets the request, and warns that it stays in fp32.
    plain = lean._replace(precision=FP32) if computes_half else lean
    if not facts.is_fixed:
        return [lean._replace(why="by rule: its shapes are not fixed")]
    if facts.are_few:
        return _ordered(plain, packed, "it is small")
    if half and facts.read_weights and may_round:
        # A step of GPT-2: 0.68 of onnxruntime's time with an error of 0.0005; bfloat16 has 0.63 and 0.013.
        packed = packed._replace(precision=FP32, form=WEIGHTS_OF_16_BITS)
        return _ordered(packed, lean, "products of few rows read weights of 16 bits faster")
    if computes_half:
        # 36 networks above 1 ms: 0.44 to 0.69, but ConvNeXt 0.90; with AMX 0.2 to 0.6.
        return _ordered(packed, plain, "openvino computes in 16 bits")
    if facts.in_bytes and sums_of_bytes_overflow():
        return [lean._replace(why="by rule: its sums of integers are exact on this CPU")]
    if reason := facts.for_openvino(features()):
        return _ordered(packed, lean, reason)
    return _ordered(lean, packed, "no operators for which openvino is known to be faster here")


def _ordered(first: Choice, second: Choice, reason: str) -> list[Choice]:
    why = f"by rule: {reason}"
    return [first._replace(why=why), second._replace(why=why)]


class _Multiplications:
    """What the multiplications of a graph are, as far as weights and the shapes of inputs tell."""

    def __init__(self, graph: ir.Graph) -> None:
        self.is_fixed = all(
            value.shape is not None and all(isinstance(size, int) for size in value.shape)
            for value in graph.inputs
        )
        self._convolutions = self._volumes = self._broken = self._products = self._integers = 0
        self._kernels = self._odd = self._weights = self._sigmoids = self._controls = 0
        for node in nodes(graph):
            self._count(node)
        self._rows = _rows(graph) if self.is_fixed else 0
        self._elements = sum(math.prod(_sizes(value)) for value in graph.inputs) if self.is_fixed else 0

    def _count(self, node: ir.Node) -> None:
        kernel = _sizes(node.inputs[1]) if len(node.inputs) > 1 else ()
        if node.op_type.startswith("Conv"):
            groups = node.attributes.get_int("group", 1)
            self._convolutions += 1
            self._volumes += len(kernel) == 5 and min(kernel[2:]) > 1
            if groups == 1 and len(kernel) > 1:
                odd = any(channels % _BLOCK for channels in kernel[:2] if channels > _COLORS)
                self._kernels += math.prod(kernel)
                self._odd += odd * math.prod(kernel)
            self._broken += groups > 1 and len(kernel) > 1 and kernel[1] > 1 and kernel[1] % _BLOCK > 0
            self._integers += _is_of_integers(node)
        elif node.op_type in ("MatMul", "Gemm"):
            weight = _dequantized(node.inputs[1])
            if weight is not None and constant(weight) is not None:
                self._products += 1
                self._weights += math.prod(_sizes(weight))
                self._integers += _is_of_integers(node) and "amx_int8" in features()
        elif node.op_type in ("GRU", "LSTM", "RNN"):
            self._weights += sum(math.prod(_sizes(value)) for value in node.inputs[1:3])
        self._sigmoids += node.op_type == "Sigmoid"
        self._controls += node.op_type in ("If", "Loop", "Scan")

    @property
    def are_few(self) -> bool:
        """True for a small model, also by its inputs: not all multiplications are those of weights."""
        plain = self.is_fixed and not self._convolutions and not self._controls
        return plain and self._elements <= _SMALL / 100 and self._weights * self._rows <= _SMALL

    @property
    def read_weights(self) -> bool:
        """True if most of the time goes into reading the weights of products."""
        return not self._convolutions and self._rows <= _FEW_ROWS and self._weights > _SMALL

    @property
    def in_bytes(self) -> bool:
        """True if most convolutions, or with AMX most products with weights, are of integers."""
        counted = self._convolutions + (self._products if "amx_int8" in features() else 0)
        return self._integers * 2 > counted

    def for_openvino(self, there: Collection[str]) -> str:
        """Return why OpenVINO is expected to be the faster engine, "" if it is not."""
        if "avx2" not in there:
            return ""  # nothing was measured
        if self.in_bytes:
            # MobileNetV2 0.97, ResNet-50 0.96, BERT-base 0.82; with AMX 0.84, 0.42 and 0.66.
            return "its kernels for integers are faster"
        if self._volumes:
            # Three layers of 3x3x3: 0.73; a network of MindSpore on an EPYC with AVX2: 0.56; a Xeon: 0.3.
            return "convolutions of three dimensions"
        if "avx512f" not in there:
            # With AVX2, 43 networks take 1.07, and above 1 ms but three (0.56, 0.76, 0.84) at least 0.92.
            return ""
        if self._broken > _SOME * self._convolutions:
            return "convolutions in groups that fill no whole blocks"
        if self._odd > _MOST * self._kernels:
            return "convolutions whose channels fill no whole blocks"
        rows = self._rows if not self._convolutions else max(1, self._rows // _PATCH)
        amx = "amx_bf16" in there
        plain = self._convolutions <= _FEW_CONVOLUTIONS and (amx or not self._sigmoids)
        if plain and self._weights * rows > _LARGE and (rows > _FEW_ROWS or not amx):
            # BitNet 0.88, a step of GPT-2 0.89 (a Xeon with AMX: 1.04), ViT 0.93, PiT 0.94, BEiT 0.95,
            # BERT-base 0.98 (0.92), mT5 0.99. With SiLU: Granite 0.92, GLM 1.01, Cohere2 1.07, EVA-02 1.14;
            # with AMX: Phi-3 0.82, Mistral 0.87, StableLM 0.98.
            # With more convolutions: CoaT-Lite 0.75, TinyViT 1.00, MambaOut 1.19, ConvNeXt 1.25.
            return "a transformer"
        return ""


def _rows(graph: ir.Graph) -> int:
    """Return how many rows most products have: tokens, or else pixels, steps or samples of inputs."""
    shapes = [(value.dtype, _sizes(value)) for value in graph.inputs]
    tokens = [math.prod(sizes) for kind, sizes in shapes if kind in _TOKENS and len(sizes) <= 2]
    return min(tokens) if tokens else max((_places(sizes) for _, sizes in shapes), default=1)


_TOKENS = (ir.DataType.INT32, ir.DataType.INT64)


def _places(sizes: tuple[int, ...]) -> int:
    """Return the number of pixels of images, which have their channels first, and of steps or samples."""
    return math.prod(sizes) // max(1, sizes[1] if len(sizes) > 3 else sizes[-1]) if sizes else 1


def _sizes(value: ir.Value | None) -> tuple[int, ...]:
    if value is None or value.shape is None:
        return ()
    return tuple(size if isinstance(size, int) else 1 for size in value.shape)


def _dequantized(value: ir.Value | None) -> ir.Value | None:
    """Return the integers of a quantized value, else the value."""
    maker = None if value is None else value.producer()
    return value if maker is None or maker.op_type != "DequantizeLinear" else maker.inputs[0]


def _is_of_integers(node: ir.Node) -> bool:
    return all(_dequantized(value) is not value for value in node.inputs[:2])
