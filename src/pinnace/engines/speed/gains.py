"""Gains of the rules that rewrite graphs, as they were measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pinnace.engines.speed.profile import Rates, as_rates, built_in, rate

WORTH = 0.97
"""Time of a rewritten form over that of the form as it is, from which on a rule rewrites."""

NONE = "none"


class Gains:
    """Which rules pay. `rates` are times with over without, by rule and size (`origin` says whose).

    A rule with variants has a row for each, "RULE:VARIANT". The words of `settings` decide about single
    rules: "+RULE" always, "-RULE" never, "none" no other.
    """

    def __init__(self, rates: Rates, origin: str = "", settings: str = "") -> None:
        self.origin, self._rates, self._words = origin, rates, settings.split()

    @classmethod
    def of(cls, measured: str = "", settings: str = "") -> Gains:
        """Return the gains of a measured profile (`as_text`), of the table for "", with settings."""
        if not measured:
            profile = built_in()
            return cls(profile.rules, profile.origin, settings)
        return cls(as_rates(json.loads(measured)), "measured on this machine", settings)

    def ratio(self, rule: str, size: Sequence[float] = ()) -> float:
        """Return the time with a rule over that without; infinity if nothing is known."""
        names = {rule, rule.partition(":")[0]}
        if any(f"+{name}" in self._words for name in names):
            return 0.0
        off = NONE in self._words or any(f"-{name}" in self._words for name in names)
        if off or rule not in self._rates:
            return float("inf")
        return rate(self._rates, rule, size)

    def pays(self, rule: str, size: Sequence[float] = ()) -> bool:
        """Return True if a rule makes a node of this size faster."""
        return self.ratio(rule, size) < WORTH


class _Always(Gains):
    def ratio(self, rule: str, size: Sequence[float] = ()) -> float:
        """Return 0."""
        return 0.0


ALWAYS = _Always({}, "not measured")
"""Gains by which every rule pays, as it is on devices that were not measured."""


def described(applied: Mapping[str, int]) -> str:
    """Return rules and how often they were applied as text."""
    return ", ".join(f"{rule} {count}" for rule, count in sorted(applied.items()))
