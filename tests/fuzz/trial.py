"""One trial: a number makes a damaged file, and the file is opened."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from random import Random

import onnx_ir as ir
from tests.fuzz.amplify import amplifying
from tests.fuzz.corpus import families
from tests.fuzz.damage import damaged

from pinnace import engines
from pinnace.errors import PinnaceError
from pinnace.formats import read
from pinnace.lowering.graph import compilable
from pinnace.options.target import Target
from pinnace.types import ModelType
from pinnace.weights.source import Source

MEMORY = 2 << 30  # bytes of address space that one trial may add; the files have some thousand
GROWTH = 768 << 20  # bytes of resident memory after which a trial took too much
_AMPLIFYING = 50  # one in so many trials is no damaged file but one that asks for much with few bytes
_ENGINE = 10  # the engine is built in one of so many trials
_NO_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate", "Available memory")  # of onnxruntime


class Excess(Exception):
    """A trial took memory without bounds."""


@dataclass(frozen=True)
class Trial:
    """A damaged file."""

    family: str
    origin: str
    model_type: ModelType
    data: bytes
    folder: Path | None
    with_engine: bool


def trial(number: int, always: bool = False) -> Trial:
    """The trial of a number, the same one each time; `always` builds the engine in all of them."""
    rng = Random(number)
    if number % _AMPLIFYING == _AMPLIFYING - 1:
        name, kind, data = amplifying(rng)
        return Trial("amplifying", name, kind, data, None, True)
    every = families()
    (name,) = rng.choices(list(every), [f.share for f in every.values()])
    family = every[name]
    seed, other = family.draw(rng), family.draw(rng)
    data = damaged(rng, seed.data, [seed.data, other.data], family.model_type)
    return Trial(name, seed.name, family.model_type, data, seed.folder, rng.randrange(_ENGINE) == 0 or always)


def outcome(data: bytes, kind: ModelType | None, folder: Path | None, with_engine: bool) -> str:
    """What opening a model ends in: "built", "lowered", or the name of the one error that refuses it.

    What raises here is a finding.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        return _opened(data, kind, folder, with_engine)
    except PinnaceError as error:
        _check_cause(error)
        return type(error).__name__
    finally:
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        if grown > GROWTH:
            raise Excess(f"resident memory grew by {grown >> 20} MiB")


def _opened(data: bytes, kind: ModelType | None, folder: Path | None, with_engine: bool) -> str:
    if not data:
        return "empty"
    graph = compilable(
        read(Source.of_buffer(data, folder), kind), "model buffer", None if folder is None else str(folder)
    )
    for value in graph.model.graph.initializers.values():
        if isinstance(value.const_value, ir.TensorProtocol):
            value.const_value.numpy()
    if not with_engine:
        return "lowered"
    target = Target(threads=1)
    engines.choose(target, "model buffer").build(graph, target).close()
    return "built"


def _check_cause(error: BaseException) -> None:
    """A refusal that came of having no memory left is none: with more, it would have been taken."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or any(words in str(cause) for words in _NO_MEMORY):
            raise Excess(f"{type(cause).__name__}: {str(cause)[:300]}")
        cause = cause.__cause__ or cause.__context__
