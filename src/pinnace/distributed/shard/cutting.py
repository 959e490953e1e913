"""Partition a model, write a file for each rank, and report the share of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import (
    IdentityEliminationPass,
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
    RemoveUnusedNodesPass,
    ShapeInferencePass,
)

from pinnace import formats
from pinnace.distributed.plan import Partition
from pinnace.distributed.segments import PART
from pinnace.distributed.shard import pipeline, tensor
from pinnace.distributed.shard.costs import (
    COLLECTIVE,
    HELD,
    OPERATION,
    TOUCHED,
    Choice,
    nbytes,
    operations,
    sent,
)
from pinnace.distributed.shard.products import plain_transposes, prepare_products
from pinnace.errors import ConfigError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph import shape_data
from pinnace.graph.constants import array
from pinnace.graph.editor import Editor
from pinnace.graph.nodes import DOMAIN
from pinnace.graph.traits import Trait, having
from pinnace.graph.walk import nodes
from pinnace.lowering.graph import compilable, has_collectives
from pinnace.lowering.reshaping import infer_all
from pinnace.weights.digest import digest
from pinnace.weights.source import SMALL, Source
from pinnace.writing import replacing

_SPARE = 0.15
"""Share of the weights that a rank may hold beyond its part before a pipeline is the better choice."""
_MOST_RANKS = 1024
_RANDOM = having(Trait.RANDOM) - {"Dropout"}
_MADE_UP = (3, 2), (4, 3)
"""Two sets of sizes for free dimensions: that of the first, and the step from each to the next."""


@dataclass(frozen=True)
class RankShare:
    """The share of one rank in a model.

    `weights` and `whole` are bytes, of this rank and of the model; `operations` are additions and
    multiplications of products and convolutions, `sent` bytes that one prediction sends, or receives where
    that is more; free dimensions count as 1 in both. `why` explains the cut in lines of text.
    """

    file: str
    weights: int
    whole: int
    operations: int
    collectives: int
    sent: int
    why: list[str]


def save_onnx(parts: Sequence[ir.Model], stems: Sequence[Path], inputs: Iterable[Path]) -> list[Path]:
    """Write STEM.onnx and STEM.data for each part, none of which may be one of `inputs`."""
    paths = [stem.with_name(f"{stem.name}.onnx") for stem in stems]
    with replacing(paths[0], inputs) as first:
        for made, path in zip(parts, paths, strict=True):
            data = f"{path.stem}.data"
            ir.save(made, first.with_name(path.name), external_data=data, size_threshold_bytes=SMALL)
    return paths


Save = Callable[[Sequence[ir.Model], Sequence[Path], Iterable[Path]], list[Path]]
"""Writes the parts, as `save_onnx` does."""


def shard(
    model: Path,
    ranks: int,
    folder: Path,
    strategy: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    save: Save = save_onnx,
) -> list[RankShare]:
    """Write the files of each rank to `folder`, by `save`. `strategy` is "tensor", "pipeline" or "".

    "" is tensor if that divides most of the weights, else pipeline. `shapes` fixes free dimensions of inputs.
    Raises `ModelFormatError`, `UnsupportedModelError`, `ConfigError`, `OSError`.
    """
    if ranks > _MOST_RANKS:
        raise ConfigError(f"{ranks} ranks: a model can be cut into at most {_MOST_RANKS} parts")
    source = Source.of_file(model)
    strategy = strategy or _chosen(source, ranks, shapes or {})
    products = 1 if strategy == "pipeline" else ranks
    parts = [_prepared(source, shapes or {}, products) for _ in range(ranks)]
    name = _content(source)
    choice = None if strategy == "pipeline" else tensor.plan(parts[0], ranks)
    shares = []
    for rank, made in enumerate(parts):
        whole = _weight_bytes(made)
        why = _cut(made, rank, ranks, choice, model)
        made.metadata_props[PART] = json.dumps(asdict(Partition(name, rank, ranks)))
        made.producer_name = "pinnace"
        shares.append(_share(made, whole, ranks, why))
    folder.mkdir(parents=True, exist_ok=True)
    files = save(parts, [folder / f"{model.stem}_{rank}" for rank in range(ranks)], source.seen)
    return [replace(share, file=file.name) for share, file in zip(shares, files, strict=True)]


def _cut(made: ir.Model, rank: int, ranks: int, choice: Choice | None, model: Path) -> list[str]:
    """Leave the part of one rank; `choice` is None for a pipeline. Returns lines that explain the cut."""
    if choice is None:
        pipeline.cut(made, rank, ranks)
        return ["each rank computes a stretch of the graph"]
    whole = _weight_bytes(made)
    split = tensor.cut(made, rank, ranks, choice.shardings)
    if not split:
        what = f"{model}: has no product or table of weights worth cutting for {ranks} ranks"
        raise ConfigError(f"{what}; use --strategy pipeline")
    return _why(made, whole, split, choice)


def _content(source: Source) -> str:
    """Return a digest of a model that was read: of its file, and of the files with its weights."""
    files = ("", *source.files)
    return digest("".join(digest(source.bytes_of(file)) for file in files).encode())


def _chosen(source: Source, ranks: int, shapes: Mapping[str, Sequence[int]]) -> str:
    """Choose tensor parallelism if it leaves a rank little more than its part of the weights."""
    made = _prepared(source, shapes, ranks)
    whole = _weight_bytes(made)
    tensor.cut(made, 0, ranks, tensor.plan(made, ranks).shardings)
    return "tensor" if _weight_bytes(made) <= whole * (1 / ranks + _SPARE) else "pipeline"


def _prepared(source: Source, shapes: Mapping[str, Sequence[int]], ranks: int) -> ir.Model:
    """Return the graph of a model with types and shapes, products with weights as `prepare_products` writes
    them.
    """
    graph = compilable(formats.read(source), source.name, None)
    model = graph.model
    if graph.interface.states:
        row = UnsupportedPrimitive("Assign", 1, "", "a model that keeps placement cannot be cut yet")
        raise UnsupportedModelError(source.name, [row])
    if has_collectives(model):
        raise ConfigError(f"{source.name}: is a part of a model that was cut; cut the whole into more ranks")
    IdentityEliminationPass()(model)
    _weights_as_initializers(model)
    if ranks > 1:
        _check_random(model, source.name)
    known = {value.name: value for value in model.graph.inputs}
    for name, dims in shapes.items():
        if name not in known:
            raise ConfigError(
                f"{source.name}: has no input {name!r}; its inputs are {', '.join(map(str, known))}"
            )
        _check_shape(source.name, known[name], dims)
        known[name].shape = ir.Shape(dims)
        _forget_shapes([value for node in model.graph for value in node.outputs])
    prepare_products(model, ranks)
    _infer(model, source.name)
    _fold(model)
    plain_transposes(model)
    RemoveUnusedNodesPass()(model)
    return model


def _weights_as_initializers(model: ir.Model) -> None:
    """Turn weights in all forms into initializers."""
    RemoveInitializersFromInputsPass()(model)
    model.ir_version = max(model.ir_version, 4)  # older versions require initializers to be inputs
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)


def _check_random(model: ir.Model, name: str) -> None:
    """Raise UnsupportedModelError for nodes of which each rank would get other numbers."""
    why = "each rank would draw other numbers: export the model for inference, or use --strategy pipeline"
    rows = ((node.op_type, why, node.name or "") for node in nodes(model.graph) if _draws(node))
    if found := UnsupportedPrimitive.counted(rows):
        raise UnsupportedModelError(name, found)


def _draws(node: ir.Node) -> bool:
    """Return True if a node draws at random. Dropout does so for training, unless its ratio is 0."""
    if node.op_type == "Dropout" and len(node.inputs) > 2:
        numbers = [array(value) for value in node.inputs[1:]]
        return all(one is None or bool(one) for one in numbers)
    return node.op_type in _RANDOM and "seed" not in node.attributes


def _check_shape(model: str, value: ir.Value, dims: Sequence[int]) -> None:
    had = None if value.shape is None else [dim if isinstance(dim, int) else -1 for dim in value.shape]
    if 0 in dims:
        wanted = "every dimension must be at least 1"
    elif had is None or (len(had) == len(dims) and all(h in (-1, d) for h, d in zip(had, dims, strict=True))):
        return
    else:
        wanted = f"it is {had}, of which only -1 is free"
    raise ConfigError(f"{model}: input {value.name!r} cannot have the shape {list(dims)}: {wanted}")


def _infer(model: ir.Model, name: str) -> None:
    """Infer types, shapes and the small integers that they determine.

    Where inputs have free dimensions, shapes are inferred for two made-up sizes of them: inference does not
    follow free dimensions through the arithmetic with which exporters write shapes.
    """
    given = [list(value.shape or ()) for value in model.graph.inputs]
    names = [[_name(dim, place, axis) for axis, dim in enumerate(dims)] for place, dims in enumerate(given)]
    free = list(dict.fromkeys(name for dims in names for name in dims if name))
    numbers = {key: number for number, key in enumerate(free)}
    axes = {key: axis for dims in names for axis, key in enumerate(dims) if key}  # one batch with two names
    followed = free and all(value.shape is not None for value in model.graph.inputs)
    for made_up in (numbers, axes) if followed else ():
        with suppress(UnsupportedModelError):
            _infer_twice(model, name, names, made_up)
            break
    else:
        ShapeInferencePass(check_type=False, strict_mode=False)(model)
    infer_all(model, name)


def _infer_twice(
    model: ir.Model, name: str, names: Sequence[Sequence[str]], numbers: Mapping[str, int]
) -> None:
    """Infer shapes for two made-up sizes of each free dimension, by the number of its name."""
    inputs = model.graph.inputs
    outputs = [value for node in model.graph for value in node.outputs]
    given, inferred = ([value.shape for value in values] for values in (inputs, outputs))
    sizes = [{key: first + step * number for key, number in numbers.items()} for first, step in _MADE_UP]
    shapes = []
    try:
        for made_up in sizes:
            for value, shape, keys in zip(inputs, given, names, strict=True):
                assert shape is not None
                value.shape = ir.Shape([made_up.get(key, dim) for dim, key in zip(shape, keys, strict=True)])
            _forget_shapes(outputs)
            ShapeInferencePass(check_type=False, strict_mode=False)(model)
            infer_all(model, name)
            shapes.append([value.shape for value in outputs])
        symbols = {(sizes[0][key], sizes[1][key]): key for key in numbers}
        inferred = [_common(one, other, symbols) for one, other in zip(*shapes, strict=True)]
    finally:
        for value, shape in zip((*inputs, *outputs), (*given, *inferred), strict=True):
            value.shape = shape


def _forget_shapes(values: Sequence[ir.Value]) -> None:
    for value in values:
        value.shape = None


def _name(dim: int | ir.SymbolicDim, place: int, axis: int) -> str:
    """Return a name of a free dimension of an input; "" for a fixed one."""
    return "" if isinstance(dim, int) else dim.value or f"free {place} {axis}"


def _common(
    one: ir.Shape | None, other: ir.Shape | None, symbols: Mapping[tuple[int, int], str]
) -> ir.Shape | None:
    """Return the dimensions that two shapes share; equal pairs of others get equal names."""
    if one is None or other is None or len(one) != len(other):
        return None
    dims: list[int | str | None] = []
    for a, b in zip(one, other, strict=True):
        if isinstance(a, int) and isinstance(b, int):
            dims.append(a if a == b else symbols.get((a, b), f"size {a} {b}"))
        else:
            dims.append(None)
    return ir.Shape(dims)


def _fold(model: ir.Model) -> None:
    """Write sizes that the graph computes from fixed shapes as constants, and leave their nodes unread."""
    b = Editor(model, "%known")
    for value in [output for node in model.graph for output in node.outputs]:
        known = shape_data.exact(value)
        if known is not None and not value.is_graph_output():
            value.replace_all_uses_with(b.constant(known))
    b.finish()


# -- report ----------------------------------------------------------------------------------------


def _share(model: ir.Model, whole: int, ranks: int, why: list[str]) -> RankShare:
    collectives = [node for node in model.graph if node.domain == DOMAIN]
    through = int(sum(_sent(node, ranks) for node in collectives))
    work = sum(map(operations, model.graph))
    return RankShare("", _weight_bytes(model), whole, work, len(collectives), through, why)


def _weight_bytes(model: ir.Model) -> int:
    read = {v for node in ir.traversal.RecursiveGraphIterator(model.graph) for v in node.inputs}
    weights = (v.const_value for v in model.graph.initializers.values() if v in read)
    return sum(weight.nbytes for weight in weights if weight is not None)


def _sent(node: ir.Node, ranks: int) -> float:
    if node.op_type in ("AllReduce", "AllGather"):
        return sum(sent(nbytes(value), ranks, node.op_type == "AllReduce") for value in node.outputs)
    return sum(nbytes(value) for value in (node.inputs or node.outputs) if value is not None)


def _why(model: ir.Model, whole: int, split: Mapping[str, Sequence[int]], choice: Choice) -> list[str]:
    """Return what was cut how, what the ranks tell each other, and the costs that decided it."""
    by_kind: dict[str, list[float]] = {}
    for node in model.graph:
        if node.domain == DOMAIN:
            by_kind.setdefault(node.op_type, []).append(nbytes(node.outputs[0]))
    cut = [f"{len(sizes)} {how} ({_mb(sum(sizes))})" for how, sizes in split.items()]
    rest = whole - sum(map(sum, split.values()))
    parts = [f"{len(sizes)} {kind} ({_mb(sum(sizes))})" for kind, sizes in by_kind.items()]
    return [
        f"weights: {', '.join(cut)}, others whole ({_mb(max(0, rest))})",
        f"collectives: {', '.join(parts)}",
        f"cost of a rank: {_mb(choice.cost)}, of the model uncut: {_mb(choice.uncut)}, where a byte sent "
        f"counts 1, a byte of weights {HELD:g}, a byte written {TOUCHED:g}, an operation {OPERATION:g}, a "
        f"collective {COLLECTIVE}",
    ]


def _mb(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
