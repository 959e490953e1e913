"""Make goldens of the cases of `goldens_*.py` in other element types: all that MindSpore computes on a CPU.

    PYTHONPATH=. python tools/with_mindspore/sweep_types.py [--alone] FOLDER TYPE MODULE [PATTERN ...]

TYPE (`f16`, `f64`, `i8`, ...) takes the place of `f32` in a case's inputs; with `swap` those of `i32` and `i64`
take each other's; with `mixed1`, `mixed2`, ... every input gets a type by chance, mostly one that others have;
weights have a TYPE of floats too. MODULE is `goldens_ops` or another; PATTERN chooses cases.
What MindSpore refuses is left out and said. Cases are computed operator by operator, which is fast; what then differs
is to be made with `--alone`, as other goldens are. `python -m tests.random_calls.files FOLDER` compares.
Needs MindSpore 2.10.
"""

from __future__ import annotations

import fnmatch
import importlib
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import goldens
from tests.random_calls.worker import Worker
from tests.zoo.talk import Failed

_TYPES = ("f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "b")
_FLOATS = {"f16": "float16", "f64": "float64", "bf16": "bfloat16"}
_WEIGHTS = """
for parameter in self.get_parameters():
    if parameter.dtype == ms.float32:
        parameter.set_dtype(ms.{})
"""


def of_type(spec: str, kind: str) -> str:
    """An input as `goldens.drawn` reads it, of another type; integers lie where floats may."""
    if kind == "swap":
        return re.sub(r"^i(32|64)", lambda found: "i64" if found[1] == "32" else "i32", spec)
    found = re.match(r"f32(\[[^]]*\])(?:>(-?[\d.]+))?(?:<(-?[\d.]+))?", spec)
    if found is None or kind[0] in "fb":
        return re.sub("^f32", kind, spec)
    low, high = found[2], found[3]
    least = -(-float(low) // 1) if low else -4
    least = max(least, 0) if kind.startswith("u") else least
    most = float(high) if high else 5
    return f"{kind}{found[1]}>{least:.0f}<{max(most, least + 1):.0f}"


def _mixed(one: goldens.Case, kind: str) -> list[str]:
    """The inputs in types by chance; integers stay integers, because they may be places and sizes."""
    random = Random(f"{one.name} {kind}")
    most = random.choice(_TYPES)
    inputs = []
    for spec in one.inputs:
        own = spec.partition("[")[0]
        other = random.choice([own, most, most, random.choice(_TYPES)])
        if own[0] in "iu" and other[0] in "iu" and not (other[0] == "u" and ">-" in spec):
            spec = other + spec.removeprefix(own)
        inputs.append(of_type(spec, other))
    return inputs


def _narrowed(one: goldens.Case, body: str) -> str:
    """A body that computes in bfloat16, which numpy does not have: what goes in and comes out is float32."""
    before = [f"x{i} = x{i}.astype(ms.bfloat16)\n" for i, s in enumerate(one.inputs) if s.startswith("f32")]
    after = "all_y = all_y if isinstance(all_y, tuple) else (all_y,)\n"
    after += "return tuple([y.astype(ms.float32) for y in all_y])"
    return "".join(before) + body.replace("return ", "all_y = ") + "\n" + after


def _inputs(one: goldens.Case, kind: str) -> list[str]:
    if kind == "bf16":
        return list(one.inputs)
    return _mixed(one, kind) if kind.startswith("mixed") else [of_type(spec, kind) for spec in one.inputs]


def _request(one: goldens.Case, kind: str) -> dict[str, Any]:
    body = textwrap.dedent(one.body).strip() or f"return {one.call}"
    inputs = _inputs(one, kind)
    if kind == "bf16":
        body = _narrowed(one, body)
    setup = f"self.op = {one.op}\n{textwrap.dedent(one.setup)}"
    if kind in _FLOATS:
        setup += _WEIGHTS.format(_FLOATS[kind])
    return {"name": f"{one.name}_{kind}", "inputs": inputs, "setup": setup, "body": body}


def _asked(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return worker.ask(request)
    except Failed as error:
        return {"refused": str(error)}


def main(out: Path, kind: str, module: str, patterns: list[str], alone: bool) -> None:
    """Make the cases of a module in the other type."""
    importlib.import_module(module)
    # What a `reference` gives has its types, not those of the operator.
    chosen = [
        _request(c, kind)
        for c in goldens.CASES
        if not c.reference and any(fnmatch.fnmatch(c.name, p) for p in patterns or ["*"])
        if _inputs(c, kind) != list(c.inputs)
        or (kind == "bf16" and any(s.startswith("f32") for s in c.inputs))
    ]
    out.mkdir(parents=True, exist_ok=True)
    count: Counter[str] = Counter(tried=len(chosen))
    command = [sys.executable, "-m", "tests.random_calls.oracle", str(out.resolve())]
    with Worker(command, out.resolve() / "oracle.log", seconds=240) as worker:
        computed = []
        for request in chosen:
            refused = _asked(worker, {"do": "probe", **request}).get("refused")
            if refused:
                count["refused"] += 1
                print(f"{request['name']}: {refused}", flush=True)
            else:
                computed.append(request)
        for request in computed:
            refused = _asked(worker, {"do": "make" if alone else "export", **request}).get("refused")
            count["made"] += not refused
            if refused:
                print(f"{request['name']}: not exported: {refused}", flush=True)
    made = {request["name"] for request in computed}
    for file in out.glob("*.npz"):  # of cases that were computed, and not exported
        if file.stem in made and not file.with_suffix(".mindir").exists():
            file.unlink()
    print(", ".join(f"{n} {what}" for what, n in count.items()), flush=True)


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--alone"]
    main(Path(given[0]), given[1], given[2], given[3:], "--alone" in sys.argv)
