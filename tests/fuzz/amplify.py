"""Files that ask for much work with few bytes: each shape of it, in any size."""

from __future__ import annotations

import string
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import helper

from pinnace.formats.mindir.schema import model_class, number_of
from pinnace.types import ModelType

_SIZES = [2, 3, 8, 20, 60, 200, 1600]


def amplifying(rng: Random) -> tuple[str, ModelType, bytes]:
    """A file of one of the shapes: name, kind and bytes."""
    name, make = rng.choice(sorted(SHAPES.items()))
    made = make(rng)
    kind = ModelType.ONNX if isinstance(made, onnx.ModelProto) else ModelType.MINDIR
    return name, kind, made.SerializeToString()


# -- ONNX ----------------------------------------------------------------------------------------------


def _onnx(nodes: list[onnx.NodeProto], output: str, tensors: Any = (), functions: Any = ()) -> Any:
    x, y = (helper.make_tensor_value_info(n, 1, shape) for n, shape in (("x", [2]), (output, None)))
    graph = helper.make_graph(nodes, "amplifying", [x], [y], list(tensors))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, functions=list(functions), opset_imports=imports, ir_version=10)


def _ints(name: str, *numbers: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(numbers, np.int64), name)


def functions(depth: int, width: int = 2) -> onnx.ModelProto:
    """Functions that call the next one `width` times."""
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    made = []
    for i in range(depth):
        inside = ("Relu", "") if i == depth - 1 else (f"f{i + 1}", "f")
        names = ["x", *(f"v{j}" for j in range(width - 1)), "y"]
        nodes = [helper.make_node(inside[0], [a], [b], domain=inside[1]) for a, b in pairwise(names)]
        made.append(helper.make_function("f", f"f{i}", ["x"], ["y"], nodes, imports))
    return _onnx([helper.make_node("f0", ["x"], ["y"], domain="f")], "y", functions=made)


def constants(count: int, side: int) -> onnx.ModelProto:
    """Constants of side x side, each summed up and added to the input."""
    nodes, last = [], "x"
    for i in range(count):
        value = helper.make_tensor("value", 1, [1], [float(i)])
        nodes += [
            helper.make_node("ConstantOfShape", ["shape"], [f"c{i}"], value=value),
            helper.make_node("ReduceSum", [f"c{i}" if i % 2 else f"e{i}"], [f"s{i}"], keepdims=0),
            helper.make_node("Add", [last, f"s{i}"], [f"y{i}"]),
        ]
        if not i % 2:
            nodes.insert(-2, helper.make_node("Exp", [f"c{i}"], [f"e{i}"]))
        last = f"y{i}"
    return _onnx(nodes, last, [_ints("shape", side, side)])


def products(count: int, side: int) -> onnx.ModelProto:
    """Products of constants, each of the one before."""
    value = helper.make_tensor("value", 1, [1], [1e-3])
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["p0"], value=value)]
    nodes += [helper.make_node("MatMul", [f"p{i}", "p0"], [f"p{i + 1}"]) for i in range(count)]
    nodes += [helper.make_node("ReduceSum", [f"p{count}"], ["s"], keepdims=0)]
    return _onnx([*nodes, helper.make_node("Add", ["x", "s"], ["y"])], "y", [_ints("shape", side, side)])


def doubles(steps: int) -> onnx.ModelProto:
    """Constants that become twice as long: an estimate that multiplies gives a number beyond all floats."""
    tensor = onnx.numpy_helper.from_array(np.ones(2, np.float32), "c0")
    nodes = [helper.make_node("Concat", [f"c{i}"] * 2, [f"c{i + 1}"], axis=0) for i in range(steps)]
    nodes += [helper.make_node("ReduceSum", [f"c{steps}"], ["s"], keepdims=0)]
    return _onnx([*nodes, helper.make_node("Add", ["x", "s"], ["y"])], "y", [tensor])


def einsum(terms: int, size: int) -> onnx.ModelProto:
    """A sum over the outer product of vectors."""
    letters = string.ascii_letters[:terms]
    vector = onnx.numpy_helper.from_array(np.ones(size, np.float32), "v")
    nodes = [
        helper.make_node("Einsum", ["v"] * terms, ["s"], equation=f"{','.join(letters)}->{letters[:1]}"),
        helper.make_node("ReduceSum", ["s"], ["t"], keepdims=0),
        helper.make_node("Add", ["x", "t"], ["y"]),
    ]
    return _onnx(nodes, "y", [vector])


