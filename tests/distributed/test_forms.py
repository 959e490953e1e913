"""Operators between two products, cut for two ranks: these compute what onnxruntime does, and tell little.

Between two products the columns of the first are split among the ranks, as Megatron-LM has it (arXiv
1909.08053). An operator that keeps columns apart leaves one sum at the end; any other is an AllGather more.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from pinnace.deferred import import_onnx_ir

import_onnx_ir()

from pinnace.distributed.shard import costs  # noqa: E402
from pinnace.distributed.shard.cutting import shard  # noqa: E402

TOLERANCE = 1e-5  # of the largest value: the sums of the ranks come in another order
LAST = "y = MatMul(b, w_64x32)"

FORMS = {
    # name: (collectives, nodes after a = MatMul(x, w_32x64)[, operator set])
    "rows from the end": (1, f"b = Slice(a, i_m2, i_99, i_m2) {LAST}"),
    "rows of a slice without axes": (1, f"b = Slice(a, i_1, i_3) {LAST}"),
    "every second row": (1, f"b = Slice(a, i_0, i_3, i_0, i_2) {LAST}"),
    "rows in reverse": (1, f"b = Slice(a, i_m1, i_m99, i_0, i_m1) {LAST}"),
    "columns of a slice": (2, "b = Slice(a, i_1, i_33, i_m1) y = MatMul(b, w_32x32)"),
    "every second column": (2, "b = Slice(a, i_0, i_64, i_1, i_2) y = MatMul(b, w_32x32)"),
    "rows by attributes": (1, f"b = Slice<starts=[-2], ends=[3], axes=[0]>(a) {LAST}", 9),
    "two parts of rows": (1, f"p, q = Split<axis=-2>(a, i_1_2) b = Add(q, p) {LAST}"),
    "three parts of rows": (1, f"p, q, r = Split<num_outputs=3>(a) s = Sub(q, p) b = Mul(s, r) {LAST}"),
    "parts of rows by an attribute": (1, f"p, q = Split<split=[1, 2]>(a) b = Add(q, p) {LAST}", 11),
    "two halves": (1, "p, q = Split<axis=1>(a, i_32_32) b = Mul(p, q) y = MatMul(b, w_32x32)"),
    "two halves without sizes": (
        1, "p, q = Split<axis=-1, num_outputs=2>(a) b = Mul(p, q) y = MatMul(b, w_32x32)",
    ),
    "two halves by an attribute": (
        1, "p, q = Split<axis=1, split=[32, 32]>(a) b = Mul(p, q) y = MatMul(b, w_32x32)", 11,
    ),
    "unequal sections": (
        1,
        """p, q = Split<axis=1>(a, i_16_48) r = Relu(q) s = Tanh(p)
        u = MatMul(s, w_16x32) v = MatMul(r, w_48x32) y = Add(u, v)""",
    ),
    "sections that are slices": (
        1,
        """p = Slice(a, i_0, i_16, i_1) q = Slice(a, i_m48, i_99, i_m1) r = Relu(q) s = Tanh(p)
        u = MatMul(s, w_16x32) v = MatMul(r, w_48x32) y = Add(u, v)""",
    ),
    "sections that are slices by attributes": (
        1,
        """p = Slice<starts=[0], ends=[32], axes=[1]>(a) q = Slice<starts=[32], ends=[64], axes=[1]>(a)
        b = Mul(p, q) y = MatMul(b, w_32x32)""",
        9,
    ),
    "sections until a size of the graph": (
        1,
        """n = Shape<start=1>(x) p = Slice(a, i_0, n, i_1) q = Slice(a, n, i_64, i_1) b = Mul(p, q)
        y = MatMul(b, w_32x32)""",
    ),
    "sections of rows and columns": (
        1,
        """p = Slice(a, i_1_0, i_3_32, i_0_1) q = Slice(a, i_0_32, i_2_64, i_0_1) b = Mul(p, q)
        y = MatMul(b, w_32x32)""",
    ),
    "sections as a dimension": (
        1,
        """h = Reshape(a, i_3_2_32) p, q = Split<axis=1, num_outputs=2>(h) m = Mul(p, q)
        b = Squeeze(m, i_1) y = MatMul(b, w_32x32)""",
    ),
    "sections that stay together": (
        1,
        f"""p, q = Split<axis=1>(a, i_16_48) b = Relu(a) o = {LAST[4:]} r = MatMul(p, w_16x32)
        s = MatMul(q, w_48x32) t = Add(r, s) y = Add(o, t)""",
    ),
    "dimensions of one": (1, f"u = Unsqueeze(a, i_0_m1) r = Relu(u) b = Squeeze(r, i_0_m1) {LAST}"),
    "dimensions of one by attributes": (
        1, f"u = Unsqueeze<axes=[0, 3]>(a) r = Relu(u) b = Squeeze<axes=[0, 3]>(r) {LAST}", 11,
    ),
    "all dimensions of one": (2, f"u = Unsqueeze(a, i_0) r = Relu(u) b = Squeeze(r) {LAST}"),
    "greatest row": (1, f"b = ReduceMax(a, i_m2) {LAST}"),
    "mean of rows": (1, f"r = ReduceMean<keepdims=0>(a, i_0) b = Unsqueeze(r, i_0) {LAST}"),
    "greatest row by an attribute": (1, f"b = ReduceMax<axes=[-2]>(a) {LAST}", 13),
    "sum of columns": (1, "r = ReduceSum(a, i_1) y = Mul(r, x)"),
    "greatest column": (1, "r = ReduceMax<keepdims=0>(a, i_m1) u = Unsqueeze(r, i_1) y = Mul(u, x)"),
    "mean of all": (1, "r = ReduceMean<keepdims=0>(a) y = Mul(r, x)"),
    "wider": (1, f"u = Unsqueeze(a, i_0) b = Expand(u, i_2_1_1) {LAST}"),
    "wider to all dimensions": (1, f"b = Expand(a, i_2_3_64) {LAST}"),
    "wider to the last dimension": (1, f"b = Expand(a, i_64) {LAST}"),
    "rows twice": (1, f"b = Tile(a, i_2_1) {LAST}"),
    "columns twice": (2, "b = Tile(a, i_1_2) y = MatMul(b, w_128x32)"),
    "rows by number": (1, f"b = Gather(a, i_2_0) {LAST}"),
    "rows by number from the end": (1, f"b = Gather<axis=-2>(a, i_m1_1) {LAST}"),
    "rows by a table of numbers": (1, f"n = Reshape(i_2_0_1_1, i_2_2) b = Gather(a, n) {LAST}"),
    "columns by number": (1, "b = Gather<axis=1>(a, i_0_2_4_63) y = MatMul(b, w_4x32)"),
    "places after those taken": (1, f"t = Transpose(a) n = Gather<axis=1>(t, i_1_2) b = Transpose(n) {LAST}"),
    "rows of a table": (1, f"b = Relu(a) o = {LAST[4:]} e = Gather(w_41x32, i_m1_20_40) y = Add(o, e)"),
    "normalized heads": (
        1, f"h = Reshape(a, i_3_4_16) n = LayerNormalization(h, w_16, w_16) b = Reshape(n, i_3_64) {LAST}",
    ),
    "normalized columns": (2, f"b = LayerNormalization(a, w_64, w_64) {LAST}"),
    "probabilities of rows": (1, f"b = Softmax<axis=0>(a) {LAST}"),
    "probabilities of columns": (2, f"b = LogSoftmax(a) {LAST}"),
    "triangles": (1, f"h = Reshape(a, i_3_4_4_4) t = Trilu(h) b = Reshape(t, i_3_64) {LAST}"),
    "triangles of heads": (2, f"h = Reshape(a, i_3_4_16) t = Trilu(h) b = Reshape(t, i_3_64) {LAST}"),
    "turned twice": (1, f"t = Transpose(a) r = Relu(t) b = Transpose(r) {LAST}"),
    "turned by an order": (
        1,
        f"""h = Reshape(a, i_3_4_16) t = Transpose<perm=[2, 0, 1]>(h) r = Relu(t)
        u = Transpose<perm=[1, 2, 0]>(r) b = Reshape(u, i_3_64) {LAST}""",
    ),
    "rows and columns as one": (1, "r = Reshape(a, i_192) y = Reshape(r, i_3_64)"),
    "more rows": (2, "r = Reshape(a, i_6_32) y = MatMul(r, w_32x32)"),
    "stored in bytes": (
        1, f"d = DequantizeLinear(q_32x64, s_64) e = MatMul(x, d) c = Mul(a, e) b = Relu(c) {LAST}",
    ),
    "stored in bytes by rows": (
        1, "b = Relu(a) d = DequantizeLinear<axis=0>(q_64x32, s_64) y = MatMul(b, d)",
    ),
    "stored in bytes by other rows": (
        1, "b = Relu(a) d = DequantizeLinear<axis=-1>(q_64x32, s_32) y = MatMul(b, d)",
    ),
    "stored in bytes in blocks": (
        1, "b = Relu(a) d = DequantizeLinear<axis=0, block_size=16>(q_64x32, s_4x32) y = MatMul(b, d)", 21,
    ),
    "stored in 4 bits": (1, "b = Relu(a) d = DequantizeLinear<axis=-1>(h_64x32, s_32) y = MatMul(b, d)"),
    "stored in 4 bits in blocks": (
        1, "b = Relu(a) d = DequantizeLinear<axis=0, block_size=16>(h_64x32, s_4x32) y = MatMul(b, d)", 21,
    ),
    "rows below rows": (1, f"r = Relu(a) b = Concat<axis=0>(a, r) {LAST}"),
    "rows below rows from the end": (1, f"r = Relu(a) b = Concat<axis=-2>(a, r) {LAST}"),
    "columns beside columns": (2, "r = Relu(a) b = Concat<axis=1>(a, r) y = MatMul(b, w_128x32)"),
    "sums below sums": (1, f"b = Relu(a) o = {LAST[4:]} p = MatMul(a, w_64x32) y = Concat<axis=0>(o, p)"),
    "a sum of sums": (1, "b = Relu(a) o = MatMul(b, w_64x32) p = MatMul(a, w_64x32) y = Add(o, p)"),
    "a difference of sums": (1, "b = Relu(a) o = MatMul(b, w_64x32) p = MatMul(a, w_64x32) y = Sub(o, p)"),
    "a product of sums": (2, "b = Relu(a) o = MatMul(b, w_64x32) p = MatMul(a, w_64x32) y = Mul(o, p)"),
    "a sum and a vector": (1, "b = Relu(a) o = MatMul(b, w_64x32) y = Add(o, w_32)"),
    "a sum times a vector": (1, "b = Relu(a) o = MatMul(b, w_64x32) y = Mul(o, w_32)"),
    "a vector times a sum": (1, "b = Relu(a) o = MatMul(b, w_64x32) y = Mul(w_32, o)"),
    "a sum over a vector": (1, "b = Relu(a) o = MatMul(b, w_64x32) y = Div(o, s_32)"),
    "a vector over a sum": (1, "b = Relu(a) o = MatMul(b, w_64x32) c = Exp(o) y = Div(s_32, c)"),
    "a number over a sum": (1, "b = Sigmoid(a) s = ReduceSum(b, i_1) y = Div(x, s)"),
    "a sum that is turned": (1, "b = Relu(a) o = MatMul(b, w_64x32) n = Neg(o) t = Transpose(n) y = Relu(t)"),
    "a sum of a sum": (
        2, "b = Relu(a) o = MatMul(b, w_64x32) p = MatMul(o, w_32x4) y = MatMul(p, w_4x64)",
    ),
    "a weight times a sum": (1, "b = Relu(a) o = MatMul(b, w_64x32) y = MatMul(w_2x3, o)"),
    "a bias": (1, f"c = Add(a, w_64) b = Relu(c) {LAST}"),
    "a number for all": (1, f"c = Add(w_1, a) d = Mul(c, w_3x1) b = Relu(d) {LAST}"),
    "three terms": (1, f"c = Sum(a, w_64, w_3x1) b = Relu(c) {LAST}"),
    "a mean": (1, f"r = Relu(a) b = Mean(a, w_64, r) {LAST}"),
    "a choice": (1, f"c = Greater(a, w_64) d = Where(c, a, w_3x1) b = Relu(d) {LAST}"),
    "slopes": (1, f"b = PRelu(a, w_64) {LAST}"),
    "limits": (1, f"n = Squeeze(w_1) b = Clip(a, n) {LAST}"),
    "a product with alpha": (1, "b = Relu(a) y = Gemm<alpha=2.0, beta=0.5>(b, w_64x32, w_32)"),
    "a product with a bias": (1, "b = Gemm(x, w_32x64, w_64) r = Relu(b) y = Gemm(r, w_64x32, w_32)"),
    "a product with a turned weight": (1, "b = Relu(a) y = Gemm<transB=1>(b, w_32x64t, w_32)"),
    "a product of what is turned": (1, "b = Relu(a) y = Gemm<transA=1>(b, w_3x32)"),
    "heads of queries and keys": (
        1,
        f"""q = Reshape(a, i_3_4_16) r = Transpose<perm=[1, 0, 2]>(q) k = Transpose<perm=[1, 2, 0]>(q)
        s = MatMul(r, k) p = Softmax(s) o = MatMul(p, r) t = Transpose<perm=[1, 0, 2]>(o)
        b = Reshape(t, i_3_64) {LAST}""",
    ),
    "heads with one mask": (
        1,
        f"""q = Reshape(a, i_3_4_16) r = Transpose<perm=[1, 0, 2]>(q) k = Transpose<perm=[1, 2, 0]>(q)
        s = MatMul(r, k) m = Add(s, w_3x3) n = Mul(m, w_4x1x1) p = Softmax(n) o = MatMul(p, r)
        t = Transpose<perm=[1, 0, 2]>(o) b = Reshape(t, i_3_64) {LAST}""",
    ),
    "keys as torch turns them": (
        1,
        f"""q = Reshape(a, i_1_3_4_16) r = Transpose<perm=[0, 2, 1, 3]>(q) j = Reshape(r, i_4_3_16)
        u = Transpose<perm=[0, 2, 1]>(j) k = Reshape(u, i_1_4_16_3) s = MatMul(r, k) p = Softmax(s)
        o = MatMul(p, r) t = Transpose<perm=[0, 2, 1, 3]>(o) b = Reshape(t, i_3_64) {LAST}""",
    ),
    "attention of columns": (
        1,
        f"""u = Unsqueeze(a, i_0) o = Attention<q_num_heads=4, kv_num_heads=4>(u, u, u)
        b = Squeeze(o, i_0) {LAST}""",
        23,
    ),
    "attention of heads": (
        1,
        f"""q = Reshape(a, i_1_3_4_16) r = Transpose<perm=[0, 2, 1, 3]>(q) o = Attention(r, r, r, w_3x3)
        t = Transpose<perm=[0, 2, 1, 3]>(o) b = Reshape(t, i_3_64) {LAST}""",
        23,
    ),
    "attention with a mask of each head": (
        1,
        f"""q = Reshape(a, i_1_3_4_16) r = Transpose<perm=[0, 2, 1, 3]>(q) o = Attention(r, r, r, w_1x4x3x3)
        t = Transpose<perm=[0, 2, 1, 3]>(o) b = Reshape(t, i_3_64) {LAST}""",
        23,
    ),
    "attention of fewer keys": (
        1,
        f"""u = Unsqueeze(a, i_0) c = MatMul(x, w_32x32) k = Unsqueeze(c, i_0)
        o = Attention<q_num_heads=4, kv_num_heads=2>(u, k, k) b = Squeeze(o, i_0) {LAST}""",
        23,
    ),
    "attention of an odd head": (
        2,
        f"""u = Unsqueeze(a, i_0) o = Attention<q_num_heads=1, kv_num_heads=1>(u, u, u)
        b = Squeeze(o, i_0) {LAST}""",
        23,
    ),
    "a weight that is turned": (1, "b = Relu(a) t = Transpose(w_32x64) y = MatMul(b, t)"),
    "a weight that is turned by an order": (
        1, "b = Relu(a) t = Transpose<perm=[1, 0]>(w_32x64b) y = MatMul(b, t)",
    ),
    "rows of a product": (
        1, f"t = Transpose(a) m = MatMul(t, w_3x5) n = Transpose(m) b = Relu(n) {LAST}",
    ),
    "columns by number in an old set": (
        1, "b = Gather<axis=1>(a, i_0_2_4_63) y = MatMul(b, w_4x32)", 9,
    ),
    "two whole values at once": (
        1, "c = MatMul(x, w_32x64b) d = Softmax(a) e = Softmax(c) y = Add(d, e)",
    ),
    "two whole values at once in an old set": (
        1, "c = MatMul(x, w_32x64b) d = Softmax<axis=1>(a) e = Softmax<axis=1>(c) y = Add(d, e)", 11,
    ),
    "sections that are whole": (
        2,
        """p, q = Split<axis=1>(a, i_16_48) r = MatMul(p, w_16x32) s = MatMul(q, w_48x32) t = Add(r, s)
        d = Softmax(a) y = Concat<axis=1>(t, d)""",
    ),
    "sections that are whole in an old set": (
        2,
        """p, q = Split<axis=1, split=[16, 48]>(a) r = MatMul(p, w_16x32) s = MatMul(q, w_48x32) t = Add(r, s)
        d = Softmax<axis=1>(a) y = Concat<axis=1>(t, d)""",
        11,
    ),
    "a result that goes on": (2, f"z = Concat<axis=0>(w_2x64, a) b = Tanh(z) {LAST}"),
    "a head of words": (
        2,
        """b = Relu(a) o = MatMul(b, w_64x32) n = LayerNormalization(o, w_32, w_32)
        y = MatMul(n, w_32x2049)""",
    ),
    "a head of words with a bias": (
        2,
        """b = Relu(a) o = MatMul(b, w_64x32) n = LayerNormalization(o, w_32, w_32)
        h = MatMul(n, w_32x2049) y = Add(h, w_2049)""",
    ),
}  # fmt: skip
FREE = {
    "a size of columns": (1, f"n = Shape(a) r = Relu(a) b = Reshape(r, n) {LAST}"),
    "a part of a size": (1, f"n = Shape<start=-2, end=2>(a) r = Relu(a) b = Reshape(r, n) {LAST}"),
    "a size of rows": (1, f"n = Shape<end=1>(a) c = Concat<axis=0>(n, i_64) b = Reshape(a, c) {LAST}"),
    "heads of free rows": (
        1,
        f"""n = Shape<end=1>(x) c = Concat<axis=0>(n, i_4_16) h = Reshape(a, c)
        b = Reshape(h, i_m1_64) {LAST}""",
    ),
    "wider to a size of the run": (
        1, f"n = Shape<end=1>(x) c = Concat<axis=0>(i_2, n, i_64) b = Expand(a, c) {LAST}",
    ),
    "columns from the end": (2, "b = Slice(a, i_m32, i_99, i_1) y = MatMul(b, w_32x32)"),
}  # fmt: skip


def named(name):
    """The weight that a name has: floats w_32x64, scales s_4, bytes q_4x2, 4 bits h_4x2, integers i_1_m2."""
    kind, _, rest = name.partition("_")
    if kind == "i":
        return np.array([int(n.replace("m", "-")) for n in rest.split("_")], np.int64)
    random = np.random.default_rng(sum(name.encode()))
    shape = [int(n) for n in rest.rstrip("bt").split("x")]
    if kind == "q":
        return random.integers(-100, 100, shape).astype(np.int8)
    if kind == "h":
        return random.integers(-8, 8, shape).astype(ml_dtypes.int4)
    numbers = random.normal(size=shape) / 4
    return (np.abs(numbers) / 50 + 0.01 if kind == "s" else numbers).astype(np.float32)


def write(folder, name, rows, nodes, opset=21, run=True):
    """Write a model, and what onnxruntime computes with it, unless it is not to run."""
    results = ", ".join(f"float {name}" for name in "yz" if f" {name} = " in f" {nodes}")
    text = f"g (float[{rows}, 32] x) => ({results}) {{ a = MatMul(x, w_32x64) {nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    names = sorted(set(re.findall(r"\b(?:[hwsq]_\d+(?:x\d+)*[bt]?|i(?:_m?\d+)+)\b", text)))
    model.graph.initializer.extend(numpy_helper.from_array(named(one), one) for one in names)
    onnx.save(model, folder / f"{name}.onnx")
    x = np.random.default_rng(7).normal(size=(3, 32)).astype(np.float32)
    options = onnxruntime.SessionOptions()  # optimized it would round inputs of weights in bytes to 8 bits
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"]
    )
    golden = {f"run0_y{place}": y for place, y in enumerate(session.run(None, {"x": x}) if run else ())}
    np.savez(folder / f"{name}.npz", run0_x0=x, **golden)


def check_order(graph):
    """Each node reads what the graph has before it."""
    known = {"", *(value.name for value in (*graph.input, *graph.initializer))}
    for node in graph.node:
        assert known.issuperset(node.input), node
        known.update(node.output)


@pytest.mark.parametrize(("rows", "forms"), [("3", FORMS), ("n", FREE)])
def test_operators_between_products(ranks, tmp_path, monkeypatch, rows, forms):
    monkeypatch.setattr(costs, "HELD", 100)  # weights count as those of large models do
    counts, held, stems = {}, {}, []
    for place, (name, (_, *model)) in enumerate(forms.items()):
        write(tmp_path, str(place), rows, *model)
        shares = shard(tmp_path / f"{place}.onnx", 2, tmp_path / "parts", "tensor")
        counts[name] = max(share.collectives for share in shares)
        held[name] = max(share.weights / share.whole for share in shares)
        for share in shares:
            check_order(onnx.load(tmp_path / "parts" / share.file, load_external_data=False).graph)
        stems.append(f"{tmp_path}/parts/{place}_{{rank}}.onnx")
    answers, errors = ranks("sockets", ",".join(stems), 2, "--golden", str(tmp_path))
    assert sorted(answers) == [0, 1], errors
    for answer in answers.values():
        assert not answer.get("raised"), answer["raised"]
        assert all(answer["shapes"].values()), answer
        assert answer["error"] <= TOLERANCE, answer
    assert counts == {name: collectives for name, (collectives, *_) in forms.items()}
    assert [name for name, part in held.items() if part > 0.55] == ["a product with alpha"] * (rows == "3")


def test_an_index_that_a_table_does_not_have_is_an_error_of_each_rank(ranks, tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "HELD", 100)
    for place, number in enumerate(("40", "41", "m42")):
        at = f"s = ReduceMax<keepdims=0>(x) z = Sub(s, s) n = Cast<to=7>(z) i = Add(n, i_{number})"
        nodes = f"b = Relu(a) o = {LAST[4:]} {at} e = Gather(w_41x32, i) y = Add(o, e)"
        write(tmp_path, str(place), "3", nodes, run=number == "40")
        shard(tmp_path / f"{place}.onnx", 2, tmp_path / "parts", "tensor")
        answers, _ = ranks("sockets", f"{tmp_path}/parts/{place}_{{rank}}.onnx", 2, "--golden", str(tmp_path))
        said = [answer.get("raised", "") for answer in answers.values()]
        assert all(("out of data bounds" in one) is (number != "40") for one in said), said
