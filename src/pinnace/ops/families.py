"""The primitive table with all its rows: the families, and the functions that look them up.

Models of MindSpore import it when they are lowered; ONNX models need none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from pinnace.ops import signatures
from pinnace.ops.table import TABLE, Primitive
from pinnace.program import Dialect


def _modules(room: str, names: str) -> tuple[str, ...]:
    return tuple(f"pinnace.ops.{room}.{name}" for name in names.split())


_COMMON = {
    Dialect.MINDSPORE: _modules(
        "mindspore", "activation arithmetic array conv linalg math norm pool reduce slicing structure"
    ),
    Dialect.LITE: _modules("lite", "array math nn"),
}
"""The modules whose rows are enough for most networks; all others take 10 ms to import."""

_ROOMS = ("mindspore", "lite", "ascend")
"""The folders of the modules that enter rows; the last one looks for rows of the others."""

_NAMES = """
Abs AllGather Assign AssignAdd BinaryCrossEntropy BroadcastTo Ceil Cos Depend Elu Equal Erf FillV2
Flatten Floor FloorDiv FloorMod GLU Gather GatherD GatherNd Greater GreaterEqual IsFinite LeakyRelu Less
LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr NLLLoss Neg NonZero NotEqual OnesLike
PartialFusion RaggedRange Range Reciprocal ReverseSequence ReverseV2 Round Rsqrt ScatterNd
ScatterNdUpdate Select SigmoidCrossEntropyWithLogits Sin SmoothL1Loss SoftmaxCrossEntropyWithLogits
SparseSoftmaxCrossEntropyWithLogits Sqrt Square SquaredDifference Squeeze Switch TensorScatterAdd
Tril Triu Unique UnsortedSegmentSum Unstack ZerosLike
"""
"""Primitives of MindSpore Lite that mean what MindSpore's of the same name mean."""
_SHARED = frozenset(_NAMES.split())


def _families() -> Iterator[str]:
    for room in _ROOMS:
        yield from _modules(
            room, " ".join(path.stem for path in Path(__file__).with_name(room).glob("[a-z]*.py"))
        )


def _enter(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(module)


def find(dialect: Dialect, name: str) -> Primitive | None:
    """The row for a primitive, or None where Pinnace does not know it.

    MindSpore Lite's converter leaves MindSpore's primitives in a file that it has none of its own for.
    """
    for modules in (_COMMON[dialect], _families()):
        row = TABLE.get((dialect, name)) or _shared(dialect, name)
        if row is not None:
            return row
        _enter(modules)
    row = TABLE.get((dialect, name))
    if row is None and dialect is Dialect.LITE and signatures.find(dialect, name) is None:
        row = TABLE.get((Dialect.MINDSPORE, name))
    return row


def _shared(dialect: Dialect, name: str) -> Primitive | None:
    """The row for a primitive of MindSpore Lite that means what MindSpore's does."""
    if dialect is Dialect.MINDSPORE or name not in _SHARED:
        return None
    plain = find(Dialect.MINDSPORE, name)
    assert plain is not None
    row = TABLE[dialect, name] = replace(plain, dialect=dialect)
    return row


def rows() -> Iterator[Primitive]:
    _enter(_families())
    for name in _SHARED:
        find(Dialect.LITE, name)
    return iter(sorted(TABLE.values(), key=lambda row: (row.name, row.dialect.value)))
