"""Effects of options on a build: the context attributes that they fill, and options without effect."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from pinnace.errors import warn
from pinnace.machine.simulation import counts
from pinnace.options.context import Context, main_device
from pinnace.options.setting import given
from pinnace.options.settings import Settings
from pinnace.options.table import CONTEXT, EVERYWHERE, SECTIONS, Option

_NAMES = {"cpu": "the CPU", "gpu": "a GPU", "ascend": "an Ascend device"}


def with_settings(context: Context, settings: Settings, *facts: str) -> Context:
    """Return a copy of the context, completed by `settings`.

    Warns, in one line, of all options that have no effect on its target. `facts` are conditions that options
    need or exclude (`options.RUNNER`, `options.CHOSEN`, ...). Raises `ConfigError` for an impossible target.
    """
    kind = main_device(context)
    place = _place(context, kind)
    ignored: dict[str, list[str]] = {}
    for name, why in _of_context(context, kind, place, facts):
        ignored.setdefault(why, []).append(name)
    filled = FilledContext(context)
    for section in reversed([name for name in SECTIONS if name in settings.sections]):
        idle: dict[str, list[str]] = {}
        for key, value in settings.sections[section].items():
            option = SECTIONS[section].option(key)
            if option is None:  # unknown; the reader has warned
                continue
            why = _why(option, SECTIONS[section].kind, kind, place, facts)
            if not why and option.fills:
                why = filled.fill(option, value, f"[{section}] {key}")
            if why:
                idle.setdefault(why, []).append(key)
        for why, keys in idle.items():
            ignored.setdefault(why, []).append(f"[{section}] {', '.join(keys)}")
    if ignored:
        reasons = "; ".join(f"{', '.join(names)} ({why})" for why, names in ignored.items())
        warn(f"these options have no effect: {reasons}")
    return filled.context


def _place(context: Context, kind: str) -> str:
    """Return the entry of `options.PLACES` for a context's target."""
    if kind == "cpu":
        return kind
    if kind in counts():
        return f"simulated {kind}"
    if kind == "gpu":
        return "tensorrt" if context.gpu.provider == "tensorrt" else "cuda"
    return kind


def _why(option: Option, belongs: str, kind: str, place: str, facts: tuple[str, ...]) -> str:
    """Return why an option has no effect, "" if it has one. `belongs` is its kind of device."""
    if place in option.on and option.but in facts:
        return option.but
    if place in option.on:
        met = not option.needs or any(need in facts for need in option.needs)
        missing = option.why if option.on == EVERYWHERE else ""  # elsewhere `why` is about the place
        return "" if met else missing or f"for {' and '.join(option.needs)} only"
    return f"the target is {_NAMES[kind]}" if belongs not in ("", kind) else option.why


def _of_context(context: Context, kind: str, place: str, facts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Return the attributes of a context that were set without effect, and why."""
    first = next((name for name in context.target if name.lower() != "cpu"), "")
    for name in context.target:
        if name.lower() not in ("cpu", first.lower()):
            yield f"{name!r} in context.target", f"the first device, {first!r}, is used"
    default = Context()
    for name, option in CONTEXT.items():
        group, _, attribute = name.rpartition(".")
        has, had = (getattr(getattr(one, group) if group else one, attribute) for one in (context, default))
        belongs = group if group in ("gpu", "ascend") else ""
        why = _why(option, belongs, kind, place, facts) if has != had else ""
        if why:
            yield f"context.{name}", why


class FilledContext:
    """A copy of a context that takes option values for attributes that are not set."""

    def __init__(self, context: Context) -> None:
        self.context = copy.copy(context)
        self._by: dict[str, str] = {}

    def fill(self, option: Option, value: str, called: str) -> str:
        """Set the attribute that an option stands for. Returns why that has no effect, or ""."""
        name = option.fills
        group, attribute = name.split(".")
        device = getattr(self.context, group)
        present = given(device, attribute)
        wanted = value if option.values is None else option.values.read(called, value)
        if present not in ("", None):
            source = self._by.get(name, "the context")
            return "" if present == wanted else f"{source} says {present}"
        device = copy.copy(device)
        vars(device)[f"_{attribute}"], vars(device)[f"_{attribute}_option"] = wanted, called
        vars(self.context)[group] = device
        self._by[name] = called
        return ""
