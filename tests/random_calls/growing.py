"""Grows a case, call by call: each is tried by MindSpore until one is not refused."""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from tests.random_calls import excluded
from tests.random_calls.cases import Case, Step, names
from tests.random_calls.values import SHORT, Drawer, Known
from tests.random_calls.worker import Worker
from tests.zoo.talk import Failed

Function = dict[str, Any]
_TRIES = 16
_FUNCTIONS = 12
"""Functions that are tried for one further call of a chain."""
_OPERATORS = ("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} ** {}", "{} @ {}", "{} < {}",
              "{} >= {}", "{} == {}", "{} != {}", "{} & {}", "{} | {}", "{} ^ {}", "-{}", "~{}")  # fmt: skip
# Beside another slice MindSpore leaves out a step of -1, so that is not among these.
_INDICES = ("{}[0]", "{}[-1]", "{}[1:]", "{}[::2]", "{}[..., 0]", "{}[None]", "{}[:, None]", "{}[..., -1:]", "{}[:0]",
            "{}[:, 1:]", "{}[..., None, :]", "{}[..., ::-1]", "{}[{}]", "{}[:, {}]", "{}[..., {}]")  # fmt: skip
_TENSOR = {"name": "input", "default": "required", "type": "Tensor", "about": "", "keyword": False}


def _python_operators() -> list[Function]:
    more = [
        {
            "name": text,
            "kind": "operator",
            "parameters": [_TENSOR] * text.count("{}"),
            "inputs": [],
            "processor": True,
        }
        for text in (*_OPERATORS, *_INDICES)
    ]
    index = {**_TENSOR, "name": "index"}
    for one in more:
        if "[{" in one["name"] or ", {}" in one["name"]:
            one["parameters"] = [_TENSOR, index]
    return more


class Grower:
    """Makes cases of the functions whose names match `only`. A case depends on the seed and its number alone.

    `worked` and `hopeless` count, by function, what MindSpore computed and what it did not; `ended` counts what
    ended it, or took too long.
    """

    def __init__(self, functions: list[Function], oracle: Worker, seed: int, only: str = "") -> None:
        self._functions, self._oracle, self._seed = [*functions, *_python_operators()], oracle, seed
        names = {f["name"] for f in self._functions}
        self._called = {n for n in names if re.search(only, n) and not excluded.reason(n)}
        self.worked: Counter[str] = Counter()
        self.hopeless: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()

    def case(self, number: int) -> Case | None:
        """The case of a number: a call, or a chain of calls; None where MindSpore refuses the first.

        Every function comes first once before one comes first again.
        """
        turn, place = divmod(number, len(self._functions))
        order = np.random.default_rng([self._seed, turn]).permutation(len(self._functions))
        first = int(order[place])
        if not self._is_called(first) or self._is_hopeless(self._functions[first]):
            return None
        random = self._random(number)
        length = 1 if random.random() < 0.75 else int(random.integers(2, 7))
        free = bool(random.random() < 0.25)
        case = self._with(Case(), first, number, free)
        for step in range(1, length):
            if case is None:
                return None
            drawn = self._random(number, step).permutation(len(self._functions)).tolist()
            for more in itertools.islice(filter(self._is_called, drawn), _FUNCTIONS):
                longer = self._with(case, more, number, free, 5)
                if longer is not None:
                    case = longer
                    break
        return case

    def unexported(self, case: Case) -> None:
        """Note that MindSpore computes a case and does not export it."""
        if len(case.steps) == 1:
            self.hopeless[case.steps[0].call] += 1
            self.worked[case.steps[0].call] -= 1

    def _random(self, *of: int) -> np.random.Generator:
        """Generator of one part of a case, so that no part changes with what is excluded of another."""
        return np.random.default_rng([self._seed, *of])

    def _is_called(self, place: int) -> bool:
        return self._functions[place]["name"] in self._called

    def _is_hopeless(self, one: Function) -> bool:
        """True if a function was tried enough."""
        return self.worked[one["name"]] <= 0 and self.hopeless[one["name"]] > one["processor"]

    def _with(self, case: Case, place: int, number: int, free: bool, tries: int = _TRIES) -> Case | None:
        """The case with a call of a function at its end."""
        one = self._functions[place]
        if not one["processor"]:
            tries = 5
        for attempt in range(tries):
            if self.ended[one["name"]]:  # a new process takes seconds
                return None
            random = self._random(number, len(case.steps), place, attempt)
            wild = float(random.random()) * (1 - attempt / tries)
            longer = _drawn(case, one, random, wild, free)
            if longer is None:
                continue
            answer = self._probe(longer, f"random_{self._seed}_{number}", one["name"])
            if answer is None:
                continue
            result = answer["result"]
            found = excluded.leaves(result)
            whole = found and None not in _flat(result) and all(np.prod(f["shape"]) < 20000 for f in found)
            if not whole or (longer.steps[-1].control and not _keeps_type(longer, result)):
                continue
            if _undefined(longer, answer["inputs"], result):
                continue
            self.worked[one["name"]] += 1
            return replace(longer, results=(*case.results, result))
        self.hopeless[one["name"]] += 1
        return None

    def _probe(self, case: Case, name: str, function: str) -> dict[str, Any] | None:
        try:
            answer = self._oracle.ask({"do": "probe", **request(case, name)})
        except Failed:
            self.ended[function] += 1
            print(f"{function} ended MindSpore", file=sys.stderr, flush=True)
            return None
        return answer if "result" in answer else None


