"""Protocol of engines: executables, and the compiled form that the compile cache stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pinnace.options.target import Target
from pinnace.types import Array, Interface, Port

if TYPE_CHECKING:  # a model from the cache needs no compiler
    from pinnace.engines.steps import Step
    from pinnace.lowering.graph import Compilable
    from pinnace.weights.source import Source

State = list[Array]
"""The values that a model instance keeps between predictions; [] for most models."""

BY_SHAPES = "time by shapes"
"""The fact that the shapes of a request tell how long it takes: "" if the values of integers may, too."""

WITHOUT_ELEMENTS = "without elements"
"""The key of an executable's info: why it takes no input with a dimension of 0, "" if it does."""

HALF_WEIGHTS = "pinnace.half_weights"
"""Key of a graph's metadata: the engine keeps its float16 weights, and converts them when they are used."""

TENSORS = "tensors"
"""The subfolder of a compiled model whose files are named by the digests of their content."""


class Execution(Protocol):
    """One place where an executable runs; one thread at a time may use it.

    It keeps what successive runs share, such as the arrays that were bound last. `state` is what the model
    keeps between predictions; `run` replaces its values.
    """

    state: State

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        """Compute the outputs for `arrays`: C-contiguous, with the dtypes of `inputs` and fitting shapes.

        `outputs` are C-contiguous and writable, with the dtypes and shapes of the results. Returns this list
        itself if all of it was written, else new arrays. If the executable `takes_device_memory`, both may
        contain `DeviceArray`s, and `outputs` may contain None for a new array. Raises `EngineError` if the
        engine fails.
        """

    def stop(self, for_good: bool = False) -> None:
        """End `run`, which another thread calls, as soon as the engine can; it raises an error, or still
        returns the results.

        The state stays as it was, or is that after the run. The execution is of no use afterwards; with
        `for_good` the executable is of none either.
        """


HERE, OTHER_PROCESS, ALL_RANKS = "this process", "another process", "all ranks"
"""The places in which an `Executable` computes a request."""


class Executable(Protocol):
    """A model compiled for one target. All methods may be called from any number of threads."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of `Execution.run`, in order."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The results of `Execution.run`, in order."""

    @property
    def info(self) -> dict[str, str]:
        """Facts for `Model.get_model_info`: user info of the file, engine, precision in use."""

    @property
    def takes_device_memory(self) -> bool:
        """True if runs accept and return `DeviceArray`s of the target's device in place of arrays."""

    @property
    def writes_free(self) -> bool:
        """True if runs write results of free shapes to arrays, and return others where the shapes differ."""

    @property
    def queues(self) -> bool:
        """True if more executions than `parallel_requests` may run: the engine starts one after the other."""

    @property
    def is_light(self) -> bool:
        """True if an execution has no state and takes next to no memory, so that one more costs nothing."""

    @property
    def runs_in(self) -> str:
        """HERE, OTHER_PROCESS, or ALL_RANKS, which run the same requests in the same order."""

    @property
    def lost_by_fork(self) -> str:
        """Reason why a forked child, which has a single thread, cannot run it; "" if it can."""

    def execution(self, state: State | None = None) -> Execution:
        """Create a place to run, with this state or the model's initial one."""

    def profile(self) -> list[list[Step]]:
        """Return the steps of each run so far, and stop profiling; [] if the target has no `profile`."""

    def close(self) -> None:
        """Free the engine's memory. Nothing may run afterwards."""


class FileWeight(NamedTuple):
    """A weight that an engine reads from the model's files, so that no cache entry stores it.

    `file` is relative to the model's folder, "" for the model file itself; `offset` and `length` are in
    bytes, `dtype` is ONNX's number of the element type, `digest` that of the bytes.
    """

    name: str
    file: str
    offset: int
    length: int
    dtype: int
    shape: tuple[int, ...]
    digest: str


class Compiled(NamedTuple):
    """A graph that an engine compiled into a folder, and can load without the graph."""

    interface: Interface
    first_state: tuple[Array, ...]
    weights: tuple[FileWeight, ...]


class Refitter(Protocol):
    """A graph whose weights can be exchanged repeatedly."""

    def refit(self, weights: Mapping[str, Array]) -> Executable:
        """Return an executable with these values of weights; all others have those of the file.

        Names are those of the graph's initializers; values have their dtypes and shapes, are C-contiguous,
        and must not change during the life of the executable. Raises `EngineError`.
        """


class Engine(Protocol):
    """A library that runs graphs."""

    @property
    def name(self) -> str:
        """Its name and version."""

    def build(self, graph: Compilable, target: Target) -> Executable:
        """Make an executable without storing anything. Raises `EngineError` or `LackingKernelsError`."""

    def compile(self, graph: Compilable, source: Source, target: Target, folder: Path) -> Compiled:
        """Optimize a graph, and write what `load` needs to the empty `folder` and its subfolder TENSORS.

        Raises as `build` does, and `OSError` if the folder cannot be written.
        """

    def load(self, compiled: Compiled, source: Source, target: Target, folder: Path) -> Executable:
        """Make an executable from the files that `compile` wrote. Raises `EngineError`."""

    def refitter(
        self, graph: Compilable, source: Source, target: Target, kept: tuple[Compiled, Path] | None
    ) -> Refitter:
        """Prepare to exchange the weights `graph.variable`.

        `kept` is the result of `compile` for this graph with its folder, if there is one. Raises as `build`
        does.
        """


def refusal_of(infos: Iterable[Mapping[str, str]]) -> str:
    """Return the reason by which executables with these infos take no input with a dimension of 0, or ""."""
    reasons = (info.get(WITHOUT_ELEMENTS, "nothing is known of its engine") for info in infos)
    return next(filter(None, reasons), "")


def failures(module: ModuleType) -> tuple[type[Exception], ...]:
    """Return the exceptions of an engine: the classes of its module, and those to which pybind11 maps C++'s.

    All others come from signal handlers, such as one that limits the time, and are for the caller.
    """
    own = (kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Exception))
    return RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, BufferError, *own
