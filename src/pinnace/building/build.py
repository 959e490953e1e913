"""The build of a model: a spec becomes an executable.

Whoever opens a model calls `opening.open_model`, which makes a spec, and `build`. It chooses an engine if the
spec leaves it open, lowers the model and compiles it, or loads what the compile cache keeps; `spec` and
`choosing` have these steps. What is not in the cache yet is kept in the background, if at all.
"""

# Formats, compiler, engines and cache are imported on use: processes that only fork workers or print help
# must not pay for them.

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, cast

from pinnace.building.choosing import (
    choice_key,
    choices_for,
    no_sixteen_bits,
    to_measure,
    why_not_shared,
    with_choice,
)
from pinnace.building.opening import open_model
from pinnace.building.spec import Spec, Stages, built_in_memory, compiled, is_onnxruntime, loaded
from pinnace.errors import EngineError, LackingKernelsError, collected_warnings, warn
from pinnace.log import INFO, Log
from pinnace.machine.cores import usable_core_count
from pinnace.options.settings import Settings
from pinnace.options.table import AFTER, BEFORE
from pinnace.options.target import Target
from pinnace.types import Buffer, ModelType

if TYPE_CHECKING:
    from pinnace.cache.entry import Entry
    from pinnace.cache.handover import Offer
    from pinnace.distributed.plan import RankPart
    from pinnace.engines.choice import Choice
    from pinnace.engines.protocol import Executable

_log = Log("pinnace.build")


class ToKeep(NamedTuple):
    """A model to be kept in the cache after it is given out.

    `choices` are the engines to measure, the first one that of the spec; they are remembered by `choice_key`.
    """

    spec: Spec
    choices: Sequence[Choice]
    choice_key: tuple[str, ...]


class Built(NamedTuple):
    """An executable, and the spec that it was built by, with its engine, target and entry.

    `facts` are for `Model.get_model_info`. `offer` shares the weights with the processes that the settings
    name. `to_keep` is None for a model that is in the cache, or never will be.
    """

    executable: Executable
    spec: Spec
    facts: dict[str, str]
    offer: Offer | None = None
    to_keep: ToKeep | None = None


def build_model(
    model: str | PathLike[str] | Buffer, kind: ModelType | None, target: Target, settings: Settings
) -> Executable:
    """Open and build a model. Raises as `open_model` and `build` do."""
    return build(open_model(model, kind, target, settings)).executable


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turn the garbage collector off in the block.

    A build makes many small objects that live until its end, and each collection visits them all: with the
    collector on, the first build of EfficientNet-Lite0 takes 1.1 of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@no_garbage_collection()
def build(spec: Spec) -> Built:
    """Compile a model, or load it from the cache.

    If the engine fails or lacks operators of the model, another engine runs it. Warns of CPU options without
    effect. Raises `ModelFormatError`, `UnsupportedModelError` or `EngineError`.
    """
    start, stages, wanted = perf_counter(), Stages(), choice_key(spec)
    choices: Sequence[Choice] = ()
    if spec.is_open:
        found, is_new = choices_for(spec, stages)
        choices = found if is_new else ()
        spec = with_choice(spec, found[0])._replace(why="; ".join(filter(None, (spec.why, found[0].why))))
    spec, made, offer, is_kept_later = _first_that_builds(spec, stages)
    if choices and spec.entry is not None:
        spec.cache.keep_engine_choice(wanted, choices[0]._asdict())
    if is_whole(made):
        _warn_of_ranks(spec)
        executable = made
    else:
        executable = _joined(cast("RankPart", made), spec)
    facts = _facts(spec, executable, stages, perf_counter() - start, is_kept_later)
    warn_of_copies(spec)
    prefers_half = spec.target.precision == "preferred_fp16" and spec.target.device == "cpu"
    if prefers_half and executable.info["precision"] == "float32":
        warn(f"{spec.source.name} runs in float32, not in 16 bits: {no_sixteen_bits(spec.engine)}")
    if spec.target.inter_op_threads > 1 and not is_onnxruntime(spec.engine):
        name = spec.engine.name
        warn(f"context.cpu.inter_op_parallel_num has no effect: {name} runs one operator at a time")
    to_keep = ToKeep(spec, to_measure(spec, choices), wanted) if is_kept_later else None
    return Built(executable, spec, facts, offer, to_keep)


_Made = tuple[Spec, "Executable | RankPart", "Offer | None", bool]
"""The spec with its entry, what was made, what shares it, and True if it is to be kept later."""


def _first_that_builds(spec: Spec, stages: Stages) -> _Made:
    """Make the model by a spec; if that fails, without fewer bits, and then by the other engine."""
    first: Exception | None = None
    while True:
        try:
            made = _make(spec, stages)
            break
        except (LackingKernelsError, EngineError, OSError, MemoryError) as error:
            if first is not None:
                raise first from None
            following = _fallback(spec, error)
            if following is None:
                raise
            stages.pop("compiling", None)  # wrote nothing
            if following.engine is spec.engine:
                warn(f"{spec.source.name} runs as it is, without fewer bits: {error}")
            else:
                first, failed = error, spec.engine
            spec = following
    stages.graph = None
    if first is not None:
        reason = str(first)
        if isinstance(first, LackingKernelsError):
            names = ", ".join(primitive.name for primitive in first.primitives)
            reason = f"{spec.source.name}: {failed.name} lacks {names}"
        warn(f"{reason}; {spec.engine.name} runs the model")
    return made


