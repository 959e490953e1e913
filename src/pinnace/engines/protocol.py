"""What every engine gives: executables, and what the compile cache keeps to make them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from pinnace.engines.steps import Step
from pinnace.options.target import Target
from pinnace.types import Array, Interface, Port

if TYPE_CHECKING:  # a model from the cache needs no compiler
    from pinnace.compiler.graph import Compilable
    from pinnace.weights.source import Source

State = list[Array]
"""The values that a model instance keeps between predictions; [] for most models."""


TENSORS = "tensors"
"""The folder among what an engine keeps whose files are named by the digests of what they hold."""


class Execution(Protocol):
    """One place where an executable runs; one thread at a time may use it.

    It holds what runs one after the other share, as the arrays that were bound last. `state` is what the
    model keeps between predictions; `run` replaces its values.
    """

    state: State

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs for `arrays` (C-contiguous, dtypes as `inputs` say; shapes that fit).

        Results are new arrays, or `outputs` where these are given: C-contiguous, writable, of the dtypes and
        the shapes that the results have. Of an executable that `takes_device_memory` both may hold a
        `DeviceArray`, and `outputs` None where a new array is wanted. Raises `EngineError` where the engine
        fails.
        """


class Executable(Protocol):
    """A model compiled for one target. All methods may be called from any number of threads."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What `Execution.run` takes, in order."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What `Execution.run` gives, in order."""

    @property
    def info(self) -> Mapping[str, str]:
        """Facts for `Model.get_model_info`: user info of the file, engine, precision in use."""

    @property
    def takes_device_memory(self) -> bool:
        """Whether runs take and give `DeviceArray`s of the target's device in the place of arrays."""

    def execution(self, state: State | None = None) -> Execution:
        """A new place to run, which starts with this state, or with the first one of the model."""

    def profile(self) -> list[list[Step]]:
        """The steps of each run so far, where the target says `profile`, else []. No more are noted after."""

    def close(self) -> None:
        """Free what the engine holds. Nothing may run after."""


@dataclass(frozen=True)
class Kept:
    """A weight that an engine takes as it is in the model's files, and that no entry of the cache holds.

    `file` names it from the model's folder, "" is the model file itself; `offset` and `length` are bytes,
    `dtype` is ONNX's number of the element type, `digest` that of the bytes.
    """

    name: str
    file: str
    offset: int
    length: int
    dtype: int
    shape: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class Compiled:
    """What an engine made of a graph, and wrote into a folder: enough to load it without the graph."""

    interface: Interface
    first_state: tuple[Array, ...]
    weights: tuple[Kept, ...]


class Refitter(Protocol):
    """A graph into which other weights can be poured, again and again."""

    def refit(self, weights: Mapping[str, Array]) -> Executable:
        """An executable whose weights `weights` hold these values; all others hold what the file says.

        Names are those of the graph's initializers; values have their dtypes and shapes, are C-contiguous,
        and must not be changed as long as the executable lives. Raises `EngineError`.
        """


class Engine(Protocol):
    """A library that runs graphs."""

    @property
    def name(self) -> str:
        """Its name and version."""

    def build(self, graph: Compilable, target: Target) -> Executable:
        """Make an executable that nothing is kept of. Raises `EngineError` or `LackingKernelsError`."""

    def compile(self, graph: Compilable, source: Source, target: Target, folder: Path) -> Compiled:
        """Optimise a graph, and write into the empty `folder`, and into TENSORS there, what `load` needs.

        Raises as `build` does, and `OSError` where the folder cannot be written.
        """

    def load(self, compiled: Compiled, source: Source, target: Target, folder: Path) -> Executable:
        """Make an executable of what `compile` wrote. Raises `EngineError`."""

    def refitter(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> Refitter:
        """Make ready to exchange the weights `graph.variable`.

        `kept` is what `compile` made of this graph, and its folder, where there is such. Raises as `build`.
        """


def failures(module: ModuleType) -> tuple[type[Exception], ...]:
    """What an engine raises while it runs: the classes of its module, and what pybind11 makes of C++'s.

    All else comes from the handler of a signal, such as one that limits the time, and is for the caller.
    """
    own = (kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Exception))
    return RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, BufferError, *own
