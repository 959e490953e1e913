"""Models that are converted in parts, by `[SplitGraph] split_node_name`, for `MultiModelRunner`.

The option is a list of pairs [[inputs],[outputs]], one for each executor, with names of nodes and of the
model's inputs. The graph is cut behind every node that is named. As in mindspore_lite, a part has all nodes
that its last node needs and no earlier part has; values that later parts read are outputs, too, and are
called after the nodes that compute them. An executor runs a range of parts. If it begins at values that are
computed, an executor for these goes before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from pinnace.distributed.segments import reads
from pinnace.errors import ConfigError, NotSupportedError

KEY = "pinnace.split"
"""The user info of a model that has parts: their files and the executors, as JSON."""

Pair = tuple[tuple[str, ...], tuple[str, ...]]
"""The inputs and outputs of an executor."""

_OPTION = "[SplitGraph] split_node_name"
_NAMES = r"\[([^\[\]]*)\]"
_PAIR = re.compile(rf"\[\s*{_NAMES}\s*,\s*{_NAMES}\s*\]")


@dataclass(frozen=True)
class Part:
    """One part of a model, with the names of its inputs and outputs."""

    model: ir.Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def serialized(self, source: str) -> bytes:
        """Return the part as an ONNX file. Raises NotSupportedError if it is too large for one."""
        try:
            return bytes(ir.to_proto(self.model).SerializeToString())
        except ValueError:  # of protobuf, over 2 GiB
            raise NotSupportedError(
                f"{source}: a part has more than 2 GiB of weights: split the model at more nodes, or let its "
                "weights be in a file of their own"
            ) from None


def take_pairs(sections: dict[str, Mapping[str, str]]) -> tuple[Pair, ...]:
    """Take the section out of a configuration, and return its pairs. Raises ConfigError."""
    keys = sections.pop("SplitGraph", None) or {}
    if unknown := sorted(keys.keys() - {"split_node_name"}):
        raise ConfigError(f"[SplitGraph] {unknown[0]} is not known: there is split_node_name")
    return pairs(keys.get("split_node_name", ""))


def pairs(text: str) -> tuple[Pair, ...]:
    """Return the pairs of an option, () for none. Raises ConfigError."""
    found = [(_names(one), _names(two)) for one, two in _PAIR.findall(text)]
    if re.sub(r"[\s,]", "", _PAIR.sub("", text)):
        raise ConfigError(
            f"{_OPTION}: {text!r} must be pairs of names: [[input],[output]],[[input],[output]]"
        )
    if not all(outputs for _, outputs in found):
        raise ConfigError(f"{_OPTION}: a pair names no output")
    return tuple(found)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def split(model: ir.Model, wanted: Sequence[Pair], file: str) -> list[Part]:
    """Return the parts of a model, and note them and the executors in its metadata.

    The parts' files will be called `file` with a number. Raises ConfigError.
    """
    cutter = _Cutter(model, wanted)
    parts = [cutter.part(number) for number in range(len(cutter.ends))]
    executors = list(_executors(parts, wanted, [i.name or "" for i in model.graph.inputs]))
    files = [f"{file}_{number}.mindir" for number in range(len(parts))]
    model.metadata_props[KEY] = json.dumps({"files": files, "executors": executors})
    return parts


class _Cutter:
    def __init__(self, model: ir.Model, wanted: Sequence[Pair]) -> None:
        self.model = model
        self.nodes = list(model.graph)
        self.number: dict[ir.Node, int] = {}
        """The part of each node that is needed."""
        inputs = {i.name for i in model.graph.inputs}
        named = {name for pair in wanted for names in pair for name in names} - inputs
        results = [node for v in model.graph.outputs if (node := v.producer()) is not None]
        known = {node.name: node for node in self.nodes if node.name}
        if missing := sorted(named - known.keys()):
            raise ConfigError(f"{_OPTION}: the model has no nodes {', '.join(map(repr, missing))}")
        last = {node.name for node in results}
        cuts = [node for node in self.nodes if node.name in named - last]
        several = [node.name for node in cuts if len([v for v in node.outputs if v.uses()]) > 1]
        if several:
            raise ConfigError(f"{_OPTION}: {several[0]!r} has several results: name the nodes behind it")
        self.ends = [[node] for node in cuts] + [results]
        for number, ends in enumerate(self.ends):
            self._take(ends, number)

    def _take(self, ends: Iterable[ir.Node], number: int) -> None:
        """Add nodes, and all that they need, to a part unless they are in one."""
        waiting = list(ends)
        while waiting:
            node = waiting.pop()
            if node not in self.number:
                self.number[node] = number
                waiting += [p for v in reads(node) if (p := v.producer()) is not None]

    def part(self, number: int) -> Part:
        own = [node for node in self.nodes if self.number.get(node) == number]
        given = [
            v
            for node in own
            for v in sorted(reads(node), key=lambda v: v.name or "")
            if self._outer(v, number)
        ]
        inputs, outputs = list(dict.fromkeys(given)), self._outputs(own, number)
        if unknown := [v.name for v in inputs if v.type is None]:
            raise ConfigError(
                f"{_OPTION}: the element type of {unknown[0]!r}, where parts meet, is not known"
            )
        graph = ir.convenience.extract(self.model.graph, inputs, outputs)
        for value, copied in (
            *zip(inputs, graph.inputs, strict=True),
            *zip(outputs, graph.outputs, strict=True),
        ):
            copied.name = called(value)
        graph.name = f"subgraph_{number}"
        made = ir.Model(graph, ir_version=self.model.ir_version)
        made.opset_imports.update(self.model.opset_imports)
        return Part(made, tuple(map(called, inputs)), tuple(map(called, outputs)))

    def _outer(self, value: ir.Value, number: int) -> bool:
        """Return True for a value that a part takes from others, or from the caller."""
        producer = value.producer()
        if producer is not None:
            return self.number[producer] != number
        return value.is_graph_input() and not value.is_initializer()

    def _outputs(self, own: Iterable[ir.Node], number: int) -> list[ir.Value]:
        """Return the values that other parts read, or that end a part."""
        ends, wanted = {*self.ends[number]}, {*self.model.graph.outputs}
        readers = {v for node, other in self.number.items() if other != number for v in reads(node)}
        return [
            v
            for node in own
            for v in node.outputs
            if v in readers or v in wanted or (node in ends and v.uses())
        ]


def called(value: ir.Value) -> str:
    """Return the name of a value where parts meet: that of its node."""
    node = value.producer()
    only = node is not None and len(node.outputs) == 1
    return (node.name if only and node is not None and node.name else value.name) or ""


def _executors(
    parts: Sequence[Part], wanted: Sequence[Pair], given: Sequence[str]
) -> Iterable[dict[str, Any]]:
    """Return the executors: the first and last part, the inputs and the outputs."""
    for inputs, outputs in wanted:
        first = [part for part in parts if {*inputs} & {*part.inputs}]
        taken = {name for part in first for name in part.inputs}
        between = parts[parts.index(first[0]) : parts.index(first[-1])] if first else ()
        taken -= {name for part in between for name in part.outputs if name not in inputs}
        if computed := sorted(taken - {*given}):
            yield _executor(parts, (), computed, given)
        yield _executor(parts, sorted(taken), outputs, given)


def _executor(
    parts: Sequence[Part], inputs: Sequence[str], outputs: Sequence[str], given: Sequence[str]
) -> dict[str, Any]:
    places = {name: number for number, part in enumerate(parts) for name in part.outputs}
    if missing := [name for name in outputs if name not in places]:
        raise ConfigError(
            f"{_OPTION}: no part gives {missing[0]!r}: name a node behind which the model is cut"
        )
    last = max(places[name] for name in outputs)
    first = min((n for n, part in enumerate(parts) if {*inputs} & {*part.inputs}), default=0)
    if first > last:
        raise ConfigError(f"{_OPTION}: {outputs[0]!r} is computed before {', '.join(map(repr, inputs))}")
    path = parts[first : last + 1]
    needed = dict.fromkeys(name for part in path for name in part.inputs)
    made = {name for part in path for name in part.outputs}
    lacking = [name for name in needed if name not in inputs and name not in made]
    if computed := [name for name in lacking if name not in given]:
        raise ConfigError(f"{_OPTION}: {outputs[0]!r} needs {computed[0]!r}, too: name it as an input")
    return {"parts": [first, last], "inputs": [*inputs, *lacking], "outputs": [*outputs]}
