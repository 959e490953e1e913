"""Caffe's networks as ONNX: a `.prototxt` has the layers, a `.caffemodel` their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from pinnace.converter.caffe import layers, prototxt, weights
from pinnace.converter.caffe.layer import Layer
from pinnace.errors import ConfigError, ModelFormatError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.weights.source import SMALL, Source, check_shape

_IR_VERSION = 10
_DATA = ("Data", "ImageData", "HDF5Data", "WindowData", "MemoryData", "AnnotatedData")
"""Layers that read training data."""


def write(network: Source, weights_: Source, output: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write a network as an ONNX file; `shapes` are those of inputs that get others than the file says.

    Raises ModelFormatError, and UnsupportedModelError with all layers that have no rule.
    """
    try:
        text = bytes(network.data).decode()
    except UnicodeDecodeError:
        raise ModelFormatError(
            f"{network.name}: is not text: give the .prototxt, and the weights apart"
        ) from None
    graph = _Network(prototxt.parse(text, network.name), weights.read(weights_), shapes).graph()
    model = ir.Model(graph, ir_version=_IR_VERSION, producer_name="pinnace")
    ir.save(model, output, external_data=f"{output.name}.data", size_threshold_bytes=SMALL)


@dataclass
class _Network:
    net: prototxt.Message
    blobs: Mapping[str, list[ir.TensorProtocol]]
    shapes: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        self.builder = Builder()
        self.inputs: list[ir.Value] = []
        self.made: dict[str, ir.Value] = {}  # by the name of the blob, which a layer may overwrite
        self.read: set[ir.Value] = set()

    def graph(self) -> ir.Graph:
        """Return the whole network; its results are the blobs that no layer reads."""
        failed: list[tuple[str, str, str]] = []
        self._old_inputs()
        for message in [*self.net.messages("layer"), *self.net.messages("layers")]:
            if self._left_out(message):
                continue
            kind, name = layers.kind_of(message.get("type", "")), message.get("name", "")
            try:
                self._layer(message, kind, name)
            except Unsupported as error:
                failed.append((kind, str(error), name))
                for top in message.all("top", str):  # what reads it is not at fault
                    self.made[top] = ir.Value(name=top, type=ir.TensorType(ir.DataType.FLOAT))
        if failed:
            raise UnsupportedModelError(self.net.where, UnsupportedPrimitive.counted(failed))
        outputs = {name: x for name, x in self.made.items() if x not in self.read and x.producer()}
        if unknown := self.shapes.keys() - {x.name for x in self.inputs}:
            names = ", ".join(x.name or "" for x in self.inputs)
            raise ConfigError(f"{self.net.where}: has no input {', '.join(unknown)}; its inputs are {names}")
        if not outputs:
            raise ModelFormatError(f"{self.net.where}: has no layers that compute a result")
        taken = {x.name for x in self.inputs}  # a layer may write its result into an input
        for name, x in outputs.items():
            x.name = f"{name}_result" if name in taken else name
            self.builder.static_shape(x)
        b = self.builder
        return ir.Graph(
            self.inputs,
            list(outputs.values()),
            nodes=b.nodes,
            initializers=list(b.initializers.values()),
            opset_imports={"": b.opset},
            name="caffe",
        )

    def _old_inputs(self) -> None:
        """Declare inputs as networks did before there was a layer for them."""
        names, sizes = self.net.all("input", str), self.net.all("input_dim", int)
        rows = [m.all("dim", int) for m in self.net.messages("input_shape")]
        rows = rows or [sizes[i : i + 4] for i in range(0, len(sizes), 4)]
        if len(rows) != len(names):
            raise ModelFormatError(f"{self.net.where}: has {len(names)} inputs, and shapes of {len(rows)}")
        for name, dims in zip(names, rows, strict=True):
            self._input(name, dims)

    def _input(self, name: str, dims: list[int]) -> None:
        shape = self.shapes.get(name, tuple(dims))
        check_shape(f"{self.net.where}: input {name!r}", shape)
        value = ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))
        self.inputs.append(value)
        self.made[name] = value

    def _left_out(self, message: prototxt.Message) -> bool:
        """Return True for layers of the training."""
        phases = [rule.get("phase", "TEST") for rule in message.messages("include")]
        return bool(phases and "TEST" not in phases) or any(
            rule.get("phase", "") == "TEST" for rule in message.messages("exclude")
        )

    def _layer(self, message: prototxt.Message, kind: str, name: str) -> None:
        where, tops = self.net.where, message.all("top", str)
        if kind in _DATA:
            raise ModelFormatError(
                f"{where}: layer {name!r} reads training data: give the network's deploy.prototxt"
            )
        if kind == "Input":
            rows = [m.all("dim", int) for m in message.message("input_param").messages("shape")]
            if not rows:
                raise ModelFormatError(f"{where}: input {name!r} has no shape")
            for i, top in enumerate(tops):
                self._input(top, rows[min(i, len(rows) - 1)])
            return
        bottoms = []
        for bottom in message.all("bottom", str):
            if bottom not in self.made:
                raise ModelFormatError(
                    f"{where}: layer {name!r} reads {bottom!r}, which no layer before it makes"
                )
            bottoms.append(self.made[bottom])
        if any(x.shape is None and x.producer() is None for x in bottoms):
            raise Unsupported("reads what was not converted")
        self.builder.origins = (name,)
        layer = Layer(name, kind, bottoms, self.blobs.get(name, []), max(1, len(tops)), message)
        results = layers.write(self.builder, layer)
        self.read.update(bottoms)
        for top, result in zip(tops, results, strict=False):
            self.made[top] = result
