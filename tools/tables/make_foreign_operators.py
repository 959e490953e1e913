"""Writes the list of operators outside of ONNX's own domain that a file may name.

    python -m tools.tables.make_foreign_operators [--models 9] [--requests 200] [--check]

Each call of `tests/requests/calls.py` becomes models: with constants as files have them, with all inputs free, with
a constant or an attribute changed. Each model gets wrong requests, as `python -m tests.requests` sends them, behind
the guards of Pinnace. An operator is listed where every answer was its own; --check fails where one listed is not,
and --only NAMES tries some operators. Prints what went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as state
from tests.requests import batch
from tests.requests.__main__ import ALL_FRESH
from tests.requests.calls import CALLS, Call, subject_of
from tests.requests.trial import Progress, Tally, tried

from pinnace.engines.onnxruntime import kernels

_TABLE = Path(kernels.__file__).with_name("foreign.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=9, help="how many models of each call")
    parser.add_argument("--requests", type=int, default=200, help="how many requests each model gets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of operators, with commas between")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where one listed is wrong")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else ()
    calls = [c for c in CALLS if c.domain and (not only or c.op_type in only)]
    with patch.object(kernels, "refusal", lambda node: ""):
        wrong = _wrong(calls, arguments.models, arguments.requests, arguments.seed)
    listed = json.loads(_TABLE.read_text()) if _TABLE.exists() else {}
    if arguments.check:
        return any(op_type in listed[domain] for domain, op_type in wrong)
    found = {(c.domain, c.op_type) for c in calls} - wrong
    kept = {(d, n): row for d, rows in listed.items() for n, row in rows.items() if (d, n) not in wrong}
    _write(kept | {key: _row(*key) for key in found})
    return 0


def _wrong(calls: list[Call], models: int, requests: int, seed: int) -> set[tuple[str, str]]:
    """Try calls; returns the operators that gave foreign numbers, or ended the process."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    answered: Counter[tuple[str, str]] = Counter()

    def trial(number: int, progress: Progress) -> Tally:
        call, which = calls[number // models], [seed, number]
        subject = subject_of(call, np.random.default_rng(which), number % models)
        return tried(subject, "onnxruntime", requests, which, progress, empty=False)

    for number, tally in batch.run(range(len(calls) * models), trial):
        call = calls[number // models]
        key = call.domain, call.op_type
        found[key] += [f"{number}: {text}" for text in tally.findings]
        answered[key] += tally.answered
        if number % models == 0 and not tally.answered:
            found[key].append(f"{number}: no answer: {call.name}: {tally.engine}")
    for key, texts in found.items():
        print(f"{' '.join(key)}: {answered[key]} answered, {len(texts)} in trouble", flush=True)
        for text in texts[:4]:
            print(f"    {' '.join(text.split())[:600]}", flush=True)
    return {key for key, texts in found.items() if texts}


def _row(domain: str, op_type: str) -> dict[str, object]:
    """Inputs and attributes that calls have, and the defaults of those that they lack."""
    calls = [c for c in CALLS if (c.domain, c.op_type) == (domain, op_type)]
    every = [s for s in state.get_all_operator_schema() if (s.domain, s.name) == (domain, op_type)]
    schema = max(every, key=lambda s: s.since_version)
    attributes = sorted({name for call in calls for name in call.attributes})
    variadic = any(i.option == state.schemadef.OpSchema.FormalParameterOption.Variadic for i in schema.inputs)
    places = {p for c in calls for p, text in enumerate(c.inputs.split()) if text != "-"}
    defaults = {n: _default(a) for n, a in schema.attributes.items() if n not in attributes}
    return {
        "inputs": None if variadic else sorted(places),
        "attributes": attributes,
        "defaults": {n: value for n, value in sorted(defaults.items()) if value is not None},
    }


def _default(attribute: object) -> object:
    proto = onnx.AttributeProto.FromString(attribute._default_value)
    value = helper.get_attribute_value(proto) if proto.type in (2, 3, 7) else None
    return value.decode() if isinstance(value, bytes) else value


def _write(rows: dict[tuple[str, str], dict[str, object]]) -> None:
    """Write the table, an operator a line."""
    domains = []
    for domain in sorted({d for d, _ in rows}):
        lines = [f"    {json.dumps(n)}: {json.dumps(rows[d, n])}" for d, n in sorted(rows) if d == domain]
        domains.append(f"  {json.dumps(domain)}: {{\n" + ",\n".join(lines) + "\n  }")
    _TABLE.write_text("{\n" + ",\n".join(domains) + "\n}\n")


if __name__ == "__main__":
    if os.environ.get("GLIBC_TUNABLES") != ALL_FRESH:
        os.environ["GLIBC_TUNABLES"] = ALL_FRESH
        os.execv(sys.executable, [sys.executable, "-m", "tools.tables.make_foreign_operators", *sys.argv[1:]])
    sys.exit(main())
