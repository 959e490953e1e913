"""MindSpore's side, run by the oracle's Python: answers each line of JSON with one.

    python -m tests.random_calls.oracle FOLDER

What a request asks for is in "do"; a case is {"name", "inputs", "setup", "body"}, as in `tools/with_mindspore/goldens.py`:

* catalog: the functions there are;
* probe: what a case is given and gives when it is called: trees of {"dtype", "shape", "finite", "nan",
  "minus_zero", "largest", "zero", "sorted"}, None for what is no tensor;
* export: a case as NAME.mindir, with NAME.npz as the goldens have it;
* make: one case as a golden, from the compiled graph, and in NAME.moved.npz what it gives for inputs that differ
  by one step of their type: by how much rounding alone may change the result.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import textwrap
import zlib
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from tests.random_calls import catalog

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "with_mindspore"))
import goldens

Request = dict[str, Any]
Answer = dict[str, Any]
_HEAD = goldens._SOURCE.partition("class Net")[0]


class Oracle:
    """Answers requests; files go to a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, 0
        sys.path.insert(0, str(folder))

    def catalog(self, _: Request) -> Answer:
        return {"functions": catalog.functions()}

    def probe(self, request: Request) -> Answer:
        names: dict[str, Any] = {}
        exec(_source(request, "Net"), names)
        inputs = [tensor for tensor, _ in _drawn(request)]
        known = [_tree(tensor) for tensor in inputs]  # before the call, which may write into them
        net = names["Net"]()
        goldens.randomize(net, _after_inputs(request))
        return {"result": _tree(net(*inputs)), "inputs": known}

    def export(self, request: Request) -> Answer:
        """Write the files of a case."""
        self._made += 1
        name = f"export{os.getpid()}_{self._made}"
        source = self._folder / f"{name}.py"
        source.write_text(_source(request, "Net"))  # MindSpore reads it
        importlib.invalidate_caches()
        net = importlib.import_module(name).Net()
        path = self._folder / request["name"]
        goldens.randomize(net, _after_inputs(request))
        _save(path, request, _run(net, request))
        ms.export(net, *(d for _, d in _drawn(request)), file_name=str(path), file_format="MINDIR")
        source.unlink()
        del sys.modules[name]
        return {}

    def make(self, request: Request) -> Answer:
        """Write the golden of one case."""
        ms.set_context(mode=ms.GRAPH_MODE)
        try:
            one = goldens.Case(
                request["name"], tuple(request["inputs"]), "None", "", request["body"], request["setup"], ""
            )
            goldens.make(one, self._folder, self._folder)
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
        return {"moved": self._moved(request)}

    def _moved(self, request: Request) -> int:
        """Write what comes of inputs that are one step off."""
        names: dict[str, Any] = {}
        exec(_source(request, "Net"), names)
        steps = np.random.default_rng(7)
        saved: dict[str, np.ndarray] = {}
        for turn in range(3):
            net = names["Net"]()
            goldens.randomize(net, _after_inputs(request))
            inputs = [ms.Tensor(_nudged(t.asnumpy(), steps)) for t, _ in _drawn(request)]
            leaves = goldens.leaves(net(*inputs))
            saved |= {f"run{turn}_y{i}": y for i, y in enumerate(leaves)}
        np.savez(self._folder / f"{request['name']}.moved.npz", **saved)
        return len(saved)


def _first_line(error: Exception) -> str:
    lines = [one for one in str(error).strip().splitlines() if one.strip(" -")]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def _nudged(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    if x.dtype.kind != "f":
        return x
    with np.errstate(all="ignore"):
        up = np.nextafter(x, np.where(random.random(x.shape) < 0.5, np.inf, -np.inf).astype(x.dtype))
    return np.where(np.isfinite(x) & (x != 0), up, x)


def _run(net: Any, case: Request) -> list[np.ndarray]:
    """The results of a network, which has the weights that it had."""
    before = {p.name: p.asnumpy().copy() for p in net.get_parameters()}
    result = net(*(tensor for tensor, _ in _drawn(case)))
    leaves = goldens.leaves(result)  # before what they may be views of is set back
    for parameter in net.get_parameters():
        parameter.set_data(ms.Tensor(before[parameter.name]))
    return leaves


def _drawn(case: Request) -> list[tuple[ms.Tensor, ms.Tensor]]:
    """For each input its value, and how it is declared."""
    random = _random(case)
    drawn = []
    for spec in case["inputs"]:
        data, shape = goldens.drawn(spec, random)
        tensor = ms.Tensor(data)
        drawn.append((tensor, ms.Tensor(shape=shape, dtype=tensor.dtype) if None in shape else tensor))
    return drawn


def _random(case: Request) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(case["name"].encode()))


def _after_inputs(case: Request) -> np.random.Generator:
    """The generator as the goldens have it when they draw weights."""
    random = _random(case)
    for spec in case["inputs"]:
        goldens.drawn(spec, random)
    return random


def _source(case: Request, name: str) -> str:
    names = ", ".join(f"x{i}" for i in range(len(case["inputs"])))
    return _HEAD + _class(name, case["setup"], names, case["body"])


def _class(name: str, setup: str, names: str, body: str) -> str:
    setup, body = textwrap.indent(setup, " " * 8), textwrap.indent(body, " " * 8)
    return (
        f"class {name}(nn.Cell):\n    def __init__(self):\n        super().__init__()\n{setup}\n\n"
        f"    def construct(self, {names}):\n{body}\n"
    )


def _save(path: Path, case: Request, result: list[np.ndarray]) -> None:
    known = {f"x{i}": t.asnumpy() for i, (t, _) in enumerate(_drawn(case))}
    known |= {f"y{i}": y for i, y in enumerate(result)}
    np.savez(path.with_name(path.name + ".npz"), **known)
    path.with_name(path.name + ".moved.npz").unlink(missing_ok=True)


def _tree(value: Any) -> Any:
    """What is known of a result."""
    if isinstance(value, tuple | list):
        return [_tree(item) for item in value]
    if not isinstance(value, ms.Tensor):
        return None
    array = value.asnumpy()
    numbers = array.astype(np.float64) if array.dtype.kind in "fiub" else np.zeros(0)
    finite = bool(np.isfinite(numbers).all())
    largest = float(np.abs(numbers).max()) if finite and array.size else 0.0
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "finite": finite,
        "nan": bool(np.isnan(numbers).any()),
        "minus_zero": bool((np.signbit(numbers) & (numbers == 0)).any()),
        "largest": largest,
        "zero": bool((numbers == 0).any()),
        "sorted": bool((np.sort(numbers) == numbers).all()) if numbers.ndim and finite else False,
    }


def main(folder: Path) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    collect, gc.collect = gc.collect, lambda *_: 0  # which MindSpore calls at each compilation
    oracle = Oracle(folder)
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)
        for number, line in enumerate(sys.stdin):
            request = json.loads(line)
            try:
                answer = getattr(oracle, request["do"])(request)
            except Exception as error:
                answer = {"refused": _first_line(error)}
            print(json.dumps(answer), file=out)
            if number % 500 == 499:
                collect()
    os._exit(0)  # MindSpore's own end takes seconds, and may fail


if __name__ == "__main__":
    main(Path(sys.argv[1]))