def convolution(side: int) -> onnx.ModelProto:
    """A convolution of one constant by another as large."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["c"]),
        helper.make_node("Conv", ["c", "c"], ["d"], pads=[side // 2] * 4),
        helper.make_node("ReduceSum", ["d"], ["s"], keepdims=0),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    return _onnx(nodes, "y", [_ints("shape", 1, 1, side, side)])


def outputs(count: int) -> onnx.ModelProto:
    """Nodes that read one value, each of which is an output."""
    made = _onnx([helper.make_node("Sin", ["x"], [f"y{i}"]) for i in range(count)], "y0")
    made.graph.output.extend(helper.make_tensor_value_info(f"y{i}", 1, [2]) for i in range(1, count))
    return made


def broadcasts(steps: int) -> onnx.ModelProto:
    """Constants that become the square of themselves."""
    tensor = onnx.numpy_helper.from_array(np.ones(2, np.float32), "c0")
    nodes = []
    for i in range(steps):
        nodes += [
            helper.make_node("Unsqueeze", [f"c{i}", "one"], [f"u{i}"]),
            helper.make_node("Add", [f"c{i}", f"u{i}"], [f"a{i}"]),
            helper.make_node("Reshape", [f"a{i}", "flat"], [f"c{i + 1}"]),
        ]
    nodes += [helper.make_node("ReduceSum", [f"c{steps}"], ["s"], keepdims=0)]
    tensors = [tensor, _ints("one", 1), _ints("flat", -1)]
    return _onnx([*nodes, helper.make_node("Add", ["x", "s"], ["y"])], "y", tensors)


def parts(count: int) -> onnx.ModelProto:
    """One node with many outputs."""
    split = helper.make_node("Split", ["x"], [f"y{i}" for i in range(count)], num_outputs=count)
    made = _onnx([split], "y0")
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = count
    return made


def repeats(operator: str, count: int) -> onnx.ModelProto:
    """One node with many inputs, which are one constant."""
    nodes = [
        helper.make_node(operator, ["c"] * count, ["d"], **({"axis": 0} if operator == "Concat" else {}))
    ]
    nodes += [helper.make_node("Reshape", ["x", "d"], ["y"])]
    return _onnx(nodes, "y", [_ints("c", 1, 1)])


def fan(count: int) -> onnx.ModelProto:
    """Nodes that read one value, and one that reads them all."""
    nodes = [helper.make_node("Relu", ["x"], [f"r{i}"]) for i in range(count)]
    return _onnx([*nodes, helper.make_node("Sum", [f"r{i}" for i in range(count)], ["y"])], "y")


def joined(count: int) -> onnx.ModelProto:
    """Steps that read one quantized value, and two nodes that join them all."""
    steps = [f"d{i}" for i in range(count)]
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["q"])]
    nodes += [helper.make_node("DequantizeLinear", ["q", "s"], [step]) for step in steps]
    nodes += [helper.make_node("Concat", steps, [name], axis=0) for name in ("a", "b")]
    scale = onnx.numpy_helper.from_array(np.float32(0.5), "s")
    return _onnx([*nodes, helper.make_node("Sub", ["a", "b"], ["y"])], "y", [scale])


def chain(operator: str, count: int) -> onnx.ModelProto:
    """Nodes each of which reads the one before."""
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    return _onnx([helper.make_node(operator, [a], [b]) for a, b in pairwise(names)], "y")


_TEXT = [onnx.numpy_helper.from_array(np.array(text, object), "text") for text in ("a", ["a", "5"])]
_GIVEN = {"INT": 1, "FLOAT": 1.0, "STRING": "a", "INTS": [1], "FLOATS": [1.0], "STRINGS": ["a"]}


def text(operator: str, place: int, others: list[str], how: int) -> onnx.ModelProto:
    """An operator with a text in the place of one input; the others are "x", integers "i" or numbers "c"."""
    schema = onnx.defs.get_schema(operator)
    wanted = [a for a in schema.attributes.values() if a.required and a.type.name in _GIVEN]
    inputs = [*others[:place], "text", *others[place + 1 : max(schema.min_input, place + 1)]]
    results = ["y", *(f"y{i}" for i in range(1, schema.min_output))]
    node = helper.make_node(operator, inputs, results, **{a.name: _GIVEN[a.type.name] for a in wanted})
    tensors = [
        _TEXT[how // 2],
        _ints("i", 1, 1),
        onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "c"),
    ]
    if how % 2:
        return _onnx([node], "y", tensors)
    return _onnx([*(helper.make_node("Constant", [], [t.name], value=t) for t in tensors), node], "y")


def texts() -> list[tuple[str, int]]:
    """All operators of ONNX, with the places of their inputs."""
    schemas = [s for s in onnx.defs.get_all_schemas() if not s.domain and not s.deprecated]
    return [(s.name, place) for s in schemas for place in range(min(s.max_input, 6))]


# -- MindIR --------------------------------------------------------------------------------------------


def _mindir() -> Any:
    model = model_class()(ir_version="0.1.1", producer_name="MindSpore", model_version="2.4.0")
    model.graph.name = "main"
    tensor = model.graph.input.add(name="x").tensor.add(name="x")
    tensor.dims.append(2)
    tensor.data_type = number_of("TensorProto.DataType")["FLOAT"]
    return model


def _primitive(model: Any, name: str) -> None:
    model.primitives.add(name=name, op_type=name)


def _node(graph: Any, kind: str, inputs: list[str], output: str) -> None:
    node = graph.node.add(op_type=f"REF::{kind}", name=output)
    node.input.extend(inputs)
    node.output.append(output)


def tuples(depth: int, width: int = 2) -> Any:
    """Tuples of a tuple, `width` times each."""
    model = _mindir()
    _primitive(model, "MakeTuple")
    names = ["x", *(f"t{i}" for i in range(depth))]
    for before, after in pairwise(names):
        _node(model.graph, "MakeTuple", [before] * width, after)
    model.graph.output.add(name=names[-1])
    return model


def calls(depth: int, width: int = 1) -> Any:
    """Functions that call the next one `width` times."""
    model = _mindir()
    _primitive(model, "ReLU")
    _node(model.graph, "f0", ["x"], "y")
    model.graph.output.add(name="y")
    for i in range(depth):
        function = model.functions.add(name=f"f{i}")
        function.input.add(name=f"x{i}")
        names = [f"x{i}", *(f"v{i}_{j}" for j in range(width - 1)), f"y{i}"]
        for before, after in pairwise(names):
            _node(function, "ReLU" if i == depth - 1 else f"f{i + 1}", [before], after)
        function.output.add(name=f"y{i}")
    return model


SHAPES: dict[str, Callable[[Random], Any]] = {
    "chain": lambda rng: chain(
        rng.choice(["Relu", "Neg", "Identity", "Transpose"]), rng.choice([*_SIZES, 10_000])
    ),
    "fan": lambda rng: fan(rng.choice([*_SIZES, 10_000])),
    "joined": lambda rng: joined(rng.choice([*_SIZES, 4096])),
    "parts": lambda rng: parts(rng.choice([*_SIZES, 100_000])),
    "repeats": lambda rng: repeats(rng.choice(["Concat", "Sum"]), rng.choice([*_SIZES, 100_000])),
    "text": lambda rng: text(*rng.choice(texts()), rng.choices("xic", k=12), rng.randrange(4)),
    "broadcasts": lambda rng: broadcasts(rng.randint(1, 8)),
    "calls": lambda rng: calls(rng.choice(_SIZES), rng.choice([1, 1, 2, 3])),
    "constants": lambda rng: constants(rng.choice(_SIZES[:6]), rng.choice([8, 500, 2000, 4000, 10_000])),
    "convolution": lambda rng: convolution(rng.choice([3, 100, 1000, 3000])),
    "doubles": lambda rng: doubles(rng.choice(_SIZES)),
    "einsum": lambda rng: einsum(rng.randint(2, 12), rng.choice([2, 8, 60, 2000])),
    "functions": lambda rng: functions(rng.choice(_SIZES), rng.choice([1, 2, 3])),
    "outputs": lambda rng: outputs(rng.choice([*_SIZES, 10_000])),
    "products": lambda rng: products(rng.choice(_SIZES[:6]), rng.choice([8, 500, 1500, 4000])),
    "tuples": lambda rng: tuples(rng.choice(_SIZES), rng.choice([1, 2, 3])),
}
"""Makers by name."""
