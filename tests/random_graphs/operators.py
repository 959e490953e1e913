"""Nodes of any operator, as ONNX's schemas describe it, on what a graph has so far.

A schema tells inputs, types and attributes. What it does not tell, which numbers and shapes go together, is in
tables by the names of inputs and attributes; where an operator does not take them, the oracle refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper
from tests.random_graphs import values
from tests.random_graphs.draft import Draft, Refused

from pinnace.engines.openvino.supported import OPERATORS

_SKIPPED = frozenset(
    [
        "Bernoulli",
        "If",
        "ImageDecoder",
        "Loop",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Scan",
        "SequenceMap",
        "Dropout",
        "Optional",
    ]
)
"""Operators that draw at random, or that have graphs in them, which
`dress` makes, or that give what onnxruntime's Python shows as a tensor and is none."""

_TAME_TYPES = ("float32", "float32", "float32", "int64", "bool", "int8", "uint8")
"""Those of tame graphs."""

_RANKS = {
    "AveragePool BatchNormalization Conv ConvInteger ConvTranspose GlobalAveragePool GlobalLpPool "
    "GlobalMaxPool InstanceNormalization LpPool MaxPool QLinearConv GroupNormalization": (3, 5),
    "DepthToSpace SpaceToDepth LRN MeanVarianceNormalization Upsample GridSample RoiAlign MaxRoiPool "
    "CausalConvWithState": (4, 4),
    "Gemm EyeLike": (2, 2),
    "MatMul MatMulInteger QLinearMatMul Det": (2, 4),
    "LSTM GRU RNN": (3, 3),
    "Attention": (4, 4),
    "Softmax LogSoftmax Hardmax Concat Split Gather GatherElements ScatterElements ScatterND GatherND TopK Transpose "
    "Slice Squeeze ArgMax ArgMin CumSum CumProd OneHot Compress ReverseSequence LayerNormalization LpNormalization "
    "RMSNormalization Tile Trilu": (1, 5),
    "Resize": (2, 4),
}
RANKS = {name: ranks for names, ranks in _RANKS.items() for name in names.split()}

_TYPES = ("float32",) * 8 + ("float64", "float16", "int64", "int32", "bool", "int8", "uint8", "float16")


class Node:
    """A node to be: its schema, its first input, and what was decided of it."""

    def __init__(self, d: Draft, schema: Any) -> None:
        self.d, self.schema, self.rng = d, schema, d.rng
        self.attributes: dict[str, Any] = {}
        self.letters: dict[str, np.dtype] = {}
        self.x = ""
        self.memo: dict[str, Any] = {}

    @property
    def array(self) -> np.ndarray:
        found = self.d.values[self.x]
        if not isinstance(found, np.ndarray):
            raise Refused("no tensor")
        return found

    @property
    def rank(self) -> int:
        return self.array.ndim

    @property
    def axis(self) -> int:
        return int(self.attributes.get("axis", _default(self.schema, "axis")))

    def along(self) -> int:
        """The size of the dimension that the axis names."""
        shape = self.array.shape
        if not -len(shape) <= self.axis < len(shape):
            raise Refused("no such axis")
        return int(shape[self.axis])

    def integers(self, low: int, high: int, shape: Any = ()) -> Any:
        if high < low:
            raise Refused("nothing to choose from")
        return self.rng.integers(low, high + 1, shape)

    def dtype(self, type_str: str) -> np.dtype:
        """The element type for a type of the schema; the same letter is the same type."""
        if type_str not in self.letters:
            allowed = _numpy_types(self.schema.domain, self.schema.name, self.schema.since_version, type_str)
            types = _TAME_TYPES if self.d.tame else _TYPES
            liked = [t for t in types if t in allowed] or sorted(allowed)
            if not liked:
                raise Refused("no tensor")
            usual = allowed if not self.d.tame and self.d.chance(0.15) else liked
            self.letters[type_str] = np.dtype(
                str(self.rng.choice(sorted(usual) if usual is allowed else usual))
            )
        return self.letters[type_str]

    def memoized(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]


def _default(schema: Any, name: str) -> int:
    if name not in schema.attributes:
        return 0
    value = helper.get_attribute_value(schema.attributes[name].default_value)
    return value if isinstance(value, int) else 0