def request(case: Case, name: str) -> dict[str, Any]:
    """A case as the oracle takes it."""
    return {"name": name, "inputs": case.inputs, "setup": case.setup, "body": case.body}


def _drawn(case: Case, one: Function, random: np.random.Generator, wild: float, free: bool) -> Case | None:
    inputs = list(case.inputs)
    drawer = Drawer(random, wild, inputs, _tensors(case), free)
    layer = one["kind"] == "layer"
    setup = drawer.arguments(one["parameters"], constructor=True) if layer else []
    first = [{**_TENSOR, "name": "self"}] if one["kind"] == "method" else []
    arguments = drawer.arguments([*first, *(one["inputs"] if layer else one["parameters"])])
    if case.steps and not any("y" in a for a in arguments):
        return None
    control = ""
    if case.steps and arguments and names(arguments[0], "y") and random.random() < 0.12:
        word = ("if", "while", "for")[int(random.integers(3))]
        control = f"{word} 2"
        if word != "for":
            inputs.append(("i32[]>-3<4", "i64[]>0<4")[int(random.integers(2))])
            control = f"{word} x{len(inputs) - 1}"
    if layer and control.startswith(("while", "for")):
        control = ""
    step = Step(one["name"], one["kind"], tuple(arguments), tuple(setup), control)
    return Case(tuple(inputs), (*case.steps, step), case.results)


def _tensors(case: Case) -> list[Known]:
    """The tensors of the last two results, and now and then more."""
    known = []
    for i, result in list(enumerate(case.results))[-2:]:
        for place, leaf in _places(result, f"y{i}"):
            known.append(Known(place, SHORT[leaf["dtype"]], tuple(leaf["shape"])))
    return known


def _places(result: Any, text: str) -> list[tuple[str, Any]]:
    if isinstance(result, list):
        return [found for i, item in enumerate(result) for found in _places(item, f"{text}[{i}]")]
    return [(text, result)]


def _flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _flat(item)] if isinstance(result, list) else [result]


def _keeps_type(case: Case, result: Any) -> bool:
    """Whether a step under control gives what it takes, as MindSpore's branches and loops must."""
    if not isinstance(result, dict):
        return False
    taken = dict(found for i, r in enumerate(case.results) for found in _places(r, f"y{i}"))
    first = taken.get(case.steps[-1].arguments[0])
    return first is not None and (first["dtype"], first["shape"]) == (result["dtype"], result["shape"])


def _undefined(case: Case, inputs: list[Any], result: Any) -> str:
    """Reason why the result of the last step means nothing."""
    step = case.steps[-1]
    known = dict(found for i, r in enumerate(case.results) for found in _places(r, f"y{i}"))
    computed = [leaf for text, leaf in known.items() if any(text in a for a in step.arguments)]
    given = [
        leaf
        for a in step.arguments
        for leaf in (*(known[text] for text in known if text in a), *(inputs[n] for n in names(a, "x")))
    ]
    free = any("*" in spec for spec in case.inputs)
    return excluded.undefined(step.call, given, result, computed, step.arguments, free)
