"""Gears: the sizes that the free dimensions of all inputs may have together.

The options `dynamic_dims`, `ge.dynamicDims` and their kin define them, where a model is built or converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinnace.errors import ConfigError, DataMismatchError, ModelFormatError
from pinnace.shapes import Shape, Sizes, agrees, is_free, named_shapes, parted, sizes, written
from pinnace.types import Port

INPUT_SHAPE, DYNAMIC_DIMS = "input_shape", "dynamic_dims"
"""Names in a `.mindir` of the shapes that a model was converted for, and of its gears."""
_ANY = range(1, 1_000_000_000)


def limited(
    ports: Sequence[Port], input_shape: str, dynamic_dims: str, option: str = DYNAMIC_DIMS
) -> tuple[Port, ...]:
    """Return inputs with the sizes of `dynamic_dims` for their free dimensions. Raises `ConfigError`.

    Sizes are in the order of `input_shape`, followed by the inputs that it does not name. `option` is where
    they were given.
    """
    if not dynamic_dims:
        return tuple(ports)
    order = list(named_shapes(input_shape))
    places = {port.name: order.index(port.name) if port.name in order else len(order) for port in ports}
    free = sorted((port for port in ports if is_free(port.shape)), key=lambda port: places[port.name])
    if not free:
        have = ", ".join(f"{port.name!r} {port.dims()}" for port in ports)
        raise ConfigError(
            f"{option} has sizes of free dimensions, and the model's inputs have none ({have}): leave it "
            f"out, or free dimensions by -1 in {INPUT_SHAPE}"
        )
    try:
        parts = parted(sizes(dynamic_dims), [port.shape.count(-1) for port in free])
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None
    found = {port.name: part for port, part in zip(free, parts, strict=True)}
    return tuple(port._replace(sizes=found.get(port.name, ())) for port in ports)


def of_file(ports: Sequence[Port], stored: Mapping[str, str], name: str) -> tuple[Port, ...]:
    """Return inputs with the gears that a file was converted for. Raises `ModelFormatError`."""
    try:
        return limited(ports, stored.get(INPUT_SHAPE, ""), stored.get(DYNAMIC_DIMS, ""))
    except (ConfigError, ValueError) as error:
        raise ModelFormatError(f"{name}: its attributes {INPUT_SHAPE} and {DYNAMIC_DIMS}: {error}") from None


def reshaped(declared: Sequence[Port], ports: Sequence[Port], name: str) -> tuple[Port, ...]:
    """Return inputs that got other shapes than declared, with the gears that agree with these.

    Raises `ConfigError` if none does.
    """
    shapes = [port.shape for port in ports]
    kept = [gear for gear in _gears(declared) if _fits(declared, gear, shapes)]
    if not kept:
        raise ConfigError(f"{name}: {INPUT_SHAPE} is none of its gears. {_refusal(declared, shapes)}")
    found = []
    for place, (port, own) in enumerate(zip(ports, declared, strict=True)):
        sizes_of = tuple(tuple(_still_free(own, gear[place], port.shape)) for gear in kept)
        found.append(port._replace(sizes=sizes_of if is_free(port.shape) else ()))
    return tuple(found)


def _still_free(own: Port, gear: Sequence[range], shape: Shape) -> list[range]:
    """Return the sizes of a gear for the dimensions that are free in another shape of the input."""
    within = iter(gear)
    limits = [next(within, _ANY) if size == -1 else _ANY for size in own.shape]
    return [limit for limit, size in zip(limits, shape, strict=True) if size == -1]


def check(ports: Sequence[Port], shapes: Sequence[Shape]) -> None:
    """Raise `DataMismatchError` unless a gear has these shapes; -1 is any size."""
    if any(_fits(ports, gear, shapes) for gear in _gears(ports)):
        return
    raise DataMismatchError(_refusal(ports, shapes))


def _gears(ports: Sequence[Port]) -> list[list[tuple[range, ...]]]:
    """Return for each gear the sizes of each input's free dimensions, () for an input without."""
    count = max((len(port.sizes) for port in ports), default=0)
    return [[port.sizes[gear] if port.sizes else () for port in ports] for gear in range(count)]


def _fits(ports: Sequence[Port], gear: Sequence[Sequence[range]], shapes: Sequence[Shape]) -> bool:
    return all(
        agrees(_free(port, shape), within)
        for port, within, shape in zip(ports, gear, shapes, strict=True)
        if within
    )


def _free(port: Port, shape: Shape) -> list[int]:
    return [size for size, declared in zip(shape, port.shape, strict=True) if declared == -1]


def _refusal(ports: Sequence[Port], shapes: Sequence[Shape]) -> str:
    free = [(port, shape) for port, shape in zip(ports, shapes, strict=True) if port.sizes]
    names = ", ".join(f"{port.name!r} {port.dims()}" for port, _ in free)
    together: Sizes = tuple(
        tuple(size for one in gear for size in one) for gear in _gears([port for port, _ in free])
    )
    got = [size for port, shape in free for size in _free(port, shape)]
    return f"{DYNAMIC_DIMS} allows {written(together)} for the free dimensions of {names}, but got {got}"