@cache
def _numpy_types(domain: str, name: str, version: int, type_str: str) -> frozenset[str]:
    schema = defs.get_schema(name, version, domain)
    constraint = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    found = set()
    for text in constraint.get(type_str, [type_str]):
        kind = text.removeprefix("tensor(").removesuffix(")")
        kind = {"float": "float32", "double": "float64", "string": "object"}.get(kind, kind)
        try:
            if text.startswith("tensor("):
                found.add(np.dtype(kind).name)
        except TypeError:
            pass  # bfloat16, float8 and int4, which numpy does not have
    return frozenset(found - {"complex64", "complex128"})


@cache
def schemas(opset: int) -> tuple[Any, ...]:
    """The newest schema of each operator at an operator set."""
    names = sorted({s.name for s in defs.get_all_schemas_with_history() if not s.domain} - _SKIPPED)
    found = []
    for name in names:
        try:
            schema = defs.get_schema(name, opset, "")
        except defs.SchemaError:
            continue
        if not schema.deprecated:
            found.append(schema)
    return tuple(found)


def add_any(d: Draft) -> None:
    """Add a node of an operator drawn from the schemas; Refused where the draw did not fit."""
    known = [s for s in schemas(d.opset) if not d.tame or s.name in OPERATORS]
    schema = known[int(d.rng.integers(len(known)))]
    n = Node(d, schema)
    inputs: list[str] = []
    for place, formal in enumerate(schema.inputs):
        if place == 1:
            _draw_attributes(n)
        many = formal.option == defs.OpSchema.FormalParameterOption.Variadic
        optional = formal.option == defs.OpSchema.FormalParameterOption.Optional
        if optional and d.chance(0.45):
            inputs.append("")
            continue
        count = int(n.integers(max(formal.min_arity, 1), 4)) if many else 1
        for _ in range(count):
            inputs.append(_first(n, formal) if not inputs else _further(n, formal))
            n.x = n.x or inputs[0]
    if len(schema.inputs) < 2:
        _draw_attributes(n)
    while inputs and not inputs[-1]:
        inputs.pop()
    outputs = _output_count(n)
    d.op(schema.name, *inputs, outputs=outputs, **n.attributes)


def _output_count(n: Node) -> int:
    if n.schema.name == "Split":
        count = (
            n.attributes.get("num_outputs") or len(n.attributes.get("split") or n.memo.get("split", ())) or 2
        )
        return int(count)
    optional = defs.OpSchema.FormalParameterOption.Optional
    needed = sum(o.option != optional for o in n.schema.outputs)
    return (
        int(n.integers(max(needed, 1), max(len(n.schema.outputs), 1))) if n.d.chance(0.3) else max(needed, 1)
    )


def _first(n: Node, formal: Any) -> str:
    """The input that the others go by: something that is there, or new."""
    d = n.d
    allowed = _numpy_types(n.schema.domain, n.schema.name, n.schema.since_version, formal.type_str)
    least, most = RANKS.get(n.schema.name, (0, 5))
    found = None
    if d.chance(0.75):
        found = d.existing(lambda v: v.dtype.name in allowed and least <= v.ndim <= most)
    if found is None:
        special = _INPUTS.get((n.schema.name, formal.name))
        if special is not None:
            return d.leaf(special(n), _dtype_or_none(n, formal))
        rank = int(n.integers(least, most if d.chance(0.3) else min(most, 4)))
        found = d.random(values.sizes(d.rng, rank), n.dtype(formal.type_str))
    n.letters[formal.type_str] = d.dtype(found)
    return found


def _dtype_or_none(n: Node, formal: Any) -> Any:
    try:
        return n.dtype(formal.type_str)
    except Refused:
        return None


def _further(n: Node, formal: Any) -> str:
    d = n.d
    special = _INPUTS.get((n.schema.name, formal.name)) or _INPUTS.get(formal.name)
    if special is not None:
        made = special(n)
        return d.leaf(made, n.dtype(formal.type_str), fixed=formal.name in _CONSTANT or d.chance(0.5))
    dtype = n.dtype(formal.type_str)
    if d.chance(0.3):
        found = d.existing(lambda v: v.dtype == dtype and _broadcasts(v.shape, n.array.shape))
        if found is not None:
            return found
    return d.random(values.spread(d.rng, n.array.shape), dtype, fixed=d.chance(0.4))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False))


