"""The entry point of all builds: a file or buffer and a target become an executable."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, cast

from pinnace.building.cached import Contents, Tunings, entry_of, found_entry
from pinnace.building.choosing import Chooser, is_open
from pinnace.building.garbage import no_garbage_collection
from pinnace.building.lending import Sharing
from pinnace.building.opening import source_of
from pinnace.building.ranks import is_whole, joined, warn_of_ranks
from pinnace.building.reasons import is_onnxruntime, no_sixteen_bits, why, why_not_shared, with_provider
from pinnace.building.recipe import Recipe
from pinnace.deferred import import_onnx_ir
from pinnace.errors import EngineError, LackingKernelsError, collected_warnings, warn
from pinnace.log import INFO, Log
from pinnace.machine.cores import usable_core_count
from pinnace.options.settings import Settings
from pinnace.options.table import AFTER, BEFORE, LATENCY, MEMORY
from pinnace.options.target import Target
from pinnace.shapes import Shape
from pinnace.types import Buffer, ModelType

if TYPE_CHECKING:
    from pinnace.cache.choices import Tuning
    from pinnace.cache.entry import Entry
    from pinnace.cache.handover import Offer
    from pinnace.cache.store import Store
    from pinnace.distributed.steps import RankPart
    from pinnace.engines.protocol import Executable, Refitter
    from pinnace.lowering.graph import Compilable
    from pinnace.lowering.variable import Variable
    from pinnace.weights.source import Source

TargetFor = Callable[["Tuning | None"], Target]
"""Returns the target to build for, given the tuning of the model on this machine."""

_log = Log("pinnace.build")

_OUTDATED = "tuned with other code, engines, cores or another CPU: run pinnace tune again"

# Formats, compiler and engines are imported on use: processes that only fork workers or print help must not
# pay for them.


def build(
    model: str | os.PathLike[str] | Buffer, model_type: ModelType | None, target: Target, settings: Settings
) -> Executable:
    """Compile a model for a target.

    `model` is a path, or the bytes of a model (see `opening.source_of`); `model_type` None means that the
    content decides. Raises `ModelFormatError`, `UnsupportedModelError`, `DeviceUnavailableError` or
    `EngineError`.
    """
    return Origin(model, model_type, lambda _: target, settings).build()


class Origin:
    """A model opened for a target, from which executables are built, also with other weights or shapes.

    `tunings` are the model's measurements; after a build `offer` shares the weights with the processes that
    the settings name, else it is None, and `facts` are those for `Model.get_model_info`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Buffer,
        model_type: ModelType | None,
        plan: TargetFor,
        settings: Settings,
        spare: Store | None = None,
        keep: str = BEFORE,
        common: bool = False,
    ) -> None:
        """Map a model without reading it, and choose an engine for the target that `plan` returns.

        `spare` stores compiled models if no compile cache can be written. `keep` is when the cache is written
        (`Settings.keep`). With `common`, other models of this process share its weights.
        """
        from pinnace import engines, formats
        from pinnace.cache.store import Store

        source = source_of(model, settings)
        self._settings, self._keep = settings, keep
        kind = formats.kind(source, model_type)
        self._sharing = Sharing.of(settings)
        self._common = common or bool(self._sharing)
        self._store = spare or Store.of(settings)
        self._contents = Contents(source, self._store)
        self.tunings = Tunings(self._store, self._contents)
        target, tuning = self._planned(plan)
        if target.device != "cpu":
            target = replace(target, options=settings.flat)
        # Accelerator builds are kept by the provider, if at all; a loaded model lacks the node names that
        # profiles show.
        if target.device != "cpu" or target.profile:
            self._store = None
        engine = engines.choose(target, source.name)
        self._sharing.check(target)
        self._recipe = Recipe(
            source, kind, engine, target, settings.precision_plan, settings.variable_weights
        )
        # If another engine fails, onnxruntime is tried; its own errors are final.
        self._may_fail = not is_onnxruntime(engine)
        self._entry: Entry | None = None
        self._is_unkept = False
        self._tuned = tuning is not None
        self._open, self._why = not self._sharing and is_open(target), why(target, tuning)
        if tuning is None and not self._sharing and self.tunings.exist:
            self._why = "; ".join(filter(None, (_OUTDATED, self._why)))
        self._threads = target.threads
        self._chooser = Chooser(self._contents, self._store)
        self.offer: Offer | None = None
        self.facts: dict[str, str] = {}

    def _planned(self, plan: TargetFor) -> tuple[Target, Tuning | None]:
        """Return the target that a plan gives by the model's tuning, and the tuning."""
        # Lender and borrower must choose the same engine, and onnxruntime is the one that shares weights.
        tuning = None if self._sharing else self.tunings.find()
        if tuning is not None and (self._settings.variable_weights or self._settings.precision_plan):
            tuning = tuning.exact()
        prefer = self._settings.get("common_context", "prefer", MEMORY if self._common else LATENCY)
        if tuning is not None and prefer == MEMORY:
            tuning = tuning.lean()
        target = replace(plan(tuning), prefer=prefer)
        return with_provider(target, tuning), tuning

    @property
    def source(self) -> Source:
        """The model file."""
        return self._recipe.source

    @property
    def target(self) -> Target:
        """The target that the model is built for."""
        return self._recipe.target

    @property
    def variable(self) -> tuple[str, ...]:
        """Names of the weights that the settings declare as exchangeable."""
        return self._settings.variable_weights

    def reshaped(self, shapes: tuple[Shape, ...]) -> Origin:
        """Return the same model with other input shapes, () for those of the file.

        Processes that share weights find those of other shapes in the files of the master.
        """
        from pinnace.cache.store import Store

        other = copy.copy(self)
        target = replace(self.target, threads=self._threads)  # these shapes may be worth more than was chosen
        other._recipe = replace(self._recipe, shapes=shapes, source=self.source.again(), target=target)
        if shapes:
            if self._sharing and self._entry is not None:
                other._store, other._keep = Store.around(self._entry) or self._store, BEFORE
                other._contents = Contents(other.source, other._store)
                if other._store is None:
                    warn(f"{self.source.name} shares no weights from now on: its master's files are gone")
            other._entry, other._sharing = None, Sharing()
        return other

    def share(self, spare: Store | None) -> None:
        """Keep builds from now on where other models find their weights; `spare` is that of `__init__`."""
        self._common, self._keep, self._store = True, BEFORE, spare or self._store
        self._contents = Contents(self.source, self._store)

    def shared(self) -> Executable | None:
        """Keep a model that was built without the cache, and load it from there; None if that shares nothing.

        Raises as `build` does, and OSError.
        """
        self._warn_of_copies()
        if self._entry is not None or self._store is None or why_not_shared(self._recipe.engine, self.target):
            return None
        with collected_warnings():
            self._entry = entry_of(self._recipe, self._contents, self._store)
        return self._in_its_place(self._entry)

    def _warn_of_copies(self) -> None:
        """Warn if weights should be shared and cannot be."""
        reason = self._common and why_not_shared(self._recipe.engine, self.target)
        if reason:
            warn(f"{self.source.name} shares no weights: {reason}")

    def profiled(self) -> Executable:
        """Build the same model with `profile` set, by the same engine."""
        other = copy.copy(self)
        target = replace(self.target, profile=True)
        other._recipe = replace(self._recipe, target=target, source=self.source.again())
        other._store, other._entry, other._sharing = None, None, Sharing()
        return other.build()

    @no_garbage_collection()
    def build(self) -> Executable:
        """Compile the model, or load it from the cache; see `build`.

        If the engine fails or lacks operators of the model, another engine runs it. Warns of CPU options
        without effect.
        """
        start = perf_counter()
        executable = self._build_somewhere()
        self._note(executable, perf_counter() - start)
        self._warn_of_copies()
        target, engine = self.target, self._recipe.engine
        wanted = target.precision == "preferred_fp16" and target.device == "cpu"
        if wanted and executable.info["precision"] == "float32":
            warn(f"{self.source.name} runs in float32, not in 16 bits: {no_sixteen_bits(engine)}")
        if target.inter_op_threads > 1 and not is_onnxruntime(engine):
            warn(
                f"context.cpu.inter_op_parallel_num has no effect: {engine.name} runs one operator at a time"
            )
        return executable

    def keep_later(self, adopt: Callable[[], None]) -> None:
        """Keep a model that was built without the cache, in the background; then `adopt`, a method, is
        called if its object still exists.
        """
        if self._is_unkept and self._store is not None:
            from pinnace.building.keeping import Unkept, keep_later

            choice = self._chooser.hand_over(self._recipe)
            keep_later(Unkept.of(self._recipe, self._store, choice, adopt))

    def kept(self) -> Executable | None:
        """Load a model that was built without the cache and is there now; None if its weights are not shared.

        OpenVINO would pack the same weights once more.
        """
        entry = self._found() if self._is_unkept and is_onnxruntime(self._recipe.engine) else None
        return None if entry is None else self._in_its_place(entry)

    def _in_its_place(self, entry: Entry) -> Executable | None:
        """Load an entry of a model that was built without the cache; None for one rank's part."""
        self._is_unkept = False
        with collected_warnings():  # the build has issued them
            loaded = self._recipe.loaded(entry)
        if not is_whole(loaded):
            return None
        loaded.info["file"] = self.source.name
        return loaded

    def refitter(self, names: Collection[str]) -> tuple[Refitter, Mapping[str, Variable]]:
        """Return a factory of executables with other values of the weights `names`, and descriptions of
        these.

        Raises as `build` does, and ConfigError if a weight cannot be exchanged.
        """
        recipe = self._recipe
        with collected_warnings():  # the build has issued the warnings
            graph = recipe.graph(names)
            recipe.check_whole(graph)
            same = self._found() if set(names) == set(self.variable) or not graph.held_back else None
            kept = None if same is None else (same.compiled, same.folder)
            return recipe.engine.refitter(graph, recipe.source, recipe.target, kept), graph.variable

    def lowered(self) -> Compilable:
        """Return the model's graph, as engines get it."""
        return self._recipe.graph(())

    def modules(self) -> dict[str, str]:
        """Map module paths to the names of their weights."""
        import_onnx_ir()
        from pinnace import formats
        from pinnace.lowering.variable import modules_of

        return modules_of(formats.read(self.source, self._recipe.kind))

    def _note(self, executable: Executable, seconds: float) -> None:
        """Keep the facts of a build, and log it in one line."""
        stages = self._recipe.stages
        if self._store is None and not self._sharing:
            cache = "off"
        elif self._entry is None:
            cache = "to be written" if self._is_unkept else "not kept"
        else:
            cache = "written" if "compiling" in stages else "loaded"
        self.facts = {
            "model_type": self._recipe.kind.name,
            "threads": str(self.target.threads or usable_core_count()),
            "tuned": "yes" if self._tuned else "no",
            "why": "; rules: ".join(filter(None, (self._why, executable.info.get("rules")))),
            "cache": cache,
            "build": f"{stages}; {seconds * 1e3:.3g} ms in all",
        }
        said = {name: executable.info[name] for name in ("engine", "precision")} | self.facts
        self.facts["file"] = executable.info["file"] = self.source.name
        if self.target.form:
            from pinnace.quantization.scheme import QuantizationScheme

            self.facts["form"] = form = str(QuantizationScheme.of(self.target.form))
            self.facts["precision"] = said["precision"] = f"{form}, {executable.info['precision']}"
        name, message = self.source.name, ", ".join(f"{name} {value}" for name, value in said.items())
        _log.event(
            INFO, "built", f"{name}: {message}", model=name, device=self.target.place, seconds=seconds,
            shapes={port.name: port.shape for port in executable.inputs}, **said,
        )  # fmt: skip

    def _build_somewhere(self) -> Executable:
        if self._open:
            self._recipe, why = self._chooser.chosen(self._recipe)
            self._why = "; ".join(filter(None, (self._why, why)))
            self._open, self._may_fail = False, not is_onnxruntime(self._recipe.engine)
        try:
            return self._build()
        except (LackingKernelsError, EngineError) as error:
            from pinnace import engines

            recipe = self._recipe
            recipe.stages.pop("compiling", None)  # wrote nothing
            if recipe.target.form:
                self._recipe = replace(recipe, target=replace(recipe.target, form=""))
                warn(f"{self.source.name} runs as it is, without fewer bits: {error}")
                return self._build_somewhere()
            here = recipe.target.device == "cpu"  # never fall back silently from an accelerator to the CPU
            other = engines.other(recipe.engine) if here else None
            if other is None or not (isinstance(error, LackingKernelsError) or self._may_fail):
                raise
            self._recipe = replace(recipe, engine=other)
            try:
                executable = self._build()
            except (LackingKernelsError, EngineError, OSError, MemoryError):
                raise error from None
            why = str(error)
            if isinstance(error, LackingKernelsError):
                names = ", ".join(primitive.name for primitive in error.primitives)
                why = f"{self.source.name}: {recipe.engine.name} lacks {names}"
            warn(f"{why}; {other.name} runs the model")
            return executable

    def _build(self) -> Executable:
        made = self._made()
        self._recipe.held.clear()
        if is_whole(made):
            warn_of_ranks(self._recipe, self._settings)
            return made
        known = None if self._store is None or self._entry is None else self._store
        files = self.source.files if known is None else known.refers(self._contents.file)
        return joined(cast("RankPart", made), self._recipe, self._settings, files)

    def _made(self) -> Executable | RankPart:
        """Build through the compile cache if possible."""
        if self._sharing:
            return self._shared()
        if self._store is None:
            return self._unkept()
        try:
            if self._keep == BEFORE:
                self._entry = entry_of(self._recipe, self._contents, self._store)
            entry = self._found()
            if entry is not None:
                return self._recipe.loaded(entry)
        except (OSError, EngineError) as error:
            self._entry, reason = None, str(error)
        else:
            self._is_unkept, reason = self._keep == AFTER and not self._store.installed, ""
        made = self._unkept()
        if reason:
            warn(f"compile cache: {self.source.name} is built without it: {reason}")
        return made

    def _found(self) -> Entry | None:
        """Return the entry of the model, also one that was written since it was built."""
        if self._entry is None and self._store is not None:
            self._entry = found_entry(self._recipe, self._contents, self._store)
        if self._entry is not None:
            self._chooser.remember()
        return self._entry

    def _unkept(self) -> Executable | RankPart:
        made = self._recipe.executable()
        self.source.check_unchanged()
        return made

    def _shared(self) -> Executable | RankPart:
        """Load what another process lends, or build and offer it."""
        if self._entry is not None:
            return self._recipe.loaded(self._entry, lent=True)
        self._entry, offer = self._sharing.entry(self._recipe, self._contents, self._store)
        made = self._recipe.loaded(self._entry, lent=True)
        self.offer = None if offer is None else offer()
        return made
