"""Changes of a finished graph: new nodes before or after others, values in the places of others."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.inference import opset_of
from pinnace.graph.matching import is_read
from pinnace.graph.nodes import origins
from pinnace.graph.walk import nodes


class Editor(Builder):
    """Writes nodes for a model with the builder's operators.

    They wait in `nodes` until they are inserted. `finish` adds the constants. Names begin with `prefix`.
    """

    def __init__(self, model: ir.Model, prefix: str, opset: int | None = None) -> None:
        super().__init__(opset=opset or opset_of(model), prefix=prefix)
        self.model = model
        self.taken = {output.name or "" for node in nodes(model.graph) for output in node.outputs}
        self.taken.update(model.graph.initializers, (value.name or "" for value in model.graph.inputs))

    def insert_before(self, node: ir.Node) -> None:
        """Insert what was written before a node of the model or of its nested graphs."""
        assert node.graph is not None
        node.graph.insert_before(node, self._written())

    def insert_after(self, node: ir.Node) -> None:
        """Insert what was written after a node of the model or of its nested graphs."""
        assert node.graph is not None
        node.graph.insert_after(node, self._written())

    def append(self) -> None:
        """Append what was written to the model's graph."""
        self.model.graph.extend(self._written())

    def _written(self) -> list[ir.Node]:
        written = list(self.nodes)
        self.nodes.clear()
        for node in written:
            node.version = self.opset
        return written

    def put_before(self, node: ir.Node, new: ir.Value) -> None:
        """Insert what was written before a node, and let `new` replace the node's first output."""
        if new.producer() is None and node.outputs[0].is_graph_output():  # of a nested graph, perhaps
            new = self.op("Identity", new)
        self.insert_before(node)
        replace_value(node.outputs[0], new)
        remove_unread(node)

    def follow(self, node: ir.Node) -> None:
        """Write for a node of the model: what is written has its origins."""
        self.nodes.clear()
        self.origins = origins(node)

    def finish(self) -> None:
        """Add the constants that nodes read to the model."""
        for value in self.initializers.values():
            if is_read(value):
                self.model.graph.register_initializer(value)
        self.initializers = {}


def replace_value(old: ir.Value, new: ir.Value, reader: ir.Node | None = None) -> None:
    """Give a value's name, type, shape and readers to another; `reader` still reads the old one."""
    new.type = old.type or new.type  # nothing may be known of the old one yet
    new.shape = new.shape if old.shape is None else old.shape
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name, new.name = new.name, old.name
    if reader is not None:
        for place, value in enumerate(reader.inputs):
            if value is new:
                reader.replace_input_with(place, old)


def remove_unread(node: ir.Node) -> None:
    """Remove a node if nothing reads its outputs, then nodes that only it read."""
    pending = [node]
    while pending:
        dead = pending.pop()
        if dead.graph is None or any(map(is_read, dead.outputs)):
            continue
        before = [value.producer() for value in dead.inputs if value is not None]
        dead.graph.remove(dead, safe=True)
        pending += [producer for producer in before if producer is not None]