def _draw_attributes(n: Node) -> None:
    for name, attribute in sorted(n.schema.attributes.items()):
        if not attribute.required and n.d.chance(0.5):
            continue
        make = _ATTRIBUTES.get((n.schema.name, name)) or _ATTRIBUTES.get(name)
        value = make(n) if make is not None else _plain(n, attribute)
        if value is not None:
            n.attributes[name] = value
    if n.schema.name == "Constant":  # it takes exactly one, which the schema does not say
        n.attributes = dict(list(n.attributes.items())[:1])


def _plain(n: Node, attribute: Any) -> Any:
    kinds = defs.OpSchema.AttrType
    if attribute.type == kinds.FLOAT:
        return float(n.rng.choice([0.0, 0.5, 1.0, 0.25, -1.0, 0.01, 2.0]))
    if attribute.type == kinds.INT:
        return int(n.rng.choice([0, 1, 1, 2]))
    return None


def _from_the_end(n: Node) -> bool:
    """Whether to count an axis from the end, which operators may do since operator set 11."""
    return n.d.opset >= 11 and n.d.chance(0.3)


def _axes(n: Node) -> list[int]:
    """Some axes, each once, counted from either end."""

    def make() -> list[int]:
        count = int(n.integers(1, n.rank)) if n.rank else 0
        chosen = n.rng.permutation(n.rank)[:count]
        drawn = [int(a) - (n.rank if _from_the_end(n) else 0) for a in chosen]
        return [_comparable(n, a) for a in drawn]

    return n.memoized("axes", make)


def _axis(n: Node) -> int:
    return _comparable(n, int(n.integers(-n.rank if n.d.opset >= 11 else 0, n.rank - 1)))


def _comparable(n: Node, axis: int) -> int:
    """The axis, from the front for reductions of nothing: bare onnxruntime gets those from the end wrong."""
    reduces = n.schema.name.startswith(("Reduce", "Arg"))
    return axis % n.rank if reduces and n.rank and not n.array.size else axis


def _kernel(n: Node) -> list[int]:
    def make() -> list[int]:
        return [int(n.rng.choice([1, 2, 3, 3, 5])) for _ in range(n.rank - 2)]

    return n.memoized("kernel", make)


def _strides(n: Node) -> list[int]:
    steps = [int(n.rng.choice([1, 1, 2, 3])) for _ in range(n.rank - 2)]
    if n.attributes.get("auto_pad", "NOTSET") == "NOTSET":
        return steps
    # Padding that would be negative: onnxruntime alone refuses it, or moves the windows.
    return [min(step, k) for step, k in zip(steps, _kernel(n), strict=True)]


