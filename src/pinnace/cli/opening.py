"""Opening of models and filling of their inputs, for commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinnace.errors import ArgumentValueError, ConfigError, EngineError, ModelFormatError, PinnaceError
from pinnace.escaping import shown

if TYPE_CHECKING:
    from pinnace import Context, ModelParallelRunner, Tensor
    from pinnace.cli.inputs import InputData, Pictures
    from pinnace.shapes import Shape


def context_for(
    threads: int,
    config: Path | None = None,
    workers: int = 1,
    provider: str = "",
    precision: str = "enforce_fp32",
) -> Context:
    from pinnace import Context

    if config and not config.exists():
        raise ConfigError(f"--config {config}: there is no such file")
    context = Context()
    context.target = ["cpu"]
    context.cpu.thread_num = threads
    context.cpu.provider = provider
    context.cpu.precision_mode = precision
    context.parallel.workers_num = workers
    context.parallel.config_path = str(config) if config else ""
    return context


def open_model(path: Path, context: Context) -> ModelParallelRunner:
    """Open a model as a runner, which detects the file's format."""
    from pinnace import ModelParallelRunner

    if not path.exists():
        raise ModelFormatError(f"{path}: there is no such file")
    runner = ModelParallelRunner()
    runner.build_from_file(str(path), context)
    return runner


def fill(
    model: ModelParallelRunner,
    given: Sequence[str],
    shapes: Sequence[str],
    pictures: Pictures | None = None,
    batch: int = 0,
) -> tuple[list[Tensor], list[InputData]]:
    """Return the model's inputs with their data, resized if needed.

    Pixels are 0 to 1 by default. `batch` above 0 is the first dimension of inputs that leave it free.
    """
    from pinnace.cli.console import progress
    from pinnace.cli.inputs import Pictures, assign, feed, parse_shapes

    pictures = pictures or Pictures()
    tensors = model.get_inputs()
    names = [tensor.name for tensor in tensors]
    wanted = parse_shapes(shapes, names)
    if batch:
        wanted |= batched(tensors, wanted, batch)
    fed = feed(tensors, assign(given, names), wanted, pictures)
    if [list(one.array.shape) for one in fed] != [list(tensor.shape) for tensor in tensors]:
        with progress("Resizing the model"), guesses_named(tensors, fed):
            model.resize(tensors, [list(one.array.shape) for one in fed])
        tensors = model.get_inputs()
    for tensor, one in zip(tensors, fed, strict=True):
        tensor.set_data_from_numpy(one.array)
    return tensors, fed


def batched(tensors: Sequence[Tensor], wanted: Mapping[str, Shape], batch: int) -> dict[str, Shape]:
    """Return `wanted` shapes with the first dimension of inputs that leave it free."""
    free = [tensor for tensor in tensors if tensor.shape and tensor.shape[0] == -1]
    if not free:
        raise ArgumentValueError(f"--batch {batch}: no input has a free first dimension")
    for one in free:
        if wanted.get(one.name, (1,))[:1] != (1,):
            given = f"--shape {one.name}={','.join(map(str, wanted[one.name]))}"
            raise ArgumentValueError(f"--batch {batch}: {given} has another first dimension")
    return {one.name: (batch, *wanted.get(one.name, tuple(one.shape))[1:]) for one in free}


@contextmanager
def guesses_named(tensors: Sequence[Tensor], fed: Sequence[InputData]) -> Iterator[None]:
    """Add to an error in the block how to give the shapes that were guessed."""
    try:
        yield
    except PinnaceError as error:
        given = [
            f"--shape {shown(tensor.name)}={','.join(map(str, one.array.shape))}"
            for tensor, one in zip(tensors, fed, strict=True)
            if one.guessed
        ]
        if not given:
            raise
        raise EngineError(
            f"{error}\nIts free dimensions were set to 1, which may be the cause: choose them, as in "
            f"{' '.join(given)} with other numbers"
        ) from error


def note_inputs(tensors: Sequence[Tensor], fed: Sequence[InputData]) -> list[dict[str, Any]]:
    """Print a note on each input. Returns their facts."""
    from pinnace.cli.console import note
    from pinnace.cli.outputs import facts

    for tensor, one in zip(tensors, fed, strict=True):
        note(
            f"input {shown(tensor.name)} {list(tensor.shape)} {tensor.dtype.name}: {one.source}",
            "input", input=tensor.name, shape=list(tensor.shape), dtype=tensor.dtype.name, source=one.source,
        )  # fmt: skip
    return [facts(tensor) | {"source": one.source} for tensor, one in zip(tensors, fed, strict=True)]
