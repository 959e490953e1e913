"""What is tried: calls of single operators, of ONNX's own tests and random ones, and random graphs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from tests.random_graphs.draft import Draft, Refused, model_of, type_of
from tests.random_graphs.generate import _MISFITS, case
from tests.random_graphs.operators import add_any

Feed = Mapping[str, np.ndarray]
Place = tuple[str, int]
"""A dimension of an input."""

_RANDOM = ("Bernoulli", "Dropout", "Multinomial", "Random")
_OPSETS = (13, 17, 21)


@dataclass(frozen=True)
class Call:
    """A model, and a request that it answers."""

    name: str
    model: ModelProto
    feed: Feed


@cache
def of_onnx() -> list[Call]:
    """ONNX's own tests of operators that take and give tensors."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of the values that the cases hold
        cases = collect_testcases(None)
    found = []
    for one in cases:
        nodes = () if one.model is None else one.model.graph.node
        if len(nodes) != 1 or not one.data_sets or nodes[0].op_type.startswith(_RANDOM):
            continue
        given = one.data_sets[0][0]
        arrays = [numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in given]
        names = [i.name for i in one.model.graph.input]
        if len(arrays) == len(names) and all(isinstance(x, np.ndarray | np.generic) for x in arrays):
            found.append(Call(one.name, one.model, dict(zip(names, map(np.asarray, arrays), strict=True))))
    return found


@cache
def of_others() -> list[Call]:
    """Calls of operators of other domains, and with all of their inputs free."""
    from tests.requests.calls import CALLS

    rng, found = np.random.default_rng(0), []
    for call in CALLS:
        feed, constants = call.arrays(rng)
        for kept in {frozenset(constants), frozenset()}:
            given = {name: array for name, array in feed.items() if name not in kept}
            found.append(Call(call.name, call.model(feed, set(kept), False), given))
    return found


def random(seed: int, number: int) -> Call | None:
    """A random call of one operator."""
    rng = np.random.default_rng([seed, number])
    d = Draft(rng, int(rng.choice(_OPSETS)))
    try:
        add_any(d)
    except (Refused, *_MISFITS):
        return None
    if len(d.nodes) != 1 or d.nodes[0].op_type.startswith(_RANDOM):
        return None
    read = [name for name in d.leaves if name in d.nodes[0].input]
    outputs = [o for o in d.nodes[0].output if o and isinstance(d.values.get(o), np.ndarray)]
    feed = {name: d.leaves[name] for name in read if name not in d.fixed}
    if not feed or not outputs:
        return None
    kept = [numpy_helper.from_array(d.leaves[name], name) for name in read if name in d.fixed]
    inputs = [helper.make_value_info(name, type_of(x, x.shape)) for name, x in feed.items()]
    given = [helper.make_value_info(o, type_of(d.values[o], d.values[o].shape)) for o in outputs]
    graph = helper.make_graph(d.nodes, "call", inputs, given, kept)
    return Call(f"random call {number}", model_of(graph, d.opset, []), feed)


def graph(seed: int, number: int) -> Call | None:
    """A random graph."""
    found = case(seed, number)
    if not found.feed or any(node.op_type.startswith(_RANDOM) for node in found.model.graph.node):
        return None
    return Call(f"random graph {number}", found.model, found.feed)


def free(model: ModelProto) -> ModelProto:
    """The model with all dimensions of its inputs and outputs free."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for value in (*copy.graph.input, *copy.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    del copy.graph.value_info[:]
    return copy


def inside(call: Call, places: frozenset[Place]) -> tuple[Call, Feed] | None:
    """The call with these dimensions cut as the request says, and a request that cuts them to 0."""
    opset = next((o.version for o in call.model.opset_import if not o.domain), None)
    if opset is None or opset < 10:
        return None
    model, feed, nothing, nodes = free(call.model), dict(call.feed), dict(call.feed), []
    for number, (name, axis) in enumerate(sorted(places)):
        size, cut = f"size_of_{number}", f"cut_{number}"
        model.graph.input.append(helper.make_tensor_value_info(size, onnx.TensorProto.BOOL, [None]))
        feed[size] = np.zeros(call.feed[name].shape[axis] + 1, bool)
        nothing[size] = np.zeros(1, bool)
        for value, array in ((f"{cut}_0", [0]), (f"{cut}_1", [1]), (f"{cut}_axis", [axis])):
            model.graph.initializer.append(numpy_helper.from_array(np.array(array), value))
        nodes.append(helper.make_node("Shape", [size], [f"{cut}_shape"]))
        nodes.append(helper.make_node("Sub", [f"{cut}_shape", f"{cut}_1"], [f"{cut}_end"]))
        nodes.append(helper.make_node("Slice", [name, f"{cut}_0", f"{cut}_end", f"{cut}_axis"], [cut]))
        for node in (*model.graph.node, *nodes[:-1]):
            for place, value in enumerate(node.input):
                if value == name:
                    node.input[place] = cut
        if any(value.name == name for value in model.graph.output):
            return None
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])
    return Call(call.name, model, feed), nothing