def _pads(n: Node) -> list[int] | None:
    if n.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    kernel = _kernel(n)
    return [int(n.integers(0, max(k // 2, 1) if n.d.chance(0.8) else k)) for k in kernel * 2]


def _group(n: Node) -> int:
    channels = n.array.shape[1] if n.rank > 1 else 1
    divisors = [g for g in range(1, channels + 1) if channels % g == 0] or [1]
    return n.memoized("group", lambda: int(n.rng.choice([1, *divisors])))


def _vector(n: Node, size: int, least: int = -8) -> np.ndarray:
    return n.integers(least, 8, size) / 4


def _channels(n: Node) -> np.ndarray:
    return _vector(n, n.array.shape[1] if n.rank > 1 else 1)


def _filters(n: Node) -> int:
    return n.memoized("filters", lambda: _group(n) * int(n.integers(1, 4)))


def _weight(n: Node) -> np.ndarray:
    n.attributes.setdefault("group", _group(n))
    group, channels = n.attributes["group"], n.array.shape[1]
    if not channels:
        raise Refused("onnxruntime leaves the results of no channels as the memory was")
    kernel = n.attributes.get("kernel_shape", _kernel(n))
    if n.schema.name == "ConvTranspose":
        return values.array(n.rng, np.dtype("float32"), (channels, _filters(n) // group, *kernel))
    shape = (_filters(n), channels // group, *kernel)
    return n.integers(-8, 8, shape) / (1 if n.array.dtype.kind in "iu" else 4)


def _inner(n: Node) -> np.ndarray:
    """The other matrix of a product."""
    shape = n.array.shape
    inner = shape[-1] if n.rank else 1
    batch = values.spread(n.rng, shape[:-2]) if n.d.chance(0.5) else ()
    columns = () if n.d.chance(0.1) else (int(n.integers(1, 5)),)
    if not columns:
        batch = ()
    return n.integers(-8, 8, (*batch, inner, *columns)) / (1 if n.array.dtype.kind in "iu" else 4)


def _gemm_b(n: Node) -> np.ndarray:
    rows = n.array.shape[0 if n.attributes.get("transA") else 1]
    columns = n.memoized("columns", lambda: int(n.integers(1, 5)))
    shape = (columns, rows) if n.attributes.get("transB") else (rows, columns)
    return n.integers(-8, 8, shape) / 4


def _gemm_c(n: Node) -> np.ndarray:
    rows = n.array.shape[1 if n.attributes.get("transA") else 0]
    return n.integers(-8, 8, values.spread(n.rng, (rows, n.memo["columns"]))[-2:]) / 4


def _indices(n: Node) -> np.ndarray:
    size = n.along()
    if not size:
        raise Refused("nothing to gather")
    return n.integers(-size, size - 1, values.sizes(n.rng, int(n.integers(0, 2))))


def _element_indices(n: Node) -> np.ndarray:
    """Indices of the input's rank, no larger than it; for Scatter no place twice."""
    size = n.along()
    shape = [int(n.integers(min(1, s), s)) for s in n.array.shape]
    where = n.axis % n.rank
    if n.schema.name.startswith("Scatter"):
        order = np.argsort(n.rng.random([size if a == where else s for a, s in enumerate(shape)]), axis=where)
        found = order.take(range(shape[where]), axis=where)
    else:
        found = n.integers(0, max(size - 1, 0), shape)
    n.memo["scattered"] = found.shape
    return np.where(n.rng.random(found.shape) < 0.2, found - size, found)


def _nd_indices(n: Node) -> np.ndarray:
    shape = n.array.shape
    batch = n.attributes.get("batch_dims", 0)
    if batch >= n.rank or 0 in shape:
        raise Refused("no such element")
    depth = int(n.integers(1, n.rank - batch))
    if n.schema.name == "ScatterND":
        rows = np.stack(np.unravel_index(np.arange(int(np.prod(shape[:depth]))), shape[:depth]), -1)
        found = n.rng.permutation(rows)[: int(n.integers(1, 4))]
        n.memo["scattered"] = (*found.shape[:-1], *shape[depth:])
        return found
    lead = (*shape[:batch], *values.sizes(n.rng, int(n.integers(0, 2))))
    return np.stack([n.integers(-s, s - 1, lead) for s in shape[batch : batch + depth]], -1)


def _scattered(n: Node) -> np.ndarray:
    return values.array(n.rng, n.array.dtype, n.memo["scattered"])


def _cuts(n: Node) -> np.ndarray:
    """Starts, ends, axes and steps of a Slice, a row each."""

    def make() -> np.ndarray:
        axes = _axes(n) if n.d.chance(0.6) else list(range(int(n.integers(1, max(n.rank, 1)))))
        rows = []
        for axis in axes:
            size = n.array.shape[axis]
            step = int(n.rng.choice([1, 1, 1, 2, -1, -2]))
            ends = sorted(int(i) for i in n.integers(-size - 2, size + 2, 2))
            far = 2**31 - 1 if n.d.chance(0.5) else 2**63 - 1
            start, end = ends if step > 0 else (ends[1], ends[0])
            if n.d.chance(0.3):
                end = far if step > 0 else -far
            if n.d.chance(0.3):
                start = 0 if step > 0 else size - 1
            rows.append((start, end, axis, step))
        return np.array(rows, np.int64).T.reshape(4, -1)

    return n.memoized("cuts", make)


def _reshaped(n: Node) -> np.ndarray:
    """A shape of as many elements: dimensions merged, split, copied by 0 or left to be told by -1."""
    shape = list(n.array.shape)
    size = int(np.prod(shape))
    style = str(n.rng.choice(["merge", "factor", "flat", "same", "one"]))
    if style == "merge" and len(shape) > 1:
        at = int(n.integers(0, len(shape) - 2))
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif style == "factor" and size:
        at = int(n.integers(0, len(shape) - 1)) if shape else 0
        whole = shape[at] if shape else 1
        by = int(n.rng.choice([f for f in range(1, whole + 1) if whole % f == 0]))
        shape[at : at + 1] = [by, whole // by]
    elif style == "flat":
        shape = [size]
    elif style == "one":
        shape.insert(int(n.integers(0, len(shape))), 1)
    given = list(n.array.shape)
    zeros = n.attributes.get("allowzero", 0)
    written = [
        0 if not zeros and i < len(given) and given[i] == s and n.d.chance(0.3) else s
        for i, s in enumerate(shape)
    ]
    if size and written and n.d.chance(0.5):
        written[int(n.integers(0, len(written) - 1))] = -1
    return np.array(written, np.int64)


def _parts(n: Node) -> list[int]:
    def make() -> list[int]:
        size = n.along()
        cuts = sorted(int(c) for c in n.integers(0, size, int(n.integers(0, 2))))
        return [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]

    return n.memoized("split", make)


def _pad_amounts(n: Node) -> list[int]:
    if n.schema.name == "Pad" and n.memo.get("padded") is None:
        n.memo["padded"] = n.rank
    least = -1 if n.d.chance(0.1) else 0
    return [int(i) for i in n.integers(least, 2, 2 * n.memo.get("padded", n.rank))]


def _unsqueezed(n: Node) -> list[int]:
    count = int(n.integers(1, 2))
    whole = n.rank + count
    chosen = n.rng.permutation(whole)[:count]
    return [int(a) - (whole if _from_the_end(n) else 0) for a in chosen]


def _squeezed(n: Node) -> list[int]:
    ones = [a for a, s in enumerate(n.array.shape) if s == 1]
    if not ones:
        raise Refused("nothing to squeeze")
    return [a - (n.rank if _from_the_end(n) else 0) for a in ones if n.d.chance(0.7)] or ones[:1]


def scales(d: Draft) -> list[float]:
    """Steps of a quantization; those of tame graphs leave quarters no halves, which engines round either way."""
    exact = [0.25, 0.125, 0.0625] if d.tame else [0.25, 0.125, 0.5, 1.0]
    return exact if d.chance(0.6) else [0.11, 0.037] if d.tame else [0.1, 0.037]


def _scale(n: Node) -> np.ndarray:
    return n.rng.choice(scales(n.d), _per(n))


def _per(n: Node) -> tuple[int, ...]:
    """() or (channels,), once for scale and zero point."""

    def make() -> tuple[int, ...]:
        by_axis = "axis" in n.schema.attributes and n.rank and n.d.chance(0.5)
        return (n.along(),) if by_axis else n.d.choice((), (), (1,))

    return n.memoized("per", make)


def _zero_point(n: Node) -> np.ndarray:
    dtype = n.dtype("T2" if n.schema.name == "QuantizeLinear" else "T")
    return np.zeros(_per(n)) if dtype in (np.int32, np.int16) else n.integers(0, 9, _per(n))


def _hidden(n: Node) -> int:
    return n.memoized("hidden", lambda: n.attributes.get("hidden_size") or int(n.integers(1, 4)))


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _both(n: Node) -> int:
    return 2 if n.attributes.get("direction") == "bidirectional" else 1


def _recurrent(*tail: Callable[[Node], int]) -> Callable[[Node], np.ndarray]:
    return lambda n: n.integers(-4, 4, (_both(n), *(t(n) for t in tail))) / 4


def _features(n: Node) -> int:
    if not n.array.shape[-1]:
        raise Refused("no features: refused where rows are free (docs/limits.md)")
    return int(n.array.shape[-1])


def _gates(n: Node) -> int:
    return _GATES[n.schema.name] * _hidden(n)


def _batch(n: Node) -> int:
    return int(n.array.shape[0 if n.attributes.get("layout") else 1])


def _resized(n: Node) -> np.ndarray:
    if n.memo.setdefault("by", n.d.choice("scales", "sizes")) != "sizes":
        raise Refused("by scales")
    return n.integers(1, 6, n.rank)


def _factors(n: Node) -> np.ndarray:
    return n.rng.choice([1, 1, 2, 0.5, 1.5, 3], n.rank)


def _normalized_shape(n: Node) -> np.ndarray:
    axis = n.attributes.get("axis", -1)
    shape = n.array.shape[axis:] if n.rank and -n.rank <= axis < n.rank else ()
    return n.rng.integers(-8, 9, shape) / 4


def _ones(n: Node, size: int) -> np.ndarray:
    return n.rng.integers(1, 9, size) / 4


def _type_number(n: Node) -> int:
    kinds = ("float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool", "int16", "uint16")
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(n.d.choice(*kinds))))


_INPUTS: dict[Any, Callable[[Node], Any]] = {
    "axes": _axes,
    ("Squeeze", "axes"): _squeezed,
    ("Unsqueeze", "axes"): _unsqueezed,
    ("CumSum", "axis"): _axis,
    ("CumProd", "axis"): _axis,
    ("Conv", "W"): _weight,
    ("Conv", "B"): lambda n: _vector(n, _filters(n)),
    ("ConvTranspose", "W"): _weight,
    ("ConvTranspose", "B"): lambda n: _vector(n, _filters(n)),
    ("ConvInteger", "w"): _weight,
    ("ConvInteger", "x_zero_point"): lambda n: n.integers(0, 3),
    ("ConvInteger", "w_zero_point"): lambda n: n.integers(0, 3),
    ("MatMul", "B"): _inner,
    ("MatMulInteger", "B"): _inner,
    ("MatMulInteger", "a_zero_point"): lambda n: n.integers(0, 3),
    ("MatMulInteger", "b_zero_point"): lambda n: n.integers(0, 3),
    ("Gemm", "B"): _gemm_b,
    ("Gemm", "C"): _gemm_c,
    ("Gather", "indices"): _indices,
    ("GatherElements", "indices"): _element_indices,
    ("ScatterElements", "indices"): _element_indices,
    ("ScatterElements", "updates"): _scattered,
    ("Scatter", "indices"): _element_indices,
    ("Scatter", "updates"): _scattered,
    ("GatherND", "indices"): _nd_indices,
    ("ScatterND", "indices"): _nd_indices,
    ("ScatterND", "updates"): _scattered,
    ("Slice", "starts"): lambda n: _cuts(n)[0],
    ("Slice", "ends"): lambda n: _cuts(n)[1],
    ("Slice", "axes"): lambda n: _cuts(n)[2],
    ("Slice", "steps"): lambda n: _cuts(n)[3],
    ("Reshape", "shape"): _reshaped,
    ("Expand", "shape"): lambda n: values.spread(n.rng, n.array.shape),
    ("Tile", "repeats"): lambda n: n.integers(0 if n.d.chance(0.05) else 1, 3, n.rank),
    ("Split", "split"): _parts,
    ("Pad", "pads"): _pad_amounts,
    ("Pad", "axes"): lambda n: range(n.memo.get("padded", n.rank)),
    ("Pad", "constant_value"): lambda n: n.integers(-3, 3),
    ("TopK", "K"): lambda n: [n.integers(0, min(n.along(), 5))],
    ("Clip", "min"): lambda n: n.integers(-3, 1),
    ("Clip", "max"): lambda n: n.integers(0, 6),
    ("OneHot", "indices"): lambda n: n.integers(0, 3, values.sizes(n.rng, 2)),
    ("OneHot", "depth"): lambda n: n.integers(2, 6),
    ("OneHot", "values"): lambda n: [0, 1],
    ("Range", "start"): lambda n: n.integers(-5, 5),
    ("Range", "limit"): lambda n: n.integers(0, 20),
    ("Range", "delta"): lambda n: n.integers(1, 3),
    ("ConstantOfShape", "input"): lambda n: values.sizes(n.rng, int(n.integers(0, 3))),
    ("Compress", "condition"): lambda n: (
        n.rng.random(n.along() if "axis" in n.attributes else n.array.size) < 0.5
    ),
    ("QuantizeLinear", "y_scale"): _scale,
    ("QuantizeLinear", "y_zero_point"): _zero_point,
    ("DequantizeLinear", "x_scale"): _scale,
    ("DequantizeLinear", "x_zero_point"): _zero_point,
    ("LSTM", "W"): _recurrent(_gates, _features),
    ("LSTM", "R"): _recurrent(_gates, _hidden),
    ("LSTM", "B"): _recurrent(lambda n: 2 * _gates(n)),
    ("LSTM", "P"): _recurrent(lambda n: 3 * _hidden(n)),
    ("GRU", "W"): _recurrent(_gates, _features),
    ("GRU", "R"): _recurrent(_gates, _hidden),
    ("GRU", "B"): _recurrent(lambda n: 2 * _gates(n)),
    ("RNN", "W"): _recurrent(_gates, _features),
    ("RNN", "R"): _recurrent(_gates, _hidden),
    ("RNN", "B"): _recurrent(lambda n: 2 * _gates(n)),
    "initial_h": _recurrent(_batch, _hidden),
    "initial_c": _recurrent(_batch, _hidden),
    "sequence_lens": lambda n: n.integers(
        1, n.array.shape[1 if n.attributes.get("layout") else 0], _batch(n)
    ),
    ("ReverseSequence", "sequence_lens"): lambda n: n.integers(
        1, n.array.shape[n.attributes.get("time_axis", 0)], n.array.shape[n.attributes.get("batch_axis", 1)]
    ),
    ("BatchNormalization", "scale"): _channels,
    ("BatchNormalization", "B"): _channels,
    "mean": _channels,
    "input_mean": _channels,
    "var": lambda n: _ones(n, n.array.shape[1]),
    "input_var": lambda n: _ones(n, n.array.shape[1]),
    ("InstanceNormalization", "scale"): _channels,
    ("InstanceNormalization", "B"): _channels,
    ("GroupNormalization", "scale"): lambda n: _vector(
        n, n.d.choice(n.array.shape[1], n.attributes.get("num_groups", 1))
    ),
    ("GroupNormalization", "bias"): lambda n: _vector(n, n.array.shape[1]),
    ("LayerNormalization", "Scale"): _normalized_shape,
    ("LayerNormalization", "B"): _normalized_shape,
    ("RMSNormalization", "scale"): _normalized_shape,
    ("PRelu", "slope"): lambda n: n.integers(-4, 4, values.spread(n.rng, n.array.shape)[-n.rank or 1 :]) / 4,
    ("Resize", "roi"): lambda n: np.zeros(0),
    ("Resize", "scales"): lambda n: (
        _factors(n) if n.memo.setdefault("by", n.d.choice("scales", "sizes")) == "scales" else np.zeros(0)
    ),
    ("Resize", "sizes"): _resized,
    ("Upsample", "scales"): lambda n: np.abs(n.rng.choice([1, 1, 2, 3], n.rank)),
    ("Trilu", "k"): lambda n: n.integers(-3, 3),
    ("GridSample", "grid"): lambda n: n.rng.uniform(
        -1.2, 1.2, (n.array.shape[0], *(int(i) for i in n.integers(1, 4, n.rank - 2)), n.rank - 2)
    ),
    ("BitShift", "Y"): lambda n: n.integers(0, 5, values.spread(n.rng, n.array.shape)),
    ("Pow", "Y"): lambda n: (
        n.rng.choice([0, 1, 2, 3, 0.5, -1], values.spread(n.rng, n.array.shape))
        if n.d.chance(0.5)
        else n.d.choice(2, 3, 0.5, -1, 0, 1)
    ),
    ("Div", "B"): lambda n: n.rng.choice([1, 2, 3, 4, 5], values.spread(n.rng, n.array.shape)),
    ("Mod", "B"): lambda n: n.rng.choice([1, 2, 3, 5], values.spread(n.rng, n.array.shape)),
    ("DFT", "dft_length"): lambda n: n.integers(1, 6),
    ("CenterCropPad", "shape"): lambda n: n.integers(1, 5, len(n.attributes.get("axes", range(n.rank)))),
    "window_size_for": lambda n: n.integers(1, 9),
}
"""What goes into an input, by operator and name or by name alone."""

_CONSTANT = frozenset(
    [
        "axes",
        "shape",
        "pads",
        "repeats",
        "split",
        "scales",
        "sizes",
        "roi",
        "starts",
        "ends",
        "steps",
        "k",
        "K",
        "depth",
        "y_zero_point",
        "x_zero_point",
        "W",
        "R",
        "B",
        "P",
        "w",
        "x_scale",
        "y_scale",
    ]
)
"""Inputs that are mostly constants."""


def _one_of(*options: Any) -> Callable[[Node], Any]:
    return lambda n: n.d.choice(*options)


_ATTRIBUTES: dict[Any, Callable[[Node], Any]] = {
    "axis": _axis,
    "axes": _axes,
    ("Squeeze", "axes"): _squeezed,
    ("Unsqueeze", "axes"): _unsqueezed,
    ("CenterCropPad", "axes"): lambda n: _axes(n),
    ("Concat", "axis"): _axis,
    "perm": lambda n: [int(i) for i in n.rng.permutation(n.rank)],
    "keepdims": _one_of(0, 1),
    "periodic": _one_of(0, 1),
    "to": _type_number,
    ("EyeLike", "dtype"): _type_number,
    "dtype": lambda n: None,
    "output_dtype": lambda n: None,
    "stash_type": lambda n: None,
    "precision": lambda n: None,
    "kernel_shape": _kernel,
    "strides": _strides,
    "dilations": lambda n: [int(n.rng.choice([1, 1, 2])) for _ in range(n.rank - 2)],
    "auto_pad": _one_of("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "pads": _pads,
    ("Pad", "pads"): _pad_amounts,
    ("Pad", "mode"): _one_of("constant", "constant", "reflect", "edge", "wrap"),
    "group": _group,
    "ceil_mode": _one_of(0, 1),
    "count_include_pad": _one_of(0, 1),
    "storage_order": lambda n: None,
    "training_mode": lambda n: None,
    "spatial": lambda n: None,
    "momentum": lambda n: None,
    "consumed_inputs": lambda n: None,
    "epsilon": _one_of(1e-5, 1e-3, 0.1, 1e-12),
    "approximate": _one_of("none", "tanh"),
    "output_shape": lambda n: None,
    "output_padding": lambda n: [int(i) for i in n.integers(0, 1, n.rank - 2)],
    "split": _parts,
    "num_outputs": lambda n: n.memoized("num", lambda: int(n.integers(1, 3))),
    "starts": lambda n: [int(i) for i in _cuts(n)[0]],
    "ends": lambda n: [int(i) for i in _cuts(n)[1]],
    ("Slice", "axes"): lambda n: [int(i) for i in _cuts(n)[2]],
    ("DepthToSpace", "mode"): _one_of("DCR", "CRD"),
    "blocksize": _one_of(1, 2, 3),
    ("Resize", "mode"): _one_of("nearest", "linear", "cubic"),
    ("Upsample", "mode"): _one_of("nearest", "linear"),
    ("Resize", "axes"): lambda n: None,
    "coordinate_transformation_mode": _one_of(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
    ),
    "nearest_mode": _one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": _one_of("stretch", "not_larger", "not_smaller"),
    ("GridSample", "mode"): _one_of("linear", "nearest", "cubic", "bilinear"),
    "padding_mode": _one_of("zeros", "border", "reflection"),
    "align_corners": _one_of(0, 1),
    "direction": _one_of("forward", "reverse", "bidirectional"),
    ("BitShift", "direction"): _one_of("LEFT", "RIGHT"),
    "hidden_size": lambda n: n.memoized("hidden", lambda: int(n.integers(1, 4))),
    "activations": lambda n: None,
    "layout": _one_of(0, 0, 0, 1),
    "fmod": _one_of(0, 1),
    "largest": _one_of(0, 1),
    "sorted": _one_of(1),  # else the order is anybody's
    "antialias": _one_of(0, 1),
    "exclusive": _one_of(0, 1),
    "reverse": _one_of(0, 1),
    "upper": _one_of(0, 1),
    "select_last_index": _one_of(0, 1),
    "batch_dims": _one_of(0, 0, 1),
    "reduction": _one_of("none", "add", "mul", "max", "min"),
    "equation": _one_of(
        "...ij,...jk->...ik", "ij,jk->ik", "bij,bjk->bik", "...ij->...ji", "ij->i", "bij,bkj->bik"
    ),
    "num_groups": _group,
    "new_axis": lambda n: None,
    "value": lambda n: onnx.numpy_helper.from_array(values.array(n.rng, np.dtype("float32"), (1,))),
    "p": _one_of(1, 2, 3),
    "size": _one_of(1, 3, 5),
    "start": lambda n: int(n.integers(-n.rank - 1, n.rank)),
    "end": lambda n: int(n.integers(-n.rank - 1, n.rank + 1)),
    "transA": _one_of(0, 1),
    "transB": _one_of(0, 1),
    "time_axis": _one_of(0, 1),
    "batch_axis": lambda n: 1 - n.attributes.get("time_axis", 0) if "time_axis" in n.attributes else 1,
    "block_size": lambda n: None,
    "noop_with_empty_axes": _one_of(0, 1),
    "linear_before_reset": _one_of(0, 1),
    "allowzero": _one_of(0, 1),
    "saturate": _one_of(0, 1),
    "clip": _one_of(0.5, 1.0, 3.0),
    "detect_positive": _one_of(0, 1),
    "detect_negative": _one_of(0, 1),
}
