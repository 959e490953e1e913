"""Small programs made by hand, and what they compute when lowered and run."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from pinnace.lowering.entry import STATE
from pinnace.lowering.lower import lower
from pinnace.program import Dialect, Function, Input, Monad, Node, Program, TypeInfo

SCALAR = TypeInfo(ir.DataType.FLOAT, ())
VECTOR = TypeInfo(ir.DataType.FLOAT, (3,))
NUMBER = TypeInfo(ir.DataType.INT32, ())


def node(text: str) -> Node:
    """`y = Add a b`; a call is `y = call f a`."""
    output, _, rest = text.partition(" = ")
    primitive, *inputs = rest.split()
    return Node(output, "" if primitive == "call" else primitive, tuple(inputs), (output,))


def function(
    name: str, inputs: dict[str, TypeInfo | None], output: str, *nodes: str, **constants
) -> Function:
    """A function; constants are Python values, arrays (tensors), or arrays in a list (parameters)."""
    parameters = {k: ir.tensor(v[0], name=k) for k, v in constants.items() if isinstance(v, list)}
    literals = {
        k: ir.tensor(v, name=k) if isinstance(v, np.ndarray | np.generic) else v
        for k, v in constants.items()
        if not isinstance(v, list)
    }
    return Function(
        name=name,
        inputs=[Input(n, t) for n, t in inputs.items()],
        outputs=[output],
        nodes=[node(text) for text in nodes],
        parameters=parameters,
        constants={"u": Monad.U, **literals},
    )


def program(main: Function, *others: Function) -> Program:
    """The functions as a whole model."""
    return Program(main, {f.name: f for f in (main, *others)}, Dialect.MINDSPORE, source="a program")


def operators(model: ir.Model) -> list[str]:
    """The operators of a graph and of all graphs in it."""
    return [n.op_type for n in ir.traversal.RecursiveGraphIterator(model.graph)]


def run(model: ir.Model, *arrays, times: int = 1) -> list[np.ndarray]:
    """The outputs of the last of several runs, state kept from one to the next."""
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    states = {i.name: i for i in model.graph.inputs if STATE in i.metadata_props}
    names = [i.name for i in model.graph.inputs if i.name not in states]
    feed = dict(zip(names, arrays, strict=True)) | {n: i.const_value.numpy() for n, i in states.items()}
    for _ in range(times):
        results = dict(zip((o.name for o in model.graph.outputs), session.run(None, feed), strict=True))
        feed |= {n: results[i.metadata_props[STATE]] for n, i in states.items()}
    kept = {i.metadata_props[STATE] for i in states.values()}
    return [value for name, value in results.items() if name not in kept]


def computed(model: Program, *arrays, times: int = 1) -> list[np.ndarray]:
    """The same, of a program."""
    return run(lower(model), *arrays, times=times)
