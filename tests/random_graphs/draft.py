"""A graph that is being made: every node is tried on the oracle before it stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from tests.random_graphs import values
from tests.random_graphs.oracle import run

from pinnace.engines import elements

IR_VERSION = 10
ROOM = 1 << 20
"""Elements that a value may have."""


class Refused(Exception):
    """The oracle takes a node, or a graph, for wrong."""


_RIGHT = json.loads(Path(elements.__file__).with_suffix(".json").read_text(encoding="utf-8"))["onnxruntime"]
"""Positions of inputs that may lack elements, by operator."""


class Draft:
    """Nodes, and what their values hold in one run.

    `leaves` are values that no node makes; `fixed` are those of them that have to be constants. `taps` are
    values between that the graph gives beside its last ones. A chain that is `plain` is as compilers expect it.
    """

    def __init__(self, rng: Generator, opset: int, tame: bool = False) -> None:
        self.rng, self.opset = rng, opset
        self.wild, self.tame = bool(rng.random() < 0.12) and not tame, tame
        self.nodes: list[NodeProto] = []
        self.values: dict[str, Any] = {}
        self.leaves: dict[str, np.ndarray] = {}
        self.fixed: set[str] = set()
        self.taps: set[str] = set()
        self.mutates = self.plain = False

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choice(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def leaf(self, array: Any, dtype: Any = None, fixed: bool = False) -> str:
        """A value that is given: an input, or a constant."""
        try:
            array = np.asarray(array, dtype)
        except OverflowError:
            raise Refused("no number of this type") from None
        if array.dtype == object and not all(isinstance(text, str) for text in array.flat):
            raise Refused("no text")
        if array.dtype == np.float64 and dtype is None:
            array = array.astype(np.float32)
        name = f"c{len(self.leaves)}"
        self.leaves[name] = self.values[name] = array
        if fixed:
            self.fixed.add(name)
        return name

    def random(self, shape: Iterable[int], dtype: Any = np.float32, fixed: bool = False) -> str:
        return self.leaf(values.array(self.rng, np.dtype(dtype), tuple(shape), self.wild), dtype, fixed)

    def positive(self, shape: Iterable[int], dtype: Any = np.float32, fixed: bool = False) -> str:
        return self.leaf(self.rng.integers(1, 9, tuple(shape)) / 4, dtype, fixed)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(np.shape(self.values[name]))

    def dtype(self, name: str) -> np.dtype:
        return np.asarray(self.values[name]).dtype

    def existing(self, fits: Callable[[np.ndarray], bool]) -> str | None:
        """A value that nodes have made, or that is given, of some kind; the latest ones first."""
        names = [
            n for n, v in self.values.items() if isinstance(v, np.ndarray) and n not in self.fixed and fits(v)
        ]
        computed = [n for n in names if n not in self.leaves]
        if computed and self.chance(0.7):
            return computed[-1]
        return str(self.rng.choice(names)) if names else None

    def op(self, op_type: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add a node, and give the name of its output; of several, a list."""
        made = [f"v{len(self.nodes)}{'abcdefgh'[i]}" for i in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        node = helper.make_node(op_type, list(inputs), made, domain=domain, **given)
        self.append(node)
        return made[0] if outputs == 1 else made

    def append(self, node: NodeProto) -> None:
        """Add a node, if the oracle computes it."""
        found = self._tried(node)
        if any(isinstance(y, np.ndarray) and y.size > ROOM for y in found):
            raise Refused("too large")
        self.nodes.append(node)
        self.values.update(zip((o for o in node.output if o), found, strict=True))
        if self.mutates:
            self._mutate(node)

    def _mutate(self, node: NodeProto) -> None:
        """Let the caller or a branch read a value of a chain, too, or put something after it that does little."""
        if self.chance(0.08):
            self.taps.add(node.output[0])
        if self.chance(0.06):
            self.mutates = False
            try:
                if self.chance(0.3):
                    self._branch(node.output[0])
                else:
                    self.op(self.choice("Abs", "Neg", "Relu", "Identity", "Sqrt"), node.output[0])
            except Refused:
                pass
            finally:
                self.mutates = True

    def _branch(self, name: str) -> None:
        """An If, the graphs of which read a value around them."""
        kind = type_of(self.values[name], [None] * self.values[name].ndim)
        graphs = []
        for inner in (f"{name}.{len(self.nodes)}.{i}" for i in range(2)):
            reader = helper.make_node("Identity", [name], [inner])
            graphs.append(helper.make_graph([reader], "branch", [], [ValueInfoProto(name=inner, type=kind)]))
        self.op("If", self.leaf(self.chance(0.5), np.bool_), then_branch=graphs[0], else_branch=graphs[1])

    def _tried(self, node: NodeProto) -> list[Any]:
        names = dict.fromkeys(i for i in (*node.input, *_captured(node)) if i)
        if not self._may_be_tried(node):
            raise Refused("onnxruntime alone may end the process")
        constants = [n for n in names if n in self.fixed]
        inputs = [helper.make_value_info(n, type_of(self.values[n])) for n in names if n not in self.fixed]
        tensors = [numpy_helper.from_array(self.values[n], n) for n in constants]
        outputs = [onnx.ValueInfoProto(name=o) for o in node.output if o]
        graph = helper.make_graph([node], "one", inputs, outputs, tensors)
        try:
            model = model_of(graph, self.opset)
            return list(run(model, {i.name: self.values[i.name] for i in inputs}))
        except Exception as error:
            raise Refused(f"{node.op_type}: {error}") from None

    def _may_be_tried(self, node: NodeProto) -> bool:
        """False if an input lacks elements, and the operator is not known to be right without them."""
        right = _RIGHT.get(f"{node.domain}:{node.op_type}" if node.domain else node.op_type, ())
        given = ((place, self.values[name]) for place, name in enumerate(node.input) if name)
        empty = {place for place, x in given if isinstance(x, np.ndarray) and not x.size}
        return -1 in right or empty <= {*right}

    def ends(self) -> list[str]:
        """The values that nothing reads."""
        read = {i for n in self.nodes for i in (*n.input, *_captured(n))}
        return [o for n in self.nodes for o in n.output if o and o not in read]


def _captured(node: NodeProto) -> list[str]:
    """What graphs within a node read of those around it."""
    found: list[str] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            own = {o for n in graph.node for o in n.output} | {
                v.name for v in (*graph.input, *graph.initializer)
            }
            reads = [i for n in graph.node for i in (*n.input, *_captured(n)) if i and i not in own]
            found += [*reads, *(o.name for o in graph.output if o.name not in own)]
    return found


def type_of(value: Any, shape: Any = None) -> onnx.TypeProto:
    """The type of an array, or of a list of them."""
    if isinstance(value, np.ndarray):
        kind = (
            TensorProto.STRING if value.dtype.kind in "OSU" else helper.np_dtype_to_tensor_dtype(value.dtype)
        )
        return helper.make_tensor_type_proto(kind, value.shape if shape is None else shape)
    if isinstance(value, list) and value:
        return helper.make_sequence_type_proto(type_of(value[0], [None] * value[0].ndim))
    raise Refused("nothing that could be given")


def model_of(graph: onnx.GraphProto, opset: int, functions: Any = ()) -> ModelProto:
    """A model of the operator set, with what of other domains is in use."""
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3 if opset < 21 else 5)]
    opsets += [helper.make_opsetid(f.domain, 1) for f in functions][:1]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, functions=list(functions))
