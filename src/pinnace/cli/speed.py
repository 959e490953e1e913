"""The profile of this machine: measured on request, or briefly where nothing is known of the processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinnace.cache.store import Store
    from pinnace.engines.speed.profile import MachineProfile

_SHOWN = ("conv", "pointwise", "depthwise", "product", "vector", "elementwise")
"""Classes of work that are shown."""


def measured(brief: bool = False) -> MachineProfile:
    """Measure this machine (a minute, `brief`: seconds), and store the profile beside the compile cache.

    Raises OSError if it cannot be written.
    """
    from pinnace.bench.machine import measure, ways
    from pinnace.cache import profiles
    from pinnace.cli.console import note, progress

    with progress("Measuring the engines" + ("" if brief else ", for a minute")):
        chosen = [way for way in ways() if way[2] == 1 or not brief]
        profile = measure(chosen, lambda _: None, brief)
    store = _store()
    if store is None:
        note("the profile is not stored: the compile cache is off")
    else:
        profiles.keep(store, profile)
    return profile


def fill_in() -> None:
    """Measure briefly if neither a profile nor the table knows this machine, and there is a choice."""
    from pinnace.cache import profiles
    from pinnace.engines import installed

    store = _store()
    if store is not None and len(installed()) > 1 and not profiles.profile(store).rates:
        measured(brief=True)


def rows(profile: MachineProfile) -> list[tuple[str, ...]]:
    """Return a row for each engine, precision and number of threads, for the columns `head`."""
    return [
        (*map(str, way), *(f"{1e3 / rates[kind][0][1]:.1f}" if kind in rates else "" for kind in _SHOWN))
        for way, rates in sorted(profile.rates.items())
    ]


def head() -> tuple[str, ...]:
    """Return the head of the table of speeds."""
    return ("engine", "precision", "threads", *_SHOWN)


def gains(profile: MachineProfile) -> list[tuple[str, ...]]:
    """Return a row for each rule and size that was measured."""
    return [
        (rule, " x ".join(f"{one:g}" for one in size), f"{ratio:.2f}")
        for rule, rows in sorted(profile.rules.items())
        for size, ratio in rows
    ]


def _store() -> Store | None:
    from pinnace.cache.store import Store
    from pinnace.options.settings import Settings

    return Store.of(Settings())
