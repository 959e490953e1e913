"""Names of the results of a MindIR graph.

MindSpore Lite's converter writes names of the original model into the declared types of nodes. MindSpore
writes none, but records for each node the layer that it belongs to (`NodeProto.domain`). mindspore_lite 2.0.0
was observed to show the former if present, else the latter; names of values are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pinnace import program_structure as structure
from pinnace.formats.messages import Proto
from pinnace.program import Function, Literal

# Limits of nested tuples and of visited values: damaged files can make them endless.
_DEEPEST, _MOST = 50, 10_000

_Names = str | list["_Names"]


class Namer:
    """Names the results of a graph; `function` is the result of reading it."""

    def __init__(self, graph: Proto, function: Function) -> None:
        self._protos = {proto.output[0]: proto for proto in graph.node if proto.output}
        self._inputs = {port.name: port.tensor[0].name for port in graph.input if port.tensor}
        self._nodes = {node.outputs[0]: node for node in function.nodes}
        self._constants: Mapping[str, Literal] = function.constants
        self._prefix = f"{graph.name}:"
        self._left = _MOST

    def names(self, value: str) -> list[str]:
        """Return the name of a value, or of each item of a tuple."""
        return list(_flat(self._of(value, 0)))

    def _of(self, value: str, depth: int) -> _Names:
        node = self._nodes.get(value)
        self._left -= 1
        if node is None or self._left < 0 or depth > _DEEPEST:
            return self._inputs.get(value) or self._plain(value)
        match node.primitive, node.inputs:
            case structure.TUPLE, items:
                return [self._of(item, depth + 1) for item in items if self._left > 0]
            case structure.ORDERED, (first, *_):
                return self._of(first, depth + 1)
            case structure.ITEM, (whole, index):
                names, place = self._of(whole, depth + 1), self._constants.get(index)
                known = isinstance(names, list) and isinstance(place, int) and 0 <= place < len(names)
                return names[place] if known else self._declared(value)  # type: ignore[index]
        return self._declared(value)

    def _declared(self, value: str) -> _Names:
        proto = self._protos[value]
        scope = proto.domain or self._plain(value)
        for attribute in proto.attribute:
            if attribute.name == "shape" and attribute.values:
                parts = enumerate(attribute.values)
                return [_name(part) or (f"{scope}:{place}" if place else scope) for place, part in parts]
            if attribute.name == "shape":
                return _name(attribute) or scope
        return scope

    def _plain(self, value: str) -> str:
        return value.removeprefix(self._prefix)


def _name(attribute: Proto) -> str:
    return attribute.tensors[0].name if attribute.tensors else ""


def _flat(names: _Names) -> Iterator[str]:
    if isinstance(names, str):
        yield names
    else:
        for name in names:
            yield from _flat(name)
