"""The samples that show the speed of a machine: they are of the class of work that they name, and fill it."""

from collections import Counter
from math import prod

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from pinnace.bench import machine
from pinnace.bench.rewritten import _size, gains, rewritten
from pinnace.bench.samples import Sample, samples
from pinnace.engines.onnxruntime.compiling import OFF
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.speed.gains import NONE, Gains
from pinnace.engines.speed.work import CONVOLUTIONS, works

SAMPLES, REWRITTEN = list(samples()), list(rewritten())
QUICK = [x for x in REWRITTEN if x.kind not in OFF and ("winograd" not in x.kind or x.shape[1] < 128)]
"""Of rules that rewrite graphs; weights of more channels take long."""


def named(sample):
    return f"{sample.kind} {sample.shape}"


@pytest.mark.parametrize("sample", [*SAMPLES, *REWRITTEN], ids=named)
def test_a_chain_keeps_its_shape_so_that_parts_follow_each_other(sample):
    proto = ir.to_proto(sample.model(1))
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    weights = {x.name for x in proto.graph.initializer}
    assert len(weights) == len(proto.graph.initializer)
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True).graph.output[0]
    shape = tuple(d.dim_value for d in inferred.type.tensor_type.shape.dim)
    assert shape == sample.shape or not sample.times or sample.kind == "group_norm"  # ONNX infers nothing


def products(model):
    """Return the multiplications of convolutions and products with weights, by the shapes of ONNX."""
    proto = onnx.shape_inference.infer_shapes(ir.to_proto(model))
    shapes = {x.name: tuple(x.dims) for x in proto.graph.initializer}
    for value in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    found = []
    for node in proto.graph.node:
        if node.op_type == "Conv":
            found.append(prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:]))
        elif node.op_type == "MatMul":
            found.append(prod(shapes[node.output[0]]) * shapes[node.input[0]][-1])
    return found


@pytest.mark.parametrize("sample", SAMPLES[2:], ids=named)
def test_a_sample_is_mostly_of_its_class_and_whole_networks_would_count_it_so(sample):
    every = works(sample.model(1).graph)
    kinds = Counter(one.kind for one in every)
    assert kinds[sample.kind]
    counted = [one.amount for one in every if one.kind in {*CONVOLUTIONS, "product", "vector", "attention"}]
    assert counted == products(sample.model(1))


def test_the_longer_chain_is_one_part_of_the_whole():
    for sample in SAMPLES[1:8]:
        whole = sample.whole()
        same = sample.kind == "node" or not sample.times
        assert (whole is sample) == same
        if not same:
            count = len(list(sample.model(1 + sample.times).graph))
            assert (whole.times, len(list(whole.model(1).graph))) == (0, count)


def nodes(model):
    return [(node.op_type, [x and x.name for x in node.inputs]) for node in model.graph]


@pytest.mark.parametrize("sample", QUICK, ids=named)
def test_a_rule_changes_its_sample(sample):
    model = sample.model(1)
    before = nodes(model)
    gain = Gains({}, settings=f"{NONE} +{sample.kind}")
    rewrite(model, gain)
    assert nodes(model) != before
    assert _size(sample) or sample.kind.partition(":")[0] not in {"winograd", "attention", "sum_of_rows"}


def test_gains_are_geometric_means_of_the_time_with_a_rule_over_that_without(monkeypatch):
    monkeypatch.setattr("pinnace.bench.rewritten.rewritten", lambda: QUICK[:8])
    asked = []

    def seconds(sample, count, target):
        asked.append((sample.kind, target.rules))
        assert (count, target.provider) == (sample.times, "onnxruntime")
        return {1: 2.0, 2: 4.5}[target.threads] if target.rules == NONE else 1.0

    watched = []
    found = gains([1, 2], seconds, watched.append)
    assert watched == [sample.kind for sample in QUICK[:8]]
    assert {ratio for rows in found.values() for _, ratio in rows} == {round((1 / 2 / 4.5) ** 0.5, 3)}
    assert [len(found[kind]) for kind in found] == list(Counter(watched).values())
    assert asked[0][1] == f"{NONE} +{asked[0][0]}"


@pytest.mark.parametrize("times", [0, 3])
def test_what_is_known_of_other_classes_is_no_time_of_a_sample(times):
    sample = Sample("softmax", (4, 8), lambda b, x: b.op("Softmax", b.op("Add", x, 1.5), axis=-1), times)
    work = works(sample.model(1).graph)
    rates = {"call": [((), 100.0)], "node": [((), 10.0)], "elementwise": [((), 2.0)]}
    machine._note(rates, sample, work, 1000.0)
    moved = 2 * 32  # elements read and written
    left = 1000.0 - 2.0 * moved - 2 * 10.0 - (0 if times else 100.0)
    assert rates["softmax"] == [((8.0,), pytest.approx(left / moved))]
    np.testing.assert_equal(len(work), 2)
