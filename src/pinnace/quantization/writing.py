"""Nodes and constants that take the place of an operator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.quantization.operators import Operator
from pinnace.types import Array


class Site:
    """The place of an operator in its graph, for the nodes that replace it, or that come after it."""

    def __init__(self, operator: Operator, after: bool = False) -> None:
        assert isinstance(operator.node.graph, ir.Graph)
        self._operator, self._graph, self._count = operator, operator.node.graph, 0
        self._last = operator.node if after else None

    def op(self, op_type: str, *inputs: ir.Value | None, domain: str = "", **attributes: Any) -> ir.Value:
        """Write a node with one output."""
        return self.ops(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, op_type: str, outputs: int, *inputs: ir.Value | None, domain: str = "", **attributes: Any
    ) -> tuple[ir.Value, ...]:
        """Write a node with several outputs."""
        node = ir.node(op_type, inputs, attributes, domain=domain, num_outputs=outputs)
        for output in node.outputs:
            output.name = self._fresh()
        if self._last is None:
            self._graph.insert_before(self._operator.node, node)
        else:
            self._graph.insert_after(self._last, node)
            self._last = node
        return tuple(node.outputs)

    def constant(self, array: Array) -> ir.Value:
        """Add a constant."""
        return self.held(ir.Tensor(np.ascontiguousarray(array).reshape(array.shape)))

    def held(self, tensor: ir.TensorProtocol) -> ir.Value:
        """Add a constant that is computed when it is read."""
        tensor.name = self._fresh()
        value = ir.Value(name=tensor.name, const_value=tensor, shape=ir.Shape(tensor.shape.numpy()))
        value.type = ir.TensorType(tensor.dtype)
        self._graph.register_initializer(value)
        return value

    def finish(self, new: ir.Value, has_bias: bool = False) -> None:
        """Give `new` the name and the readers of the operator's result, after the bias of a Gemm."""
        node, old = self._operator.node, self._operator.last
        if node.op_type == "Gemm" and len(node.inputs) > 2 and node.inputs[2] is not None and not has_bias:
            new = self.op("Add", new, node.inputs[2])
        new.type, new.shape = old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name, new.name = new.name, old.name
        for dead in filter(None, (self._operator.norm, node)):
            self._graph.remove(dead, safe=True)

    def _fresh(self) -> str:
        """Return a name that no constant has: an operator may be replaced more than once."""
        names = (f"{self._operator.name}/bits{self._count + i}" for i in itertools.count(1))
        name = next(name for name in names if name not in self._graph.initializers)
        self._count = int(name.rpartition("bits")[2])
        return name
