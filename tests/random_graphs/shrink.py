"""A failing case, cut down as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from tests.random_graphs import oracle
from tests.random_graphs.draft import type_of
from tests.random_graphs.dress import Case
from tests.random_graphs.judge import Verdict

Trial = Callable[[Case], Verdict]
_MOST = 150
"""Trials; a few tens are the usual."""


def shrunk(case: Case, verdict: Verdict, trial: Trial) -> tuple[Case, Verdict]:
    """The smallest case found that fails in the same way, and its verdict."""
    left, before = _MOST, None
    while before is not case:
        before = case
        for step in _STEPS:
            smaller = iter(step(case))
            while left and (tried := next(smaller, None)) is not None:
                left -= 1
                found = trial(tried)
                if found.kind == verdict.kind:
                    case, verdict = tried, found
                    smaller = iter(step(case))
    return case, verdict


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _tidied(model: ModelProto, feed: dict[str, np.ndarray]) -> Case:
    """Without nodes, constants and inputs that nothing needs."""
    graph = model.graph
    wanted = {o.name for o in graph.output}
    kept = []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= {i for i in node.input if i} | _inner(node)
    del graph.node[:]
    graph.node.extend(kept[::-1])
    for field in (graph.initializer, graph.input):
        rest = [x for x in field if x.name in wanted]
        del field[:]
        field.extend(rest)
    used = {n.domain for g in oracle.graphs(graph) for n in g.node}
    if "local" not in used:
        del model.functions[:]
    return Case(model, {n: v for n, v in feed.items() if n in {i.name for i in graph.input}})


def _inner(node: onnx.NodeProto) -> set[str]:
    nested = [g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for g in oracle.graphs(a.g)]
    return {i for g in nested for n in g.node for i in n.input} | {o.name for g in nested for o in g.output}


def one_node(case: Case) -> Iterator[Case]:
    """A node by itself, with the inputs that it has in the whole."""
    if len(case.model.graph.node) == 1:
        return
    held = {**case.feed, **oracle.between(case.model, case.feed)}
    constants = {t.name: t for t in case.model.graph.initializer}
    for node in case.model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.from_array(held[node.output[0]], node.output[0])
            continue
        model = _copy(case.model)
        model.graph.ClearField("output")
        model.graph.ClearField("node")
        model.graph.ClearField("input")
        model.graph.ClearField("initializer")
        model.graph.node.append(node)
        reads = [*dict.fromkeys((*node.input, *_inner(node)))]
        model.graph.initializer.extend(constants[i] for i in reads if i in constants)
        given = {i: held[i] for i in reads if i in held and i not in constants}
        model.graph.input.extend(helper.make_value_info(i, type_of(v)) for i, v in given.items())
        outputs = [(o, held[o]) for o in node.output if o in held]
        model.graph.output.extend(helper.make_value_info(o, type_of(v, [None] * v.ndim)) for o, v in outputs)
        if outputs:
            yield _tidied(model, given)


def _fewer_outputs(case: Case) -> Iterator[Case]:
    for output in case.model.graph.output if len(case.model.graph.output) > 1 else ():
        model = _copy(case.model)
        del model.graph.output[:]
        model.graph.output.append(output)
        yield _tidied(model, case.feed)


def _cut_behind(case: Case) -> Iterator[Case]:
    """What a node in the middle gives is the only output."""
    held = oracle.between(case.model, case.feed)
    ends = {o.name for o in case.model.graph.output}
    for name, value in held.items():
        if name in ends and len(ends) == 1:
            continue
        model = _copy(case.model)
        del model.graph.output[:]
        model.graph.output.append(helper.make_value_info(name, type_of(value, [None] * value.ndim)))
        yield _tidied(model, case.feed)


def _cut_before(case: Case) -> Iterator[Case]:
    """What a node gives is given to the model."""
    ends = {o.name for o in case.model.graph.output}
    for name, value in reversed(oracle.between(case.model, case.feed).items()):
        if name in ends or name.endswith(".old"):
            continue
        model = _copy(case.model)
        for node in model.graph.node:
            for place, output in enumerate(node.output):
                if output == name:
                    node.output[place] = f"{name}.old"
        model.graph.input.append(helper.make_value_info(name, type_of(value)))
        yield _tidied(model, {**case.feed, name: value})


def _bypassed(case: Case) -> Iterator[Case]:
    """A node is left out, where what it reads has the shape of what it gives."""
    held = {**case.feed, **oracle.between(case.model, case.feed)}
    for place, node in enumerate(case.model.graph.node):
        for source in node.input:
            if source in held and node.output[0] in held and _alike(held[source], held[node.output[0]]):
                model = _copy(case.model)
                model.graph.node[place].CopyFrom(helper.make_node("Identity", [source], [node.output[0]]))
                if node.op_type != "Identity":
                    yield _tidied(model, case.feed)


def _alike(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape


def _fewer_attributes(case: Case) -> Iterator[Case]:
    for place, node in enumerate(case.model.graph.node):
        for attribute in node.attribute:
            if attribute.type != onnx.AttributeProto.GRAPH and node.op_type != "Constant":
                model = _copy(case.model)
                rest = [a for a in node.attribute if a.name != attribute.name]
                del model.graph.node[place].attribute[:]
                model.graph.node[place].attribute.extend(rest)
                yield _tidied(model, case.feed)


def _fixed(case: Case) -> Iterator[Case]:
    """Dimensions are those of the run."""
    model = _copy(case.model)
    for info in model.graph.input:
        info.type.CopyFrom(type_of(case.feed[info.name]))
    if model != case.model:
        yield _tidied(model, case.feed)


def _as_initializers(case: Case) -> Iterator[Case]:
    """Constant nodes become initializers."""
    for place, node in enumerate(case.model.graph.node):
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            model = _copy(case.model)
            tensor = model.graph.node[place].attribute[0].t
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
            del model.graph.node[place]
            yield _tidied(model, case.feed)


def _smaller(case: Case) -> Iterator[Case]:
    """Dimensions of one size everywhere are made smaller."""
    arrays = {**case.feed, **{t.name: numpy_helper.to_array(t) for t in case.model.graph.initializer}}
    sizes = sorted({s for v in arrays.values() for s in v.shape if s > 1}, reverse=True)
    for size in sizes:
        for less in dict.fromkeys((1, 2, size // 2, size - 1)):
            if less < size:
                for only in (None, *arrays):
                    yield _cut(case, arrays, size, less, only)


def _cut(case: Case, arrays: dict[str, np.ndarray], size: int, less: int, only: str | None) -> Case:
    model, feed = _copy(case.model), dict(case.feed)
    for name, value in arrays.items():
        if only not in (None, name):
            continue
        cut = np.ascontiguousarray(
            value[tuple(slice(less) if s == size else slice(None) for s in value.shape)]
        )
        if cut.shape == value.shape:
            continue
        if name in feed:
            feed[name] = cut.reshape(cut.shape if value.ndim else ())
            for info in model.graph.input:
                if info.name == name:
                    info.type.CopyFrom(type_of(cut))
        for tensor in model.graph.initializer:
            if tensor.name == name:
                tensor.CopyFrom(numpy_helper.from_array(cut, name))
    for output in model.graph.output:
        for dim in output.type.tensor_type.shape.dim:
            dim.Clear()
    return _tidied(model, feed)


def _plainer(case: Case) -> Iterator[Case]:
    """Elements become small whole numbers."""
    for name, value in case.feed.items():
        plain = value.copy()
        if value.dtype.kind == "f":
            plain = np.rint(np.nan_to_num(value.astype(np.float64), posinf=9, neginf=-9).clip(-9, 9)).astype(
                value.dtype
            )
        elif value.dtype.kind in "iu":
            plain = value.astype(np.int64).clip(0, 9).astype(value.dtype)
        if value.dtype.kind in "fiu" and not np.array_equal(plain, value):
            yield Case(case.model, {**case.feed, name: plain})


_STEPS = (
    one_node,
    _fewer_outputs,
    _cut_behind,
    _cut_before,
    _bypassed,
    _as_initializers,
    _fixed,
    _fewer_attributes,
    _smaller,
    _plainer,
)
