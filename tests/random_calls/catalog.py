"""What MindSpore offers to call, read from its signatures and documentation. Runs in the oracle's Python.

A function's parameters are those of `inspect.signature`, or of the text `name(a, b=1)` with which the
documentation of overloaded functions begins each form; types and the text on each parameter come from the
sections Args, Inputs and Keyword Args.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

import mindspore as ms
from mindspore import mint, nn, ops

MODULES: dict[str, ModuleType] = {
    "ops": ops,
    "mint": mint,
    "mint.nn.functional": mint.nn.functional,
    "mint.linalg": mint.linalg,
    "mint.special": mint.special,
}
REQUIRED = "required"
_REFERENCE = re.compile(r"refer to\s+:(?:func|class|meth):`(?:mindspore\.)?([\w.]+)`")
_PARAMETER = re.compile(r"^(?:- )?\*{0,2}(\w+)\*{0,2}(?:, \*{0,2}\w+\*{0,2})* ?\((.*?)\)(?: ?:| -|$)(.*)")


@dataclass
class Parameter:
    """One parameter: `type` and `about` are the documentation's words, `default` is Python or REQUIRED."""

    name: str
    default: str
    type: str
    about: str
    keyword: bool = False


@dataclass
class Function:
    """One form of a function; `kind` is function, method or layer, and a layer is called with `inputs`."""

    name: str
    kind: str
    parameters: list[Parameter]
    inputs: list[Parameter]
    processor: bool
    """Whether the documentation lists the processor; MindSpore computes more than it says."""


def functions() -> list[dict[str, Any]]:
    """All of MindSpore's, in an order that depends on nothing."""
    found: dict[str, Function] = {}
    for one in _all():
        key = f"{one.name}({', '.join(p.name for p in one.parameters + one.inputs)})"
        found.setdefault(key, one)
    return [asdict(found[key]) for key in sorted(found)]


def _all() -> Iterator[Function]:
    for path, module in MODULES.items():
        for name, one in _callables(module):
            if not inspect.isclass(one):
                yield from _forms(f"{path}.{name}", "function", one)
    for name, one in _callables(ms.Tensor):
        yield from _forms(f"Tensor.{name}", "method", one)
    for path, module in {"nn": nn, "mint.nn": mint.nn}.items():
        for name, one in _callables(module):
            if inspect.isclass(one) and issubclass(one, nn.Cell):
                yield from _layer(f"{path}.{name}", one)


def _callables(owner: object) -> Iterator[tuple[str, Any]]:
    for name in dir(owner):
        if not name.startswith("_") and callable(getattr(owner, name, None)):
            yield name, getattr(owner, name)


def _forms(name: str, kind: str, one: Any) -> Iterator[Function]:
    text = inspect.getdoc(one) or ""
    short = name.rpartition(".")[2]
    for signature, part in _parts(short, text):
        if signature is None:
            signature = _signature(one, kind == "method")
        if signature is None:
            continue
        about = _documented(part)
        if not about:
            about = _referred(part, short)
        yield Function(name, kind, [_parameter(*s, about) for s in signature], [], "``CPU``" in text)


def _layer(name: str, one: Any) -> Iterator[Function]:
    signature, call = _signature(one.__init__, True), _signature(one.construct, True)
    if signature is None or call is None:
        return
    text = inspect.getdoc(one) or ""
    about = _documented(text) or _referred(text, name.rpartition(".")[2])
    made, called = ([_parameter(*s, about) for s in part] for part in (signature, call))
    yield Function(name, "layer", made, called, "``CPU``" in text)


Signature = list[tuple[str, str, bool]]
"""Names, defaults, and whether it is given by keyword only."""


def _signature(one: Any, bound: bool) -> Signature | None:
    """The parameters as Python knows them; None where it does not."""
    try:
        parameters = list(inspect.signature(one).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return [(p.name, _python(p.default), p.kind == p.KEYWORD_ONLY) for p in parameters[bound:]]


def _python(default: object) -> str:
    if default is inspect.Parameter.empty:
        return REQUIRED
    if isinstance(default, type(ms.float32)):
        return f"ms.{str(default).lower()}"
    try:
        ast.literal_eval(repr(default))
    except (ValueError, SyntaxError):
        return "None"
    return repr(default)


def _parts(name: str, text: str) -> Iterator[tuple[Signature | None, str]]:
    """Each form of a function with its part of the documentation."""
    head = re.compile(rf"^\s*(?:\.\. \w+:: )?(?:[\w.]+\.)?{re.escape(name)}\((.*)\)\s*(?:->.*)?$", re.M)
    found = list(head.finditer(text.partition("Examples:")[0])) + [
        m for m in head.finditer(text) if m[0].lstrip().startswith("..")
    ]
    starts = {m.start(): m for m in found}
    places = sorted(starts)
    if not places:
        yield None, text
        return
    for place, after in zip(places, [*places[1:], len(text)], strict=True):
        signature = _written(starts[place][1])
        if signature is not None:
            yield signature, text[place:after]


def _written(text: str) -> Signature | None:
    """The parameters as the documentation writes them."""
    text = re.sub(r"(?<==)\s*(?:mindspore|mstype|ms)\.(\w+)", r"'ms.\1'", text)
    try:
        arguments = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]
    except SyntaxError:
        return None
    if arguments.vararg or arguments.kwarg:
        return None
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    both = [(a, d, False) for a, d in zip(plain, defaults, strict=True)]
    both += [(a, d, True) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    written = [(a.arg, REQUIRED if d is None else ast.unparse(d).strip("'"), k) for a, d, k in both]
    return [w for w in written if w[0] != "self"]


def _documented(text: str) -> dict[str, tuple[str, str]]:
    """Type and text by the parameter's name."""
    known: dict[str, tuple[str, str]] = {}
    lines, section = text.splitlines(), ""
    for number, line in enumerate(lines):
        if re.match(
            r"^\s*(Args|Inputs|Keyword Args|Parameters|Returns|Outputs|Raises|Examples|Note)\b.*:\s*$", line
        ):
            section = line.strip()
        if not section.startswith(("Args", "Inputs", "Keyword", "Param")):
            continue
        whole = " ".join(part.strip() for part in lines[number : number + 3])
        found = _PARAMETER.match(line.strip()) or (
            line.count("(") > line.count(")") and _PARAMETER.match(whole)
        )
        if found:
            rest: list[str] = []
            for further in lines[number + 1 : number + 12]:
                if _PARAMETER.match(further.strip()) or re.match(r"^\s*\w+:\s*$", further):
                    break
                rest.append(further.strip())
            known.setdefault(found[1], (found[2], " ".join([found[3], *rest])[:700]))
    return known


def _referred(text: str, name: str) -> dict[str, tuple[str, str]]:
    """What the function says to which this documentation refers."""
    found = _REFERENCE.search(text)
    paths = [found[1]] if found else [f"ops.{name}", f"mint.{name}"]
    known: dict[str, tuple[str, str]] = {}
    for path in paths:
        one: Any = ms
        for step in path.split("."):
            one = getattr(one, step, None)
        known |= _documented(inspect.getdoc(one) or "") if one is not None else {}
    return known


def _parameter(name: str, default: str, keyword: bool, about: dict[str, tuple[str, str]]) -> Parameter:
    kind, text = about.get(name, ("", ""))
    return Parameter(name, default, kind, text, keyword)
