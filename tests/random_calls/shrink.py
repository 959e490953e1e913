"""Makes a failing case smaller, as long as it fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.random_calls.cases import Case, Step, names, renamed
from tests.random_calls.values import SHORT


def shrunk(case: Case, fails: Callable[[Case], bool], tries: int = 30) -> Case:
    """The smallest case found with so many tries that still fails."""
    left = [tries]

    def still(smaller: Case) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(smaller)

    while (found := next((c for c in smaller_than(case) if left[0] > 0 and still(c)), None)) is not None:
        case = found
    return case


def smaller_than(case: Case) -> Iterator[Case]:
    """Cases a little smaller, those that lose most first."""
    for i in range(len(case.steps)):
        yield from _without_before(case, i)
    if len(case.steps) > 1:
        yield tidy(replace(case, steps=case.steps[:-1], results=case.results[:-1]))
    for i, step in enumerate(case.steps):
        yield from (_with_step(case, i, s) for s in _smaller_steps(step))
    for i, spec in enumerate(case.inputs):
        for less in _smaller_inputs(spec):
            yield replace(case, inputs=(*case.inputs[:i], less, *case.inputs[i + 1 :]))


def _without_before(case: Case, i: int) -> Iterator[Case]:
    """The case that has a new input where it used the result of step `i`."""
    result = case.results[i] if i < len(case.results) else None
    if i == len(case.steps) - 1 or not isinstance(result, dict):
        return
    spec = f"{SHORT[result['dtype']]}[{','.join(map(str, result['shape']))}]"
    new = {f"y{i}": f"x{len(case.inputs)}"}
    steps = tuple(
        replace(s, arguments=tuple(renamed(a, new) for a in s.arguments)) if j > i else s
        for j, s in enumerate(case.steps)
    )
    yield tidy(replace(case, inputs=(*case.inputs, spec), steps=steps))


def _with_step(case: Case, i: int, step: Step) -> Case:
    return tidy(replace(case, steps=(*case.steps[:i], step, *case.steps[i + 1 :])))


def _smaller_steps(step: Step) -> Iterator[Step]:
    if step.control:
        yield replace(step, control="")
    if step.kind != "operator":
        for i in reversed(range(1, len(step.arguments))):
            if "=" in step.arguments[i] or i == len(step.arguments) - 1:
                yield replace(step, arguments=step.arguments[:i] + step.arguments[i + 1 :])
    for i in reversed(range(len(step.setup))):
        if "=" in step.setup[i]:
            yield replace(step, setup=step.setup[:i] + step.setup[i + 1 :])


def _smaller_inputs(spec: str) -> Iterator[str]:
    kind, dims, rest = re.fullmatch(r"(\w+)\[([^\]]*)\](.*)", spec).groups()
    sizes = dims.split(",") if dims else []
    if "*" in dims:
        yield f"{kind}[{dims.replace('*', '')}]{rest}"
    if rest.endswith(("!", "~")):
        yield f"{kind}[{dims}]{rest[:-1]}"
    if kind in ("f16", "f64"):
        yield f"f32[{dims}]{rest}"
    if kind[0] == "f" and rest.startswith(("<", ">")):
        yield f"{kind}[{dims}]"
    if len(sizes) > 1:
        yield f"{kind}[{','.join(sizes[1:])}]{rest}"
    for i, size in enumerate(sizes):
        number = int(size.rstrip("*"))
        for less in (1, 2):
            if number > less:
                yield f"{kind}[{','.join([*sizes[:i], size.replace(str(number), str(less)), *sizes[i + 1 :]])}]{rest}"


def tidy(case: Case) -> Case:
    """The case without steps and inputs that the last step does not need, and with new numbers."""
    last = len(case.steps) - 1
    steps, inputs, todo = set(), set(), [last]
    while todo:
        i = todo.pop()
        if i in steps:
            continue
        steps.add(i)
        text = " ".join((*case.steps[i].arguments, case.steps[i].control))
        inputs.update(names(text, "x"))
        todo += names(text, "y")
    new = {f"x{old}": f"x{i}" for i, old in enumerate(sorted(inputs))}
    new |= {f"y{old}": f"y{i}" for i, old in enumerate(sorted(steps))}

    def step(old: Step) -> Step:
        arguments = tuple(renamed(a, new) for a in old.arguments)
        return replace(old, arguments=arguments, control=renamed(old.control, new))

    return Case(
        tuple(case.inputs[i] for i in sorted(inputs)),
        tuple(step(case.steps[i]) for i in sorted(steps)),
        tuple(case.results[i] for i in sorted(steps) if i < len(case.results)),
    )