def _fallback(spec: Spec, error: Exception) -> Spec | None:
    """Return the spec to try after an error; None if that error is final."""
    from pinnace import engines

    if not isinstance(error, LackingKernelsError | EngineError):
        return None
    if spec.target.form:
        return spec._replace(target=spec.target._replace(form=""))
    # Never fall back silently from an accelerator to the CPU. onnxruntime's own failures are final.
    final = is_onnxruntime(spec.engine) and not isinstance(error, LackingKernelsError)
    other = None if final or spec.target.device != "cpu" else engines.other(spec.engine)
    return None if other is None else spec._replace(engine=other)


def _make(spec: Spec, stages: Stages) -> _Made:
    """Make a model through the compile cache if possible."""
    if spec.sharing is not None:
        return _shared(spec, stages)
    cache, reason, is_kept_later = spec.cache, "", False
    if cache.store is not None:
        try:
            entry = found_or_written(spec, stages) if spec.keep == BEFORE else found(spec)
            if entry is not None:
                return spec._replace(entry=entry), loaded(spec, entry, stages), None, False
            is_kept_later = spec.keep == AFTER and not cache.store.installed
        except (OSError, EngineError) as error:
            reason = str(error)
    made = built_in_memory(spec, stages)
    spec.source.check_unchanged()
    if reason:
        warn(f"compile cache: {spec.source.name} is built without it: {reason}")
    return spec._replace(entry=None), made, None, is_kept_later


def _shared(spec: Spec, stages: Stages) -> _Made:
    from pinnace.building.sharing import shared_entry

    assert spec.sharing is not None
    if spec.entry is not None:
        return spec, loaded(spec, spec.entry, stages, lent=True), None, False
    entry, offer = shared_entry(spec, spec.sharing, stages)
    made = loaded(spec, entry, stages, lent=True)
    return spec._replace(entry=entry), made, None if offer is None else offer(), False


def found(spec: Spec) -> Entry | None:
    """Return the entry of the model, also one that was written since it was built. Raises OSError."""
    return spec.entry or spec.cache.find(spec.made_for)


def found_or_written(spec: Spec, stages: Stages) -> Entry:
    """Return the entry of the model, and write it if there is none; see `ModelCache.find_or_write`."""
    return spec.cache.find_or_write(spec.made_for, lambda folder: compiled(spec, folder, stages))


def loaded_in_place(spec: Spec, entry: Entry) -> Executable | None:
    """Load an entry of a model that was built without the cache; None for one rank's part."""
    with collected_warnings():  # the build has issued them
        made = loaded(spec, entry, Stages())
    if not is_whole(made):
        return None
    made.info["file"] = spec.source.name
    return made


def is_whole(made: Executable | RankPart) -> TypeGuard[Executable]:
    """Return True for a model that runs by itself. The class `RankPart` takes a while to import."""
    return hasattr(made, "execution")


def _joined(part: RankPart, spec: Spec) -> Executable:
    from pinnace.distributed.comparison import fingerprint
    from pinnace.distributed.executable import join

    files = spec.source.files if spec.entry is None else spec.cache.refers
    return join(part, spec.target, spec.settings, fingerprint(spec.source, files))


def _warn_of_ranks(spec: Spec) -> None:
    target, get = spec.target, spec.settings.get
    on_gpu = target.device == "gpu" or target.simulates.startswith("gpu")  # the launcher sets its rank
    options = {
        "[ascend_context] rank_table_file": get("ascend_context", "rank_table_file"),
        "[distributed] timeout": get("distributed", "timeout"),
        "context.group_info_file": target.groups,
        "context.ascend.rank_id": target.rank and not on_gpu,
        "context.ascend.group_size": (target.ranks or 1) > 1 and not on_gpu,
    }
    names = [name for name, given in options.items() if given]
    if names and not spec.shapes:
        warn(f"these options have no effect: {', '.join(names)} ({spec.source.name} has no collectives)")


def warn_of_copies(spec: Spec) -> None:
    reason = spec.common and why_not_shared(spec)
    if reason:
        warn(f"{spec.source.name} shares no weights: {reason}")


def _facts(
    spec: Spec, executable: Executable, stages: Stages, seconds: float, is_kept_later: bool
) -> dict[str, str]:
    """Return the facts of a build, and log it in one line."""
    if spec.entry is not None:
        cache = "written" if "compiling" in stages else "loaded"
    elif spec.cache.store is None:
        cache = "off"
    else:
        cache = "to be written" if is_kept_later else "not kept"
    name, target = spec.source.name, spec.target
    facts = {
        "model_type": spec.kind.name,
        "threads": str(target.threads or usable_core_count()),
        "tuned": "yes" if spec.is_tuned else "no",
        "why": "; rules: ".join(filter(None, (spec.why, executable.info.get("rules")))),
        "cache": cache,
        "build": f"{stages}; {seconds * 1e3:.3g} ms in all",
    }
    logged = {key: executable.info[key] for key in ("engine", "precision")} | facts
    facts["file"] = executable.info["file"] = name
    if target.form:
        from pinnace.quantization.scheme import QuantizationScheme

        facts["form"] = form = str(QuantizationScheme.of(target.form))
        facts["precision"] = logged["precision"] = f"{form}, {executable.info['precision']}"
    message = ", ".join(f"{key} {value}" for key, value in logged.items())
    _log.event(
        INFO, "built", f"{name}: {message}", model=name, device=target.place, seconds=seconds,
        shapes={port.name: port.shape for port in executable.inputs}, **logged,
    )  # fmt: skip
    return facts
