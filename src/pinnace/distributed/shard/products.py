"""Products with weights, written so that the ranks can share them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.distributed.shard.costs import COLLECTIVE
from pinnace.distributed.shard.sections import volume_of
from pinnace.distributed.shard.writing import SLICE
from pinnace.graph.inference import OPSET
from pinnace.types import Array


def prepare_products(model: ir.Model, ranks: int) -> None:
    """Write products with weights as MatMul of weights that `ranks` can share.

    Transposes of weights that nothing else reads are folded (a table that is a head too is cut once for
    both), Gemm becomes MatMul and Add, and heads get columns.
    """
    _plain_products(model.graph)
    if model.opset_imports.get("", OPSET) >= SLICE:
        _share_heads(model.graph, ranks)


def _plain_products(graph: ir.Graph) -> None:
    for node in list(graph):
        weight = node.inputs[0] if node.inputs else None
        is_output = any(output.is_graph_output() for output in node.outputs)
        is_weight = weight is not None and weight.const_value is not None and len(weight.uses()) == 1
        if node.domain:
            continue
        if node.op_type == "Transpose" and weight is not None and is_weight and not is_output:
            order = node.attributes.get_ints("perm", None)
            ir.convenience.replace_all_uses_with(node.outputs[0], _transposed(graph, weight, order))
            graph.remove(node, safe=True)
        elif node.op_type == "Gemm" and _is_plain(node):
            _write_matmul(graph, node)


def _is_plain(node: ir.Node) -> bool:
    given = node.attributes
    weight = node.inputs[1]
    return (
        given.get_float("alpha", 1.0) == given.get_float("beta", 1.0) == 1.0
        and not given.get_int("transA", 0)
        and weight is not None
        and weight.const_value is not None
    )


def _write_matmul(graph: ir.Graph, node: ir.Node) -> None:
    weight = node.inputs[1]
    assert weight is not None
    assert weight.const_value is not None
    new = []
    if node.attributes.get_int("transB", 0) and len(weight.uses()) == 1:
        weight = _transposed(graph, weight, (1, 0))
    elif node.attributes.get_int("transB", 0):
        new.append(ir.Node("", "Transpose", [weight]))
        weight = new[0].outputs[0]
        weight.name = f"{node.outputs[0].name}.weight"
    product = ir.Node("", "MatMul", [node.inputs[0], weight], name=node.name)
    new.append(product)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        new.append(ir.Node("", "Add", [product.outputs[0], node.inputs[2]]))
    (old,), (result,) = node.outputs, new[-1].outputs
    product.outputs[0].name = f"{old.name}.product"
    result.name, old.name = old.name, f"{old.name}.gemm"
    result.type, result.shape = old.type, old.shape
    graph.insert_before(node, new)
    ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _share_heads(graph: ir.Graph, ranks: int) -> None:
    """Add columns of zeros to heads of vocabularies that the ranks do not divide, and drop what they give."""
    for node in [node for node in graph if node.op_type == "MatMul" and not node.domain]:
        weight, (product,) = node.inputs[1], node.outputs
        if weight is None or weight.const_value is None or len(weight.uses()) > 1:
            continue
        array = weight.const_value.numpy()
        lacking = -array.shape[-1] % ranks
        results = [product, *(output for user in product.consumers() for output in user.outputs)]
        if not lacking or array.nbytes < COLLECTIVE or not any(one.is_graph_output() for one in results):
            continue
        padded = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, lacking)])
        node.replace_input_with(1, _initializer(graph, f"padded{lacking}/{weight.name}", padded))
        numbers = 0, array.shape[-1], -1
        ends = [_initializer(graph, f"columns/{number}", np.array([number])) for number in numbers]
        kept = ir.Node("", "Slice", [product, *ends])
        (made,) = kept.outputs
        made.name, made.type, made.shape = product.name, product.type, product.shape
        product.name, product.shape = f"{product.name}.padded", None
        ir.convenience.replace_all_uses_with(product, made, replace_graph_outputs=True)
        kept.replace_input_with(0, product)
        graph.insert_after(node, kept)


def plain_transposes(graph: ir.Graph) -> None:
    """Write keys as `torch.export` turns them as one Transpose, through which heads stay apart.

    It lets a Reshape join the batch with the heads, turns the last two of three dimensions, and lets another
    Reshape part the first. Values have shapes.
    """
    for last in [node for node in graph if node.op_type == "Reshape" and not node.domain]:
        turn = last.inputs[0].producer() if last.inputs[0] else None
        first = turn.inputs[0].producer() if turn and turn.inputs[0] else None
        if turn is None or first is None or (turn.op_type, first.op_type) != ("Transpose", "Reshape"):
            continue
        values = first.inputs[0], first.outputs[0], last.outputs[0]
        before, joined, after = (list((value.shape if value else None) or ()) for value in values)
        if len(before) < 4 or len(joined) != 3 or not volume_of(before):
            continue
        *others, rows, columns = before
        order = turn.attributes.get_ints("perm", ())
        if list(order) == [0, 2, 1] and joined[1:] == [rows, columns] and after == [*others, columns, rows]:
            count = len(others)
            made = ir.node("Transpose", [first.inputs[0]], {"perm": [*range(count), count + 1, count]})
            ir.convenience.replace_nodes_and_values(graph, last, [last], [made], last.outputs, made.outputs)


def _transposed(graph: ir.Graph, weight: ir.Value, order: Sequence[int] | None) -> ir.Value:
    assert weight.const_value is not None
    array = np.transpose(weight.const_value.numpy(), order)
    how = ",".join(map(str, order or range(array.ndim)[::-1]))
    return _initializer(graph, f"transposed{how}/{weight.name}", array)


def _initializer(graph: ir.Graph, name: str, array: Array) -> ir.Value:
    name = f"pinnace/{name}"  # the prefix avoids names of the file
    if name not in graph.initializers:
        held = ir.tensor(array, name=name)
        graph.initializers[name] = ir.Value(
            name=name, const_value=held, shape=ir.Shape(array.shape), type=ir.TensorType(held.dtype)
        )
    return graph.initializers[name]
