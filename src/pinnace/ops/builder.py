"""What a lowering writes with: ONNX nodes, constants, and questions about tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from pinnace import bounds
from pinnace.ops import schemas
from pinnace.ops.values import Effects, TailCall, Value
from pinnace.program import DTYPES, Layout, Quantised, TypeInfo

OPSET = 21
"""The ONNX operator set that lowerings write: the newest that all our engines read."""

Operand = ir.Value | npt.NDArray[Any] | Sequence[int] | int | float | bool | None

_NONE: Mapping[ir.Value, ir.TensorProtocol] = {}

ORIGIN = "pinnace.origin"
"""Key of what a node notes of itself: the names of the nodes of the file that it was made for."""


def origins(node: ir.Node) -> tuple[str, ...]:
    """The names of the nodes of the file that a node was made for; of an ONNX file's node, its own."""
    found: tuple[str, ...] = node.meta.get(ORIGIN) or (node.name or "",)
    return found


_KEY = 1 << 10
"""Bytes up to which a constant is known by what it holds, else by a digest of that."""
_OF_WEIGHTS = 4
"""Factor by which constants may be made of the weights: transposed, padded, for each gate."""
_MOST_DIMENSIONS = 64
_MOST_VALUES = 1 << 17
"""Values that one graph may come to; only an attribute that is damaged asks for more."""

_N = TypeVar("_N", int, float, bool)


class Unsupported(Exception):
    """A node that cannot be lowered; the message is the reason, without node or primitive."""


class RankUnknown(Unsupported):
    """A node that asks for the rank of a tensor that only the run knows."""


class Form(NamedTuple):
    """The shape of what two branches give with different ranks, by the condition that chose."""

    condition: ir.Value
    then: ir.Shape | Form
    other: ir.Shape | Form


class _View(NamedTuple):
    """How a tensor shares the memory of another, which held `held` when the view was made."""

    base: ir.Value
    held: ir.Value
    again: Callable[[ir.Value], ir.Value]
    write: Callable[[ir.Value, ir.Value], ir.Value]


