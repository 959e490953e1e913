"""Updates of the weights and shapes of a built model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pinnace.building.build import Built, build, found, found_or_written, loaded_in_place, warn_of_copies
from pinnace.building.choosing import why_not_shared
from pinnace.building.spec import Spec, Stages, check_whole, is_onnxruntime, lowered
from pinnace.deferred import import_onnx_ir
from pinnace.errors import (
    ArgumentValueError,
    DataMismatchError,
    ModelStateError,
    collected_warnings,
    warn,
)
from pinnace.log import INFO, Log
from pinnace.options.table import BEFORE
from pinnace.shapes import Shape
from pinnace.tensors.tensor import Tensor
from pinnace.types import Array, DataType

if TYPE_CHECKING:
    from pinnace.cache.entry import Entry
    from pinnace.cache.store import Store
    from pinnace.engines.protocol import Refitter
    from pinnace.engines.steps import Profile
    from pinnace.lowering.variable import Variable
    from pinnace.weights.lora import Pair

_log = Log("pinnace.weights")

Install = Callable[..., None]
"""Replaces the running executables by these, one for each device."""


class _Adapter(NamedTuple):
    path: Path
    scale: float
    pairs: Mapping[str, Sequence[Pair]]
    """By the weights that they change."""


class WeightUpdate:
    """The current weights of a built model, and the shapes that it is built for.

    The value of a weight is that of the model file or of the last `update`, plus the changes of the adapters
    in the order in which they were applied. Each change builds a new executable; if that fails nothing
    changes. One thread at a time may call methods.
    """

    def __init__(self, *built: Built) -> None:
        """Begin with the model as it was built, for each device."""
        self._first = self._specs = tuple(one.spec for one in built)
        self._to_keep = built[0].to_keep
        self._refitters: Sequence[Refitter] = ()
        self._variables: Mapping[str, Variable] = {}
        self._set: dict[str, Array] = {}
        self._adapters: tuple[_Adapter, ...] = ()

    def keep_later(self, use_kept: Callable[[], None]) -> None:
        """Keep a model that was built without the cache, in the background; then `use_kept`, a method, is
        called if its object still exists.
        """
        if self._to_keep is not None:
            from pinnace.building.background import Job, keep_later

            keep_later(Job.of(self._to_keep, use_kept))

    def use_kept(self, install: Install) -> None:
        """Install the model from the cache if it was built without, unless its weights have changed.

        OpenVINO would pack the same weights once more.
        """
        spec = self._specs[0]
        if self._is_changed or self._to_keep is None or not is_onnxruntime(spec.engine):
            return
        entry = found(spec)
        if entry is not None:
            self._install(entry, install)

    def share(self, install: Install) -> None:
        """Install the model from files whose weights other models share, and keep later builds there.

        A model whose weights have changed shares from its next build. Raises as `build` does, and OSError.
        """
        from pinnace.cache.store import store_for_sharing

        store = store_for_sharing(self._specs[0].settings)
        self._first, self._specs = (
            tuple(_sharing(spec, store) for spec in specs) for specs in (self._first, self._specs)
        )
        spec = self._specs[0]
        if self._is_changed:
            return
        warn_of_copies(spec)
        if spec.entry is None and spec.cache.store is not None and not why_not_shared(spec):
            with collected_warnings():
                entry = found_or_written(spec, Stages())
            self._install(entry, install)

    @property
    def _is_changed(self) -> bool:
        return bool(self._set or self._adapters)

    def _install(self, entry: Entry, install: Install) -> None:
        """Install the model of an entry in the place of one that was built without the cache."""
        self._to_keep = None
        self._specs = (self._specs[0]._replace(entry=entry), *self._specs[1:])
        executable = loaded_in_place(self._specs[0], entry)
        if executable is not None:
            install(executable)

    def update(self, tensors: Sequence[Tensor], install: Install) -> None:
        variable = self._specs[0].variable
        if not variable:
            raise ModelStateError(
                "update_weights: name the weights to update when you build the model: write their names into "
                "a file, one per line, and set variable_weights_file of [ascend_context] to its path"
            )
        given = _named(tensors, variable)
        if given:
            self._prepare(variable)
            new = {name: _checked(name, tensor, self._variables[name]) for name, tensor in given.items()}
            self._become({**self._set, **new}, self._adapters, install)

    def apply(self, path: Path, scale: float, install: Install) -> None:
        from pinnace.weights import lora

        pairs = lora.match_weights(path, lora.read(path), _modules(self._specs[0]))
        self._prepare(pairs)
        self._become(self._set, (*self._adapters, _Adapter(path, scale, pairs)), install)

    def remove(self, path: Path | None, install: Install) -> None:
        """Remove one adapter, or all; see `BaseModel.remove_lora`."""
        rest = tuple(a for a in self._adapters if path is not None and a.path != path)
        if len(rest) == len(self._adapters):
            there = ", ".join(str(a.path) for a in self._adapters) or "none"
            what = "no adapter was applied" if path is None else f"{path} was not applied; there are: {there}"
            raise ArgumentValueError(f"remove_lora: {what}")
        self._become(self._set, rest, install)

    def reshape(self, shapes: tuple[Shape, ...], install: Install) -> None:
        """Build for other input shapes, () for those of the file, with the current weights."""
        built = [build(reshaped(spec, shapes)) for spec in self._first]
        specs, executables = tuple(one.spec for one in built), [one.executable for one in built]
        refitters: Sequence[Refitter] = ()
        variables = self._variables
        changed = dict.fromkeys((*self._set, *(name for a in self._adapters for name in a.pairs)))
        if changed:
            values = {name: self._value(name, self._set, self._adapters) for name in changed}
            refitters, variables = _refitters(specs, tuple(variables))
            executables = [refitter.refit(self._weights(values, variables)) for refitter in refitters]
        install(*executables)
        self._specs, self._refitters, self._variables = specs, refitters, variables
        self._to_keep = built[0].to_keep

    def profile(self, arrays: Sequence[Array], runs: int, warm_up: int) -> Profile:
        """Profile `runs` predictions with the weights of the file, after `warm_up` others."""
        from pinnace.engines.steps import Profile

        executable = build(profiled(self._specs[0])).executable
        try:
            execution = executable.execution()
            for _ in range(warm_up + runs):
                execution.run(arrays)
            return Profile(executable.profile()[warm_up:])
        finally:
            executable.close()

    def _prepare(self, names: Collection[str]) -> None:
        if not self._refitters or not set(names) <= self._variables.keys():
            wanted = dict.fromkeys((*self._specs[0].variable, *self._variables, *names))
            self._refitters, self._variables = _refitters(self._specs, tuple(wanted))

    def _become(self, new: dict[str, Array], adapters: tuple[_Adapter, ...], install: Install) -> None:
        changed = dict.fromkeys((*new, *(name for a in adapters for name in a.pairs)))
        weights = self._weights({name: self._value(name, new, adapters) for name in changed}, self._variables)
        install(*(refitter.refit(weights) for refitter in self._refitters))
        name = self._specs[0].source.name
        message = f"{name}: {len(new)} weights updated, {len(adapters)} adapters applied"
        _log.event(INFO, "updated", message, model=name, weights=len(new), adapters=len(adapters))
        self._set, self._adapters = new, adapters

    @staticmethod
    def _weights(values: Mapping[str, Array], variables: Mapping[str, Variable]) -> dict[str, Array]:
        return {place: value for name, value in values.items() for place in variables[name].names}

    def _value(self, name: str, new: Mapping[str, Array], adapters: Sequence[_Adapter]) -> Array:
        variable = self._variables[name]
        first = new[name] if name in new else self._specs[0].source.data_of(variable.first)
        pairs = [(pair, a.scale) for a in adapters for pair in a.pairs.get(name, ())]
        if not pairs:
            return first
        from pinnace.weights import lora

        if not variable.first.dtype.is_floating_point():
            raise DataMismatchError(f"apply_lora: {name!r} holds {variable.first.dtype.name}, not floats")
        return lora.apply_pairs(first, variable.axes, name, pairs)


def _refitters(
    specs: Sequence[Spec], names: Sequence[str]
) -> tuple[Sequence[Refitter], Mapping[str, Variable]]:
    made = [refitter(spec, names) for spec in specs]
    return [refitter for refitter, _ in made], made[0][1]


def _sharing(spec: Spec, store: Store | None) -> Spec:
    from pinnace.cache.model import ModelCache

    return spec._replace(common=True, keep=BEFORE, cache=ModelCache(spec.source, store or spec.cache.store))


def reshaped(spec: Spec, shapes: tuple[Shape, ...]) -> Spec:
    """Return the spec of a built model for other input shapes, () for those of the file.

    Processes that share weights find those of other shapes in the files of the master.
    """
    from pinnace.cache.model import ModelCache
    from pinnace.cache.store import Store

    source, cache = spec.source.again(), spec.cache
    if source is not spec.source:
        cache = ModelCache(source, cache.store)
    target = spec.target._replace(threads=spec.most_threads)  # these shapes may be worth more than was chosen
    spec = spec._replace(shapes=shapes, source=source, cache=cache, target=target)
    if not shapes:
        return spec
    if spec.sharing is not None and spec.entry is not None:
        store = Store.around(spec.entry) or spec.cache.store
        spec = spec._replace(cache=ModelCache(spec.source, store), keep=BEFORE)
        if store is None:
            warn(f"{spec.source.name} shares no weights from now on: its master's files are gone")
    return spec._replace(entry=None, sharing=None)


def profiled(spec: Spec) -> Spec:
    """Return the spec of a built model for an executable that records the time of each node."""
    from pinnace.cache.model import ModelCache

    source, target = spec.source.again(), spec.target._replace(profile=True)
    return spec._replace(source=source, target=target, cache=ModelCache(source), entry=None, sharing=None)


def refitter(spec: Spec, names: Collection[str]) -> tuple[Refitter, Mapping[str, Variable]]:
    """Return a factory of executables with other values of the weights `names`, and descriptions of these.

    Raises as `build` does, and ConfigError if a weight cannot be exchanged.
    """
    with collected_warnings():  # the build has issued the warnings
        graph = lowered(spec, Stages(), names)
        check_whole(graph)
        same = found(spec) if set(names) == set(spec.variable) or not graph.held_back else None
        kept = None if same is None else (same.compiled, same.folder)
        return spec.engine.refitter(graph, spec.source, spec.target, kept), graph.variable


def _modules(spec: Spec) -> dict[str, str]:
    import_onnx_ir()
    from pinnace import formats
    from pinnace.lowering.variable import modules_of

    return modules_of(formats.read(spec.source, spec.kind))


def _named(tensors: Sequence[Tensor], variable: Sequence[str]) -> dict[str, Tensor]:
    """Map weights to tensors: by name, or by the order of the user's list if no tensor has a name."""
    if tensors and not any(t.name for t in tensors):
        if len(tensors) != len(variable):
            raise ArgumentValueError(
                f"update_weights: got {len(tensors)} tensors without names, but variable_weights_file names "
                f"{len(variable)} weights: name each tensor, or pass all of them in that order"
            )
        return dict(zip(variable, tensors, strict=True))
    found: dict[str, Tensor] = {}
    for index, tensor in enumerate(tensors):
        if tensor.name not in variable:
            what = (
                f"{tensor.name!r} is not named in variable_weights_file" if tensor.name else "it has no name"
            )
            raise ArgumentValueError(
                f"update_weights: tensor {index} cannot be set: {what}{_near(tensor, variable)}"
            )
        if tensor.name in found:
            raise ArgumentValueError(f"update_weights: there are two tensors for {tensor.name!r}")
        found[tensor.name] = tensor
    return found


def _near(tensor: Tensor, variable: Sequence[str]) -> str:
    from pinnace.lowering.variable import nearest

    return nearest(tensor.name, variable)


def _checked(name: str, tensor: Tensor, variable: Variable) -> Array:
    """Copy the data of a tensor that fits a weight. Raises DataMismatchError if it does not."""
    dtype, shape = DataType.from_numpy(variable.first.dtype.numpy()), tuple(variable.first.shape.numpy())
    if tensor.dtype is not dtype or tuple(tensor.shape) != shape:
        raise DataMismatchError(
            f"update_weights: {name!r} is {dtype} {list(shape)}, but got {tensor.dtype} {tensor.shape}"
        )
    if not tensor.has_data:
        raise DataMismatchError(f"update_weights: the tensor for {name!r} has no data")
    return np.array(tensor.get_data_to_numpy(), order="C")
