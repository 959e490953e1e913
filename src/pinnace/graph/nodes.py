"""The nodes, constants and weights of a graph that is being written."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from blake3 import blake3

from pinnace import bounds
from pinnace.graph import schemas
from pinnace.graph.failures import Unsupported

DOMAIN = "pinnace.distributed"
"""Domain of the nodes at which ranks meet (`collective`)."""

ORIGIN = "pinnace.origin"
"""Key of what a node notes of itself: the names of the nodes of the file that it was made for."""

_KEY = 1 << 10
"""Bytes up to which a constant is known by what it holds, else by a digest of that."""
_OF_WEIGHTS = 4
"""Factor by which constants may be made of the weights: transposed, padded, for each gate."""
_MOST_VALUES = 1 << 17
"""Values that one graph may come to; only an attribute that is damaged asks for more."""


def origins(node: ir.Node) -> tuple[str, ...]:
    """The names of the nodes of the file that a node was made for; of an ONNX file's node, its own."""
    found: tuple[str, ...] = node.meta.get(ORIGIN) or (node.name or "",)
    return found


class Nodes:
    """Collects the nodes of one ONNX graph; nested graphs open a scope of their own."""

    def __init__(self, changing: Container[int] = (), prefix: str = "%") -> None:
        """`changing` are the ids of weights that will hold other values: these may decide nothing.

        New values have names of `prefix` and a number; where builders' values meet, prefixes must differ.
        """
        self.initializers: dict[str, ir.Value] = {}
        self.taken: set[str] = set()
        """The names of the graph's inputs; in a finished graph, of all its values."""
        self.origins: tuple[str, ...] = ()
        """The name of the node that is lowered; before it those of nodes whose result it replaces."""
        self.asked: set[ir.Value] = set()
        """Weights and constants whose value something was decided by."""
        self.held_back = False
        """True if the value of a weight that will change would have decided something."""
        self._changing = changing
        self._scopes: list[list[ir.Node]] = [[]]
        self._constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self._made = self._read = 0  # bytes of constants, and of weights
        self._weights: dict[int, ir.Value] = {}
        self._prefix, self._names = prefix, 0

    @property
    def nodes(self) -> list[ir.Node]:
        """The nodes of the innermost open graph."""
        return self._scopes[-1]

    @contextmanager
    def scope(self) -> Iterator[list[ir.Node]]:
        """Collect nodes for a nested graph."""
        self._scopes.append([])
        origins = self.origins
        try:
            yield self._scopes[-1]
        finally:
            self._scopes.pop()
            self.origins = origins

    def emit(
        self,
        op_type: str,
        outputs: int,
        operands: Sequence[ir.Value | None],
        attributes: Mapping[str, Any],
        domain: str = "",
    ) -> tuple[ir.Value, ...]:
        """Add a node with these operands and attributes."""
        if self._names + outputs > _MOST_VALUES:
            raise Unsupported(f"needs more than {_MOST_VALUES} values, which is too many for a model")
        given = [_attribute(name, value) for name, value in attributes.items()]
        node = ir.Node(domain, op_type, operands, given, num_outputs=outputs)
        node.meta[ORIGIN] = self.origins
        for output in node.outputs:
            output.name = self.fresh()
        schemas.give_types(node)
        self.nodes.append(node)
        return tuple(node.outputs)

    def fresh(self) -> str:
        """A name that nothing else has: of weights none begins so, and those of inputs are left out."""
        self._names += 1
        name = f"{self._prefix}{self._names}"
        return self.fresh() if name in self.taken else name

    def constant(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> ir.Value:
        """A constant tensor; equal ones are one value."""
        data = np.asarray(array, dtype)
        key = (data.dtype.name, data.shape, data.tobytes() if data.nbytes <= _KEY else _digest(data))
        if key not in self._constants:
            self._made += data.nbytes
            most = bounds.MADE + _OF_WEIGHTS * self._read
            if self._made > most:
                raise Unsupported(f"needs constants that take more than {most >> 20} MiB together")
            name = self.fresh()
            value = ir.Value(
                name=name,
                const_value=ir.tensor(data, name=name),
                shape=ir.Shape(data.shape),
                type=ir.TensorType(ir.tensor(data).dtype),
            )
            self._constants[key] = self.initializers[name] = value
        return self._constants[key]

    def weight(self, tensor: ir.TensorProtocol) -> ir.Value:
        """The value of a tensor that stays where it lies; the same tensor is one value."""
        known = self._weights.get(id(tensor))
        if known is None:
            name = tensor.name or self.fresh()
            name = f"weight{name}" if tensor.name and name.startswith("%") else name
            while name in self.initializers or name in self.taken:
                name = f"{name}_{self.fresh()}"
            known = ir.Value(
                name=name,
                const_value=tensor,
                shape=_shape_of(tensor),
                type=ir.TensorType(tensor.dtype),
            )
            self._weights[id(tensor)] = self.initializers[name] = known
            self._read += tensor.nbytes
        return known

    def known(self, value: Any) -> Any:
        """A value as Python or numpy sees it now; None where it is known only at run time."""
        if not isinstance(value, ir.Value):
            return value
        if self.changes(value):
            return None
        if value.const_value is not None:
            if value.const_value.dtype is ir.DataType.STRING:
                raise Unsupported(f"{value.name!r} is text, where a number is needed")
            self.asked.add(value)
            return value.const_value.numpy()
        node = value.producer()
        if node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
            return self.known(node.inputs[0])
        return None

    def changes(self, x: ir.Value) -> bool:
        """True for a weight that will hold other values: nothing may rest on its value or place."""
        changing = x.const_value is not None and id(x.const_value) in self._changing
        self.held_back = self.held_back or changing
        return changing


_ATTRIBUTES: dict[type, Callable[[str, Any], ir.Attr]] = {
    bool: ir.AttrInt64,
    int: ir.AttrInt64,
    float: ir.AttrFloat32,
    str: ir.AttrString,
}
_LISTS: dict[type, Callable[[str, Any], ir.Attr]] = {int: ir.AttrInt64s, float: ir.AttrFloat32s}


def _attribute(name: str, value: Any) -> ir.Attr:
    # onnx-ir's own conversion asks every value whether it keeps each of its protocols: most of the time
    # that lowering took.
    if type(value) in _ATTRIBUTES:
        return _ATTRIBUTES[type(value)](name, value)
    if isinstance(value, list | tuple) and value and type(value[0]) in _LISTS:
        return _LISTS[type(value[0])](name, value)
    return ir.convenience.convert_attribute(name, value)


def _shape_of(tensor: ir.TensorProtocol) -> ir.Shape:
    shape = tensor.shape
    return shape if isinstance(shape, ir.Shape) else ir.Shape(shape.numpy())


def _digest(data: npt.NDArray[Any]) -> bytes:
    return blake3(np.ascontiguousarray(data).view(np.uint8).data).digest(16)
