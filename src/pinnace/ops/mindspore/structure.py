"""Primitives that compute nothing: tuples, functions as values, the order of effects."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.ops import binding
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.table import Items, primitive
from pinnace.ops.values import AlwaysRaises, Branches, Closure, Value, flatten, rebuild
from pinnace.program_structure import ITEM, ORDERED, TUPLE, UPDATED


@primitive(TUPLE, "make_list", "MakeList", "make_tuple")
def make_tuple(b: LoweringBuilder, *items: Value) -> Value:
    """Nothing: a tuple exists only while lowering."""
    return items


@primitive(ITEM, "tuple_getitem", "list_getitem", "RealTupleGetItem")
def tuple_get_item(b: LoweringBuilder, items: Value, index: Value) -> Value:
    """Nothing, or Gather where the index is known only at run time."""
    known = b.known(index)
    if isinstance(items, tuple) and known is not None:
        return items[binding.int_(b, known)]
    stacked = b.tensor(items)
    return b.Gather(stacked, b.cast(b.tensor(index), b.dtype(b.tensor(index))), axis=0)


@primitive(UPDATED, unused="after")
def update_state(b: LoweringBuilder, *after: Value) -> Value:
    """Nothing: the order of effects is the order of nodes."""
    return b.memory.effects


@primitive("Load", unused="monad")
def load(b: LoweringBuilder, parameter: Value, monad: Value) -> Value:
    """Nothing: the parameter, or what was last assigned to it."""
    return b.memory.read(b.tensor(parameter))


@primitive(ORDERED, unused="after")
def depend(b: LoweringBuilder, value: Value, *after: Value) -> Value:
    """Nothing: the value; what was changed in place meanwhile is read again."""
    leaves = [b.memory.changed(v) if isinstance(v, ir.Value) else v for v in flatten(value)]
    return rebuild(value, iter(leaves))


@primitive("TensorMove")
def _tensor_move(op: LoweringBuilder, x: Value) -> Value:
    return op.Identity(op.tensor(x))


@primitive(
    *("Identity", "StopGradient", "InplaceStopGradient", "stop_gradient", "identity", "DeepCopy"),
    *(
        "CheckNumerics",
        "Contiguous",
        "IdentityN",
        "ListToTuple",
        "TupleToList",
        "ScalarUadd",
        "scalar_uadd",
        "CopyToDevice",
        "CopyToHost",
        "Detach",
        "FakeQuantParam",
    ),
    *("HookBackward", "InsertGradientOf", "MoveTo"),
    *("_MirrorOperator", "_VirtualAdd", "_VirtualDataset", "_VirtualDiv", "_VirtualOutput"),
    unused="rest quant_dtype quant_algo_name is_per_channel kwargs linear_quant_scale linear_quant_zero_point"
    " group dev_num divisor",
)
def identity(b: LoweringBuilder, x: Value, *rest: Value) -> Value:
    """Nothing: the value."""
    return x


@primitive("Partial", "PartialFusion")
def partial(b: LoweringBuilder, function: Value, *arguments: Value) -> Value:
    """Nothing: a call is inlined."""
    if not isinstance(function, Closure):
        raise Unsupported("binds arguments to a value that is not a function")
    return Closure(function.function, function.frame, (*function.bound, *arguments))


@primitive("Switch", "switch")
def switch(b: LoweringBuilder, condition: Value, when_true: Value, when_false: Value) -> Value:
    """Nothing where the condition is known; else If, or Loop."""
    known = b.known(condition)
    if known is not None:
        return when_true if binding.bool_(b, known) else when_false
    return Branches(condition, when_true, when_false)


@primitive("switch_layer")
def switch_layer(b: LoweringBuilder, index: ir.Value, functions: Items) -> Value:
    """Nothing where the index is known; else a chain of If."""
    known = b.known(index)
    if known is not None:
        return functions[binding.int_(b, known)]
    # Gather counts from the end where an index is negative, and refuses one out of range.
    place = b.Gather(b.constant(np.arange(len(functions))), b.scalar(index), axis=0)
    chosen = functions[-1]
    for i, function in reversed(list(enumerate(functions[:-1]))):
        chosen = Branches(b.Equal(place, b.constant(i)), function, chosen)
    return chosen


@primitive(
    *("Assert", "Print", "TensorDump"),
    *("HistogramSummary", "ImageSummary", "ScalarSummary", "TensorSummary"),
    unused="what summarize channel_name dyn_input_sizes input_output",
)
def report(b: LoweringBuilder, *what: Value) -> Value:
    """Nothing: it reports to whoever looks on."""
    return True


@primitive("raise", "Raise", unused="message variable_length_inputs")
def raise_(b: LoweringBuilder, *message: Value) -> Value:
    """Nothing: the branch that leads here is taken to be dead."""
    raise AlwaysRaises


@primitive("JoinedStr", "Format", unused="variable_length_inputs")
def joined_str(b: LoweringBuilder, *parts: Value) -> Value:
    """Nothing: the text of an error."""
    return "".join(p if isinstance(p, str) else "..." for p in parts)
