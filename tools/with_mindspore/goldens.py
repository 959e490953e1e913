"""How goldens of MindSpore's primitives are made; the cases are in `goldens_*.py`.

A case says the inputs, a line of Python that makes an operator or a layer (`op`), and one that computes
something of the inputs x0, x1, ... and of `self.op` (`call`), or a `body` of several lines that returns it;
`setup` are further lines of the constructor. Inputs are written as `f32[2,3*]`: a type, dimensions, a star
after those that the graph leaves free; `i64[4]<7` draws from 0 to 6, `u32[4]>1<7` from 1 to 6, and
`f32[4]>0<1` evenly from 0 to 1; without bounds floats are normal. `!` at the end puts NaN, infinities and
zeros, or the least and the greatest integers, in the first places, `~` infinities only; `^` sorts. `reference` is what computes the outputs where MindSpore has no CPU kernel for
what is exported: the same mathematics in other operators.

For each case MindSpore exports `NAME.mindir`, and computes on a CPU what `NAME.npz` holds: inputs x0, x1, ...
and outputs y0, y1, ... Weights and inputs are random with a seed of the case's own.
"""

from __future__ import annotations

import fnmatch
import importlib
import re
import sys
import tempfile
import textwrap
import zlib
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms
import numpy as np

_TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "b": "bool"}
_TYPES |= {f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0]


@dataclass(frozen=True)
class Case:
    """One golden."""

    name: str
    inputs: tuple[str, ...]
    op: str
    call: str
    body: str
    setup: str
    reference: str


CASES: list[Case] = []


def case(
    name: str,
    *inputs: str,
    op: str = "None",
    call: str = "",
    body: str = "",
    setup: str = "",
    reference: str = "",
) -> None:
    """Enter a case; without `call` or `body` the operator is applied to all inputs."""
    if any(c.name == name for c in CASES):
        raise ValueError(f"{name} is given twice")
    names = ", ".join(f"x{i}" for i in range(len(inputs)))
    CASES.append(Case(name, inputs, op, call or f"self.op({names})", body, setup, reference))


_SPEC = re.compile(
    r"(?P<type>\w+)\[(?P<dims>[\d*,]*)\](?:>(?P<low>-?[\d.]+))?(?:<(?P<high>-?[\d.]+))?(?P<special>[!~^])?$"
)


def drawn(spec: str, random: np.random.Generator) -> tuple[np.ndarray, list[int | None]]:
    """An input, and its dimensions with None where the graph leaves them free."""
    found = _SPEC.match(spec)
    if found is None:
        raise ValueError(f"{spec!r} does not say an input")
    dims = [d for d in found["dims"].split(",") if d]
    shape = [int(d.rstrip("*")) for d in dims]
    dtype = np.dtype(_TYPES[found["type"]])
    low, high = float(found["low"] or 0), float(found["high"] or 2)
    if dtype.kind != "f":
        data = random.integers(int(low), int(high), shape)
    elif found["high"] is None:
        data = random.normal(size=shape)
    else:
        data = random.uniform(low, high, shape)
    data = np.asarray(data).astype(dtype)
    if found["special"] == "^":
        data = np.sort(data, -1) if shape else data
    elif found["special"] == "~":
        data.reshape(-1)[:2] = np.array([np.inf, -np.inf], dtype)[: data.size]
    elif found["special"]:
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        special = np.array(_SPECIAL if limits is None else [limits.min, limits.max]).astype(dtype)
        data.reshape(-1)[: len(special)] = special[: data.size]
    return data, [None if "*" in d else int(d) for d in dims]


_SOURCE = """
import numpy as np
import mindspore as ms
from mindspore import mint, nn, ops
from mindspore.mint.nn import functional as F
from mindspore.ops import auto_generate as P
from mindspore.ops import operations as O

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.op = {op}
{setup}

    def construct(self, {names}):
{body}
"""


def network(folder: Path, one: Case, body: str, name: str) -> ms.nn.Cell:
    """The case as a cell, out of a file of its own: MindSpore reads the source."""
    names = ", ".join(f"x{i}" for i in range(len(one.inputs)))
    body, setup = (textwrap.indent(textwrap.dedent(t).strip(), " " * 8) for t in (body, one.setup))
    (folder / f"{name}.py").write_text(_SOURCE.format(op=one.op, setup=setup, names=names, body=body))
    importlib.invalidate_caches()
    return importlib.import_module(name).Net()


def randomize(net: ms.nn.Cell, random: np.random.Generator) -> None:
    """Give all weights random values; variances are positive."""
    for parameter in net.get_parameters():
        data = random.normal(scale=0.5, size=parameter.shape)
        if "var" in parameter.name:
            data = np.abs(data) + 0.5
        if parameter.dtype not in (ms.int32, ms.int64, ms.bool_):
            parameter.set_data(ms.Tensor(data, parameter.dtype))


def leaves(value) -> list[np.ndarray]:
    """The tensors of nested tuples, in order."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, ms.Tensor):
        return [value.asnumpy()]
    return [np.asarray(value, np.float32 if isinstance(value, float) else None)]


def make(one: Case, out: Path, folder: Path) -> None:
    """Write the two files of a case."""
    random = np.random.default_rng(zlib.crc32(one.name.encode()))
    arrays, shapes = zip(*(drawn(spec, random) for spec in one.inputs), strict=True)
    tensors = [ms.Tensor(a) for a in arrays]
    declared = [
        ms.Tensor(shape=s, dtype=t.dtype) if None in s else t for s, t in zip(shapes, tensors, strict=True)
    ]
    net = network(folder, one, one.body or f"return {one.call}", f"net_{one.name}")
    randomize(net, random)
    before = {p.name: p.asnumpy().copy() for p in net.get_parameters()}
    ms.export(net, *declared, file_name=str(out / one.name), file_format="MINDIR")
    if one.reference:
        net = network(folder, one, f"return {one.reference}", f"reference_{one.name}")
    for parameter in net.get_parameters():
        parameter.set_data(ms.Tensor(before[parameter.name]))
    result = leaves(net(*tensors))
    known = {f"x{i}": a for i, a in enumerate(arrays)} | {f"y{i}": y for i, y in enumerate(result)}
    np.savez_compressed(out / f"{one.name}.npz", **known)


def main(out: Path, patterns: list[str]) -> None:
    """Make the cases that match a pattern, all where there is none; say which failed."""
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for one in CASES:
            if not any(fnmatch.fnmatch(one.name, p) for p in patterns or ["*"]):
                continue
            try:
                make(one, out, Path(folder))
            except Exception as error:
                (out / f"{one.name}.mindir").unlink(missing_ok=True)
                lines = [line for line in str(error).strip().splitlines() if line.strip(" -")]
                print(f"{one.name}: {type(error).__name__}: {lines[0][:200] if lines else ''}", flush=True)
