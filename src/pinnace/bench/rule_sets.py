"""Sets of rules that `pinnace tune` tries: those of a model that change it."""

from __future__ import annotations

from pinnace.building.origin import Origin
from pinnace.engines.onnxruntime.compiling import OFF
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.speed.gains import ALWAYS, NONE, Gains
from pinnace.options.settings import Settings
from pinnace.options.target import Target

_LARGEST = 1e9
"""Bytes of a model up to which rules are tried: all ways to run it are open at the same time."""


def rule_sets(path: str, config: str) -> list[str]:
    """Return settings (`Gains`) beside the default: no rule, and each that the model meets turned over."""
    origin = Origin(path, None, lambda _: Target(provider="onnxruntime"), Settings.load(config))
    if origin.source.size > _LARGEST:
        return []
    model, gains = origin.lowered().model, Gains.of(origin.target.gains)
    norms = any(node.op_type == "LayerNormalization" for node in model.graph)
    off = [rule for rule in OFF if norms and gains.pays(rule)]
    used = {*rewrite(model, gains), *off}
    met = {*rewrite(origin.lowered().model, ALWAYS), *off}
    turned = [f"-{rule}" if rule in used else f"+{rule}" for rule in sorted(met)]
    return [NONE, *turned] if len(turned) > 1 else turned  # a single one turned over is all, or none


def label(rules: str) -> str:
    """Return settings of rules as text for users."""
    words = {"+": "with ", "-": "without "}
    return "no rules" if rules == NONE else ", ".join(words[word[0]] + word[1:] for word in rules.split())
