"""Pinnace's side: builds and runs files, and compares; answers each line of JSON with one.

    python -m tests.random_calls.ours FOLDER ENGINE

A request has the "name" of a case, and whether it is to be loaded from the compile cache in FOLDER ("kept"), into
which another process has compiled it; the answer's "wrong" is "" where Pinnace gives what MindSpore does.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx_ir as ir
from tests.random_calls.compare import difference

from pinnace.building.build import Built, build
from pinnace.building.opening import open_model
from pinnace.cache.store import OFF
from pinnace.errors import PinnaceError
from pinnace.formats import read
from pinnace.lowering.graph import compilable
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.weights.source import Source

LIMITS = (
    "known before the run",
    "needs all dimensions fixed",
    "needs the last 1 dimensions fixed",
    "needs the last 2 dimensions fixed",
    "needs the size of the image fixed for a divisor together with ceil_mode",
    "asks for the full matrices",
    "needs the dimension that it takes apart fixed",
    "has integers of more than 32 bits",
    "leaves results of empty tensors undefined",
    "gives tuples of different structure in the two branches",
    "the rank of",
    "has a negative dimension: [-2]",
    "running Squeeze node",
    "Squeeze node with name",
)
"""Refusals that docs/limits.md and docs/engines.md name."""
_PAGE, _ENGINES = (
    (Path(__file__).parents[2] / "docs" / name).read_text("utf-8") for name in ("limits.md", "engines.md")
)


def _is_limit(message: str) -> bool:
    """Whether the documentation names what is refused."""
    unknown = (
        re.findall(r"(\w+) x\d+, first at", message) if "does not know this primitive" in message else []
    )
    named = bool(unknown) and all(re.search(rf"\b{name}\b", _PAGE) for name in unknown)
    return named or any(limit in message for limit in LIMITS)


def compile_into(cache: Path, path: Path, target: Target) -> None:
    """Keep a case in a compile cache, if it can be built."""
    with suppress(PinnaceError):
        _built(path, target, str(cache)).executable.close()


def _built(path: Path, target: Target, cache: str) -> Built:
    settings = Settings.load(options={"ms_cache": {"serialize_path": cache}})
    return build(open_model(str(path.with_name(path.name + ".mindir")), None, target, settings))


def verdict(path: Path, target: Target, cache: str = OFF) -> str:
    """What is wrong with the results of a case, in a line; with a `cache`, of what is loaded from there."""
    with np.load(path.with_name(path.name + ".npz")) as golden:
        inputs, expected = (_arrays(golden, letter) for letter in "xy")
    try:
        built = _built(path, target, cache)
        executable = built.executable
        if cache != OFF and built.facts["cache"] != "loaded":
            return f"unkept: {built.facts['cache']}"
        try:
            results = executable.execution().run([np.asarray(x, order="C") for x in inputs])
        finally:
            executable.close()
    except PinnaceError as error:
        if _is_limit(str(error)):
            return ""
        return f"refused: {' '.join(str(error).split())[:600]}"
    except Exception as error:
        return f"raised: {type(error).__name__}: {' '.join(str(error).split())[:600]}"
    moved = path.with_name(path.name + ".moved.npz")
    runs = []
    if moved.exists():
        with np.load(moved) as off:
            runs = [[off[f"run{t}_y{i}"] for i in range(len(expected))] for t in range(3)]
    wrong = difference(results, expected, runs, inputs)
    if wrong and target.provider == "openvino":
        strange = any(not np.isfinite(x).all() for x in (*inputs, *expected, *results) if x.dtype.kind == "f")
        if _meets(path, "signed zeros"):
            wrong = difference(_unsigned(results), _unsigned(expected), runs, inputs)
        if strange and _meets(path, "NaN|infinity"):
            return ""
    return wrong


def _unsigned(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Arrays of which no zero has a sign."""
    return [x + x.dtype.type(0) if x.dtype.kind == "f" else x for x in arrays]


def _meets(path: Path, numbers: str) -> bool:
    """Whether an operator of a case is one that OpenVINO computes differently for such numbers."""
    source = Source.of_file(path.with_name(path.name + ".mindir"))
    graph = compilable(read(source), source.name, str(source.folder)).model.graph
    found = {node.op_type for node in ir.traversal.RecursiveGraphIterator(graph)}
    return not found.isdisjoint(named(numbers))


def named(numbers: str) -> set[str]:
    """The words of rows of docs/engines.md on numbers that OpenVINO computes differently, operators among them."""
    rows = re.findall(rf"^\| (?:{numbers}) \|(.*)", _ENGINES, re.MULTILINE)
    return set(re.findall(r"\w+", " ".join(rows)))


def _arrays(golden: np.lib.npyio.NpzFile, letter: str) -> list[np.ndarray]:
    return [golden[f"{letter}{i}"] for i in range(sum(key.startswith(letter) for key in golden))]


def main(folder: Path, engine: str) -> None:
    warnings.simplefilter("ignore")  # that another engine runs a model is no failure
    target = Target(threads=1, provider=engine)
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)
        for line in sys.stdin:
            asked = json.loads(line)
            path, cache = folder / asked["name"], folder / "cache"
            wrong = verdict(path, target, str(cache) if asked["kept"] else OFF)
            if not asked["kept"]:
                compile_into(cache, path, target)
            print(json.dumps({"wrong": wrong}), file=out)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
