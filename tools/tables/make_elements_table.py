"""Write the operators that onnxruntime computes right without elements: src/pinnace/engines/elements.json.

Usage: python -m tools.tables.make_elements_table                     (half an hour; OpenVINO gets no such requests)
       python -m tools.tables.make_elements_table --graphs 2000       (tries models with the table, writes nothing)

Each operator is called with each input empty in each dimension, alone and with the inputs that share the
dimension, and with sizes of 0: the calls of ONNX's own tests, and random ones; and with an input that a Slice in
the model leaves empty, where kernels find no memory at all. A call is right if its result is
that of ONNX's reference, if the result lacks elements and has a shape that ONNX's inference allows, or if it is an
ordinary error, each time the same in memory full of other marks, with onnxruntime's arena and without. The table
has, for each operator, the positions of the inputs that may lack elements; -1 stands for all further ones.

--graphs tries random graphs, in which engines fuse operators, and calls: with requests without elements, which
only some models take, and with elements that are cut off inside of the model. Status 1 if one is in trouble.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import onnx
from tests.elements import calls
from tests.elements.batch import run
from tests.elements.trial import UNSAFE, Subject, emptied, requests
from tests.requests.__main__ import ALL_FRESH

from pinnace.errors import PinnaceError

_TABLE = Path(__file__).parents[2] / "src" / "pinnace" / "engines" / "elements.json"
_ENGINES = ("onnxruntime",)
_FINE = ("right", "error")
_FUSED = {
    "Conv": ("com.microsoft:FusedConv",),
    "Gemm": ("com.microsoft:FusedGemm",),
}
"""Kernels of onnxruntime that run in place of others when it has fused operators; inputs are at the same places."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--graphs", type=int, default=0, help="how many random graphs and calls to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", type=int, default=1500, help="how many random calls the table is made of")
    parser.add_argument("--verbose", action="store_true", help="print each trial that is not right")
    arguments = parser.parse_args()
    if os.environ.get("GLIBC_TUNABLES") != ALL_FRESH:
        os.environ["GLIBC_TUNABLES"] = ALL_FRESH
        os.execv(sys.executable, [sys.executable, "-m", "tools.tables.make_elements_table", *sys.argv[1:]])
    if arguments.graphs:
        return max(_try_models(engine, arguments) for engine in _ENGINES)
    tables = json.loads(_TABLE.read_text())
    for engine in _ENGINES:
        tables[engine] = _table(engine, arguments)
        lines = [
            f'"{e}": {{\n' + ",\n".join(f'"{o}": {p}' for o, p in t.items()) + "}" for e, t in tables.items()
        ]
        _TABLE.write_text("{" + ",\n".join(lines) + "}\n")
    return 0


def _table(engine: str, arguments: argparse.Namespace) -> dict[str, list[int]]:
    known = [*calls.of_others(), *calls.of_onnx()]

    def call(number: int) -> calls.Call | None:
        return known[number] if number < len(known) else calls.random(arguments.seed, number)

    def trials(number: int) -> Iterator:
        found = call(number)
        subject = None if found is None else _subject(found, engine, False)
        if subject is None:
            return
        agrees = not subject.has_reference or subject.judge(found.feed) == "right"
        (node,) = found.model.graph.node

        def label(names: Collection[str]) -> tuple[str, list[int], int, bool]:
            places = [place for place, name in enumerate(node.input) if name in names]
            return _name(node), places, len(node.input), agrees

        for names, request in requests(found.feed):
            yield label(names), lambda request=request: subject.judge(request)
        for name in [name for name, array in found.feed.items() if array.ndim]:
            cut = calls.inside(found, frozenset([(name, 0)]))
            if cut is not None and (within := _subject(cut[0], engine, False)) is not None:
                yield label([name]), lambda w=within, r=cut[1]: w.judge(r)

    tried: dict[str, list[tuple[list[int], str]]] = defaultdict(list)
    inputs: Counter[str] = Counter()
    for number, label, verdict in run(len(known) + arguments.random, trials):
        if label is None:
            continue
        name, places, count, agrees = label
        if not agrees and not verdict.startswith(UNSAFE):  # the reference computes something else anyway
            continue
        tried[name].append((places, verdict))
        inputs[name] = max(inputs[name], count)
        if arguments.verbose and verdict not in _FINE:
            print(f"{engine}: {name} {places}: {verdict} (call {number})", flush=True)
    found = {name: _right(name, inputs[name], tried[name]) for name in sorted(tried)}
    for name, kernels in _FUSED.items():
        for kernel in kernels if engine == "onnxruntime" else ():
            found[name] = [place for place in found[name] if place in found[kernel]]
    return {name: places for name, places in found.items() if places}


def _right(name: str, count: int, tried: list[tuple[list[int], str]]) -> list[int]:
    """The positions that were right alone and together."""
    right: list[int] = []
    last = _variadic(name)
    for place in range(count if last is None else last + 1):
        some = {*right, place} | ({*range(place, count)} if place == last else set())
        of_some = [verdict for places, verdict in tried if some.issuperset(places)]
        shown = any(place in places and some.issuperset(places) for places, _ in tried)
        if shown and all(verdict in _FINE for verdict in of_some):
            right = sorted(some)
    return [-1] if last == 0 and right else right


def _variadic(name: str) -> int | None:
    """The position from which inputs are alike; None if there is none."""
    domain, _, op_type = name.rpartition(":")
    if not onnx.defs.has(op_type, domain):
        return None
    inputs = onnx.defs.get_schema(op_type, domain=domain).inputs
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return len(inputs) - 1 if inputs and inputs[-1].option == variadic else None


def _name(node: onnx.NodeProto) -> str:
    return f"{node.domain}:{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _subject(call: calls.Call, engine: str, guarded: bool = True) -> Subject | None:
    try:
        return Subject(call, engine, guarded)
    except PinnaceError:
        return None


def _try_models(engine: str, arguments: argparse.Namespace) -> int:
    known, counts = [*calls.of_others(), *calls.of_onnx()], Counter()

    def call(number: int) -> calls.Call | None:
        if number % 2:
            return calls.graph(arguments.seed, number)
        return known[number // 2 % len(known)] if number % 4 else calls.random(arguments.seed, number)

    def trials(number: int) -> Iterator:
        found = call(number)
        subject = None if found is None else _subject(found, engine)
        agrees = subject is not None and subject.judge(found.feed) == "right"
        for places, (_, request) in (
            zip(emptied(found.feed), requests(found.feed), strict=False) if subject else ()
        ):
            if not subject.reason:
                yield ["outside", sorted(places), agrees], lambda request=request: subject.judge(request)
            elif np.random.default_rng([number, len(places)]).random() > 0.2:
                continue
            cut = calls.inside(found, places)
            if cut is not None and (within := _subject(cut[0], engine)) is not None:
                yield ["inside", sorted(places), agrees], lambda w=within, r=cut[1]: w.judge(r)

    troubles = 0
    for number, label, verdict in run(arguments.graphs, trials):
        kind = "right" if verdict == "right" else "error" if verdict == "error" else verdict.partition(",")[0]
        counts[f"{label and label[0]}: {kind}"] += 1
        if (kind == "wrong" and label[2]) or verdict.startswith(UNSAFE):
            troubles += 1
            kinds = "" if (c := call(number)) is None else " ".join(n.op_type for n in c.model.graph.node)
            print(f"--- {engine}: {number} {label}: {verdict}: {kinds}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:8} {engine}: {what}")
    return int(troubles > 0)


if __name__ == "__main__":
    sys.exit(main())