class Builder:
    """Collects the nodes of one ONNX graph; nested graphs open a scope of their own."""

    def __init__(
        self, layout: Layout = Layout.NCHW, changing: Container[int] = (), opset: int = OPSET
    ) -> None:
        self.opset = opset
        """The ONNX operator set of the graph."""
        self.layout = layout
        """Order of the dimensions of image activations in the model that is lowered."""
        self.asked: set[ir.Value] = set()
        """Weights and constants whose value something was decided by."""
        self._changing = changing  # ids of weights that will hold other values: these may decide nothing
        self.held_back = False
        """Whether something would have been decided by the value of a weight that will change."""
        self.initializers: dict[str, ir.Value] = {}
        self.effects = Effects()
        """The memory at the node that is lowered."""
        self.declared: Sequence[TypeInfo | None] = ()
        """What the file declares of the results of the node that is lowered."""
        self.origins: tuple[str, ...] = ()
        """The name of the node that is lowered; before it those of nodes whose result it replaces."""
        self.forms: dict[ir.Value, Form] = {}
        """What is known of tensors whose rank only the run knows."""
        self._scopes: list[list[ir.Node]] = [[]]
        self._constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self._made = self._read = 0  # bytes of constants, and of weights
        self._weights: dict[int, ir.Value] = {}
        self._assignments = 0
        # What was assigned stands for what it was assigned to: assigning to it again assigns there.
        self._roots: dict[ir.Value, ir.Value] = {}
        self._views: dict[ir.Value, _View] = {}
        self._names = 0

    # -- writing ---------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[ir.Node]:
        """The nodes of the innermost open graph."""
        return self._scopes[-1]

    @contextmanager
    def scope(self) -> Iterator[list[ir.Node]]:
        """Collect nodes for a nested graph."""
        self._scopes.append([])
        origins = self.origins
        try:
            yield self._scopes[-1]
        finally:
            self._scopes.pop()
            self.origins = origins

    def op(self, op_type: str, *inputs: Operand, domain: str = "", **attributes: Any) -> ir.Value:
        """Add a node with one output.

        A number among the inputs becomes a constant of the first tensor's type, a sequence of ints an
        int64 vector. An attribute that is None is left out.
        """
        return self.ops(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, op_type: str, outputs: int, *inputs: Operand, domain: str = "", **attributes: Any
    ) -> tuple[ir.Value, ...]:
        """Add a node with several outputs."""
        like = next((i for i in inputs if isinstance(i, ir.Value)), None)
        if like and op_type.startswith("Reduce") and isinstance(inputs[-1], list):
            inputs = like, self._axes_of_nothing(like, inputs[-1])
        operands = [self._operand(i, like) for i in inputs]
        while operands and operands[-1] is None:
            operands.pop()
        dtypes = tuple(None if x is None else self._dtype(x) for x in operands)
        other = {} if domain else schemas.allowed(op_type, dtypes)
        given = {k: v for k, v in attributes.items() if v is not None}
        if not other:
            return self._emit(op_type, outputs, operands, given, domain)
        # ONNX has no such operator of these types: it is computed in others.
        taken = schemas.variables(op_type, len(operands))
        own = {v: t for v, t in zip(taken[::-1], dtypes[::-1], strict=True) if t is not None}
        wide = [
            x if x is None or v not in other else self.cast(x, other[v])
            for x, v in zip(operands, taken, strict=True)
        ]
        results = self._emit(op_type, outputs, wide, given)
        back = schemas.variables(op_type, outputs, outputs=True)
        return tuple(self.cast(y, own[v]) if v in other else y for y, v in zip(results, back, strict=True))

    def _axes_of_nothing(self, x: ir.Value, axes: list[int]) -> list[int]:
        """Axes from the front where `x` may be empty: there onnxruntime (1.31) counts none from the end."""
        with suppress(RankUnknown):
            if not all(self.shape(x)):
                return [self.axis(a, x) for a in axes]
        return axes

    def _emit(
        self,
        op_type: str,
        outputs: int,
        operands: Sequence[ir.Value | None],
        attributes: Mapping[str, Any],
        domain: str = "",
    ) -> tuple[ir.Value, ...]:
        if self._names + outputs > _MOST_VALUES:
            raise Unsupported(f"needs more than {_MOST_VALUES} values, and no model has so many")
        given = [_attribute(name, value) for name, value in attributes.items()]
        node = ir.Node(domain, op_type, operands, given, num_outputs=outputs)
        node.meta[ORIGIN] = self.origins
        for output in node.outputs:
            output.name = self.fresh()
        schemas.give_types(node)
        self.nodes.append(node)
        return tuple(node.outputs)

    def fresh(self) -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"%{self._names}"

    def constant(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> ir.Value:
        """A constant tensor; equal ones are one value."""
        data = np.asarray(array, dtype)
        key = (data.dtype.name, data.shape, data.tobytes() if data.nbytes <= _KEY else _digest(data))
        if key not in self._constants:
            self._made += data.nbytes
            most = bounds.MADE + _OF_WEIGHTS * self._read
            if self._made > most:
                raise Unsupported(f"needs constants that take more than {most >> 20} MiB together")
            name = f"%const{len(self._constants)}"
            value = ir.Value(
                name=name,
                const_value=ir.tensor(data, name=name),
                shape=ir.Shape(data.shape),
                type=ir.TensorType(ir.tensor(data).dtype),
            )
            self._constants[key] = self.initializers[name] = value
        return self._constants[key]

    def weight(self, tensor: ir.TensorProtocol) -> ir.Value:
        """The value of a tensor that stays where it lies; the same tensor is one value."""
        known = self._weights.get(id(tensor))
        if known is None:
            name = tensor.name or self.fresh()
            while name in self.initializers:
                name = f"{name}_{self.fresh()}"
            known = ir.Value(
                name=name,
                const_value=tensor,
                shape=_shape_of(tensor),
                type=ir.TensorType(tensor.dtype),
            )
            self._weights[id(tensor)] = self.initializers[name] = known
            self._read += tensor.nbytes
        return known

    def like(self, number: float | int | bool, x: ir.Value) -> ir.Value:
        """A scalar constant of the element type of `x`."""
        return self.constant(number, self.dtype(x).numpy())

    def cast(self, x: ir.Value, dtype: ir.DataType) -> ir.Value:
        """`x` as `dtype`; `x` itself where it is already."""
        return x if self.dtype(x) is dtype else self.op("Cast", x, to=dtype.value)

    def operand(self, value: Value, beside: ir.Value) -> ir.Value:
        """`value` as an operand beside a tensor: a Python number takes the tensor's type where it fits.

        A float beside ints makes both float32, and an int beside bools both int64, as MindSpore has it.
        """
        if type(value) is int and self.dtype(beside) is ir.DataType.BOOL:
            return self.constant(value, np.int64)
        if isinstance(value, bool | int | float):
            whole = not isinstance(value, float) or self.dtype(beside).is_floating_point()
            return self.like(value, beside) if whole else self.constant(value, np.float32)
        return self.tensor(value)

    def scalar(self, x: ir.Value) -> ir.Value:
        """`x`, which has one element, as a tensor of rank 0."""
        return x if self.rank(x) == 0 else self.op("Reshape", x, self.constant([], np.int64))

    def transpose(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Dimensions reordered: result dimension i is dimension perm[i] of `x`."""
        return self.op("Transpose", x, perm=list(perm))

    def reshape(self, x: ir.Value, dims: Sequence[int | ir.Value]) -> ir.Value:
        """`x` with other dimensions; -1 at most once, 0 is a dimension of size zero."""
        y = self.op("Reshape", x, self.vector(dims), allowzero=1 if 0 in dims else None)
        if y.shape is None and any(isinstance(d, ir.Value) for d in dims):
            # Inference sees nothing of dimensions that are computed.
            y.shape = ir.Shape([d if isinstance(d, int) and d >= 0 else None for d in dims])
        return y

    def vector(self, dims: Sequence[int | ir.Value]) -> ir.Value:
        """An int64 vector of ints and scalar tensors."""
        if all(isinstance(d, int) for d in dims):
            return self.constant([int(d) for d in dims if isinstance(d, int)], np.int64)
        parts = [
            self.op("Reshape", self.cast(d, ir.DataType.INT64), [1])
            if isinstance(d, ir.Value)
            else self.constant([d], np.int64)
            for d in dims
        ]
        return self.op("Concat", *parts, axis=0)

    def stored(self, x: ir.Value, quantised: Quantised) -> ir.Value:
        """A tensor of floats after it was stored in 8 bits; any other tensor as it is.

        The bits are unsigned, 128 above the file's: onnxruntime's kernels want them so, and when it turns
        signed ones into these itself it may end in a graph that it refuses (seen in 1.31).
        """
        dtype = self._dtype(x)
        if dtype is None or not dtype.is_floating_point():
            return x
        shifted = quantised._replace(zero_point=tuple(z + 128 for z in quantised.zero_point))
        scale, zero_point, axis = self._parameters(shifted, ir.DataType.UINT8, x)
        integers = self.op("QuantizeLinear", x, scale, zero_point, axis=axis)
        return self.op("DequantizeLinear", integers, scale, zero_point, axis=axis)

    def integers(self, x: ir.Value, quantised: Quantised) -> ir.Value:
        """The int8 that stand for floats."""
        scale, zero_point, axis = self._parameters(quantised, ir.DataType.INT8, x)
        return self.op("QuantizeLinear", x, scale, zero_point, axis=axis)

    def meant(self, integers: ir.Value, quantised: Quantised) -> ir.Value:
        """What integers stand for."""
        scale, zero_point, axis = self._parameters(quantised, self.dtype(integers), integers)
        return self.op("DequantizeLinear", integers, scale, zero_point, axis=axis)

    def _parameters(
        self, quantised: Quantised, dtype: ir.DataType, x: ir.Value
    ) -> tuple[ir.Value, ir.Value, int | None]:
        if quantised.axis is None:
            scale, zero_point = quantised.scale[0], quantised.zero_point[0]
            return self.constant(scale, np.float32), self.constant(zero_point, dtype.numpy()), None
        scales, zero_points = self.constant(quantised.scale, np.float32), quantised.zero_point
        return scales, self.constant(zero_points, dtype.numpy()), self.axis(quantised.axis, x)

    def assign(self, target: ir.Value, value: ir.Value) -> ir.Value:
        """Let `target` hold `value` from here on; returns `value`."""
        self._assignments += 1
        root = self._roots.get(target, target)
        view = self._views.get(root)
        if view is None:
            self.effects = self.effects.wrote(root, self._assignments, value)
        else:
            self.assign(view.base, view.write(self.read(view.base), value))
        self._roots[value] = root
        return value

    def root(self, x: ir.Value) -> ir.Value:
        """The tensor whose memory `x` was assigned to; itself where it is no result of an assignment."""
        return self._roots.get(x, x)

    def read(self, target: ir.Value) -> ir.Value:
        """What `target`, or what it was assigned to, holds at the node that is lowered."""
        root = self.root(target)
        view = self._views.get(root)
        if view is not None:
            held = self.read(view.base)
            return root if held is view.held else view.again(held)
        return self.effects.read(root) if root in self.effects.memory else target

    def view(
        self,
        result: ir.Value,
        base: ir.Value,
        again: Callable[[ir.Value], ir.Value],
        write: Callable[[ir.Value, ir.Value], ir.Value],
    ) -> None:
        """Let `result` share the memory of `base`: `again` makes it of what `base` holds at another time.

        `write` gives what `base` holds, after it held its first argument, when the second is assigned to
        the view. A weight is read by `Load` alone, and has no views; a view of all of a tensor is the tensor.
        """
        root = self._roots.get(base, base)
        if root.const_value is None and self._roots.get(result, result) is not root:
            self._views[result] = _View(base, self.read(base), again, write)

    def changed(self, x: ir.Value) -> ir.Value:
        """What a computed tensor holds here; a weight is read by `Load` alone, at a time of its own."""
        return x if self._roots.get(x, x).const_value is not None else self.read(x)

    def _operand(self, operand: Operand, like: ir.Value | None) -> ir.Value | None:
        if operand is None or isinstance(operand, ir.Value):
            return operand
        if isinstance(operand, np.ndarray):
            return self.constant(operand)
        if isinstance(operand, Sequence):
            return self.constant(list(operand), np.int64)
        if like is None:
            raise TypeError("a number needs a tensor beside it to tell its type")
        return self.like(operand, like)

    # -- asking ----------------------------------------------------------------------------------

    def dtype(self, x: ir.Value) -> ir.DataType:
        """Element type of a tensor."""
        dtype = self._dtype(x)
        if dtype is None:
            raise Unsupported(f"the element type of {x.name!r} is unknown")
        return dtype

    def _dtype(self, x: ir.Value) -> ir.DataType | None:
        if x.dtype is None:
            infer(x, self.opset)
        return x.dtype

    def result(self, x: ir.Value, index: int = 0) -> ir.DataType:
        """Element type that the file declares of a result of the node; that of `x` where it does not."""
        declared = self.declared[index] if index < len(self.declared) else None
        return self.dtype(x) if declared is None else declared.dtype

    def shape(self, x: ir.Value) -> tuple[int | None, ...]:
        """Dimensions of a tensor, None where free; Unsupported where not even the rank is known."""
        if x.shape is None:
            infer(x, self.opset)
        if x.shape is None:
            raise RankUnknown(f"the rank of {x.name!r} is unknown")
        return tuple(d if isinstance(d, int) else None for d in x.shape)

    def rank(self, x: ir.Value) -> int:
        """Number of dimensions."""
        return len(self.shape(x))

    def axis(self, axis: int, x: ir.Value) -> int:
        """`axis` counted from the front."""
        return axis % (self.rank(x) or 1) if axis < 0 else axis

    def static_shape(self, x: ir.Value) -> tuple[int, ...]:
        """Dimensions of a tensor that has no free one."""
        shape = self.shape(x)
        known = tuple(d for d in shape if d is not None)
        if len(known) != len(shape):
            raise Unsupported(f"needs all dimensions fixed, and they are {list(shape)}")
        return known

    def dim(self, x: ir.Value, axis: int) -> int | ir.Value:
        """One dimension: an int where it is known, else a scalar int64 tensor."""
        axis = self.axis(axis, x)
        known = self.shape(x)[axis]
        if known is not None:
            return known
        size = self.op("Shape", x, start=axis, end=axis + 1)
        return self.op("Squeeze", size, [0])

    def known(self, value: Value) -> Any:
        """A value as Python or numpy sees it now; None where only the run knows."""
        if not isinstance(value, ir.Value):
            return value
        if self.changes(value):
            return None
        if value.const_value is not None:
            self.asked.add(value)
            return value.const_value.numpy()
        node = value.producer()
        if node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
            return self.known(node.inputs[0])
        return None

    def changes(self, x: ir.Value) -> bool:
        """Whether `x` is a weight that will hold other values: nothing may rest on its value or place."""
        changing = x.const_value is not None and id(x.const_value) in self._changing
        self.held_back = self.held_back or changing
        return changing

    # -- converting arguments (see `table`) --------------------------------------------------------

    def tensor(self, value: Value) -> ir.Value:
        """`value` as a tensor; Python floats become float32, ints int64, bools bool."""
        if isinstance(value, ir.Value):
            return value
        if isinstance(value, bool | np.bool_):
            return self.constant(value, np.bool_)
        if isinstance(value, int):
            return self.constant(value, np.int64)
        if isinstance(value, float):
            return self.constant(value, np.float32)
        if isinstance(value, tuple) and value:
            return self._stacked(value)
        if isinstance(value, np.ndarray):
            return self.constant(value)
        if isinstance(value, tuple):
            return self.constant([], np.int64)
        return _refuse(value, "a tensor")

    def _stacked(self, values: tuple[Value, ...]) -> ir.Value:
        if all(isinstance(v, bool | int | float) for v in values):
            whole = all(isinstance(v, int) for v in values)
            return self.constant(values, np.int64 if whole else np.float32)
        return self.op("Concat", *(self.op("Unsqueeze", self.tensor(v), [0]) for v in values), axis=0)

    def tensors(self, value: Value) -> tuple[ir.Value, ...]:
        """A tuple of tensors; a single tensor stands for a tuple of one."""
        return tuple(self.tensor(v) for v in (value if isinstance(value, tuple) else (value,)))

    def int_(self, value: Value) -> int:
        """An int known now."""
        return self._number(value, int, "an int")

    def float_(self, value: Value) -> float:
        """A float known now."""
        return self._number(value, float, "a float")

    def bool_(self, value: Value) -> bool:
        """A bool known now."""
        return self._number(value, bool, "a bool")

    def dtype_(self, value: Value) -> ir.DataType:
        """An element type known now, which MindSpore gives as a number of its own."""
        if isinstance(value, ir.DataType):
            return value
        number = self.int_(value)
        if number not in DTYPES:
            name = {51: "complex64", 52: "complex128"}.get(number, number)
            raise Unsupported(f"is the element type {name}, which is not supported")
        return DTYPES[number]

    def str_(self, value: Value) -> str:
        """A string known now; numbers of enumerations are given in decimal."""
        return value if isinstance(value, str) else str(self.int_(value))

    def items(self, value: Value) -> tuple[Value, ...]:
        """A tuple of whatever it holds."""
        return value if isinstance(value, tuple) else _refuse(value, "a tuple")

    def ints(self, value: Value) -> tuple[int, ...]:
        """Ints known now."""
        return self._numbers(value, int, "ints")

    def floats(self, value: Value) -> tuple[float, ...]:
        """Floats known now."""
        return self._numbers(value, float, "floats")

    def dims(self, value: Value) -> tuple[int | ir.Value, ...]:
        """Ints and scalar tensors; a vector that only the run knows is taken apart."""
        known = self.known(value)
        if isinstance(known, tuple):
            return tuple(
                d if isinstance(d, ir.Value) and self.known(d) is None else self.int_(d) for d in known
            )
        if known is not None:
            return self.ints(known)
        if not isinstance(value, ir.Value):
            return _refuse(value, "dimensions")
        if self.rank(value) == 0:
            return (value,)
        (count,) = self.static_shape(value)
        if count > _MOST_DIMENSIONS:
            raise Unsupported(f"has {count} dimensions, and no tensor has more than {_MOST_DIMENSIONS}")
        return tuple(self.op("Gather", value, np.asarray(i, np.int64), axis=0) for i in range(count))

    def _number(self, value: Value, kind: Callable[[Any], _N], what: str) -> _N:
        known = self.known(value)
        if known is None and value is not None:
            raise Unsupported("must be known before the run, and it is computed by the graph")
        if isinstance(known, np.ndarray | tuple) and np.size(known) == 1:
            known = np.asarray(known).reshape(-1)[0]
        if isinstance(known, bool | int | float | np.generic):
            return kind(known)
        return _refuse(value, what)

    def _numbers(self, value: Value, kind: Callable[[Any], _N], what: str) -> tuple[_N, ...]:
        known = self.known(value)
        if known is None and value is not None:
            raise Unsupported("must be known before the run, and it is computed by the graph")
        if isinstance(known, np.ndarray):
            known = known.reshape(-1).tolist()
        if isinstance(known, bool | int | float | np.generic):
            known = (known,)
        if isinstance(known, tuple | list):
            return tuple(self._number(v, kind, what) for v in known)
        return _refuse(value, what)


_ATTRIBUTES: dict[type, Callable[[str, Any], ir.Attr]] = {
    bool: ir.AttrInt64,
    int: ir.AttrInt64,
    float: ir.AttrFloat32,
    str: ir.AttrString,
}
_LISTS: dict[type, Callable[[str, Any], ir.Attr]] = {int: ir.AttrInt64s, float: ir.AttrFloat32s}


def _attribute(name: str, value: Any) -> ir.Attr:
    # onnx-ir's own conversion asks every value whether it keeps each of its protocols: most of the time
    # that lowering took.
    if type(value) in _ATTRIBUTES:
        return _ATTRIBUTES[type(value)](name, value)
    if isinstance(value, list | tuple) and value and type(value[0]) in _LISTS:
        return _LISTS[type(value[0])](name, value)
    return ir.convenience.convert_attribute(name, value)


def _shape_of(tensor: ir.TensorProtocol) -> ir.Shape:
    shape = tensor.shape
    return shape if isinstance(shape, ir.Shape) else ir.Shape(shape.numpy())


def _digest(data: npt.NDArray[Any]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(data).view(np.uint8).data, digest_size=16).digest()


def _refuse(value: Value, wanted: str) -> NoReturn:
    if isinstance(value, TailCall):
        raise Unsupported("comes from a function that calls itself other than at its end, which is no loop")
    raise Unsupported(f"must be {wanted}, and it is {type(value).__name__}")


def opset_of(model: ir.Model) -> int:
    """The ONNX operator set that a model is written in."""
    return model.opset_imports.get("", OPSET)


def infer(x: ir.Value, opset: int) -> None:
    """Fill in type and shape of `x` by ONNX's own inference over the nodes, of a set, that compute it."""
    pending = [x]
    seen: set[ir.Value] = set()  # whose inputs are known, or have been asked: what failed once fails again
    while pending:
        value = pending[-1]
        node = value.producer()
        if node is None or (value.shape is not None and value.dtype is not None):
            pending.pop()
            continue
        if value not in seen:
            seen.add(value)
            unknown = [i for i in node.inputs if i is not None and (i.shape is None or i.dtype is None)]
            pending += [i for i in unknown if i.producer() and i not in seen]
            continue
        pending.pop()
        with suppress(onnx.shape_inference.InferenceError):  # used wrongly: the engine will say it
            infer_node(node, opset)


def infer_node(node: ir.Node, opset: int, values: Mapping[ir.Value, ir.TensorProtocol] = _NONE) -> None:
    """Fill in what ONNX's inference tells of a node's outputs; its InferenceError where inputs do not fit.

    `values` holds what is known of inputs that are no constants.
    """
    if node.domain or any(a.type is ir.AttributeType.GRAPH for a in node.attributes.values()):
        return
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        if value is None or value.name is None:
            continue
        if value.dtype is None:
            return
        types[value.name] = _type_proto(value)
        known = values.get(value) or ir.convenience.get_const_tensor(value)  # of an operator Constant, too
        if known is not None and known.size <= 64:
            with suppress(ir.serde.SerdeError):  # it will hold other values, or the file is damaged
                data[value.name] = ir.serde.serialize_tensor(known)
                data[value.name].name = value.name
    try:
        proto = ir.serde.serialize_node(node)
        schema = onnx.defs.get_schema(node.op_type, opset)
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=[onnx.helper.make_opsetid("", opset)]
        )
        for output in node.outputs:
            if output.name in inferred and inferred[output.name].HasField("tensor_type"):
                _take(output, inferred[output.name].tensor_type)
    except (onnx.defs.SchemaError, onnx.checker.ValidationError, ir.serde.SerdeError, ValueError):
        pass  # there is no such operator, or no such element type: the engine will say it


def _type_proto(value: ir.Value) -> onnx.TypeProto:
    assert value.dtype is not None
    shape = None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]
    return onnx.helper.make_tensor_type_proto(value.dtype.value, shape)


def _take(value: ir.Value, inferred: onnx.TypeProto.Tensor) -> None:
    if value.dtype is None and inferred.elem_type:
        value.dtype = ir.DataType(inferred.elem_type)
    if value.shape is None and inferred.HasField("shape"):
        value.shape = ir.Shape([d.dim_value if d.HasField("dim_value") else None for d in inferred.shape.dim])
