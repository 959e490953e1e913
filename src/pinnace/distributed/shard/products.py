"""Products with weights, written so that the ranks can share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from pinnace.distributed.shard.costs import COLLECTIVE
from pinnace.distributed.shard.pieces import SLICE
from pinnace.distributed.shard.placements import dimensions
from pinnace.distributed.shard.sections import volume_of
from pinnace.graph.editor import Editor, replace_value


def prepare_products(model: ir.Model, ranks: int) -> None:
    """Write products with weights as MatMul of weights that `ranks` can share.

    Transposes of weights that nothing else reads are folded (a table that is a head too is cut once for
    both), Gemm becomes MatMul and Add, and heads get columns.
    """
    b = Editor(model, "%product")
    _plain_products(b)
    if b.opset >= SLICE:
        _share_heads(b, ranks)
    b.finish()


def _plain_products(b: Editor) -> None:
    for node in [node for node in b.model.graph if not node.domain]:
        weight = node.inputs[0] if node.inputs else None
        if node.op_type == "Transpose" and _is_own(weight) and not node.outputs[0].is_graph_output():
            order = node.attributes.get_ints("perm", None)
            node.outputs[0].replace_all_uses_with(_transposed(b, weight, order))
            b.model.graph.remove(node, safe=True)
        elif node.op_type == "Gemm" and _is_plain(node):
            _write_matmul(b, node)


def _is_own(weight: ir.Value | None) -> TypeGuard[ir.Value]:
    """Return True for a weight that only one node reads."""
    return weight is not None and weight.const_value is not None and len(weight.uses()) == 1


def _is_plain(node: ir.Node) -> bool:
    given = node.attributes
    weight = node.inputs[1]
    return (
        given.get_float("alpha", 1.0) == given.get_float("beta", 1.0) == 1.0
        and not given.get_int("transA", 0)
        and weight is not None
        and weight.const_value is not None
    )


def _write_matmul(b: Editor, node: ir.Node) -> None:
    x, weight, bias = (*node.inputs, None)[:3]
    assert weight is not None
    if node.attributes.get_int("transB", 0):
        weight = _transposed(b, weight, (1, 0)) if _is_own(weight) else b.transpose(weight, (1, 0))
    y = b.op("MatMul", x, weight)
    b.nodes[-1].name = node.name
    b.put_before(node, y if bias is None else b.op("Add", y, bias))


def _share_heads(b: Editor, ranks: int) -> None:
    """Add columns of zeros to heads of vocabularies that the ranks do not divide, and drop what they give."""
    for node in [node for node in b.model.graph if node.op_type == "MatMul" and not node.domain]:
        weight, (product,) = node.inputs[1], node.outputs
        if not _is_own(weight):
            continue
        assert weight.const_value is not None
        array = weight.const_value.numpy()
        lacking = -array.shape[-1] % ranks
        results = [product, *(output for user in product.consumers() for output in user.outputs)]
        if not lacking or array.nbytes < COLLECTIVE or not any(one.is_graph_output() for one in results):
            continue
        padded = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, lacking)])
        node.replace_input_with(1, b.weight(ir.tensor(padded, name=f"{weight.name}/padded")))
        kept = b.op("Slice", product, [0], [array.shape[-1]], [-1])
        b.insert_after(node)
        replace_value(product, kept, reader=kept.producer())
        product.shape = None


def plain_transposes(model: ir.Model) -> None:
    """Write keys as `torch.export` turns them as one Transpose, through which heads stay apart.

    It lets a Reshape join the batch with the heads, turns the last two of three dimensions, and lets another
    Reshape part the first. Values have shapes.
    """
    b = Editor(model, "%transpose")
    for last in [node for node in model.graph if node.op_type == "Reshape" and not node.domain]:
        turn = last.inputs[0].producer() if last.inputs[0] else None
        first = turn.inputs[0].producer() if turn and turn.inputs[0] else None
        if turn is None or first is None or (turn.op_type, first.op_type) != ("Transpose", "Reshape"):
            continue
        values = first.inputs[0], first.outputs[0], last.outputs[0]
        before, joined, after = map(dimensions, values)
        if len(before) < 4 or len(joined) != 3 or not volume_of(before):
            continue
        *others, rows, columns = before
        order = turn.attributes.get_ints("perm", ())
        if list(order) == [0, 2, 1] and joined[1:] == [rows, columns] and after == [*others, columns, rows]:
            count, given = len(others), first.inputs[0]
            assert given is not None
            b.put_before(last, b.transpose(given, [*range(count), count + 1, count]))


def _transposed(b: Editor, weight: ir.Value, order: Sequence[int] | None) -> ir.Value:
    assert weight.const_value is not None
    array = np.transpose(weight.const_value.numpy(), order)
    return b.weight(ir.tensor(array, name=f"{weight.name}/transposed"))
