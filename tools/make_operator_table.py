"""Write docs/operators.md: every primitive that Pinnace runs, from the table itself and the goldens.

    python tools/make_operator_table.py [--check]

`--check` writes nothing and exits with 1 where the file is not what it should be.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pinnace.ops  # noqa: F401  (fills the table)
from pinnace import formats
from pinnace.ops.table import Primitive, rows
from pinnace.program import Dialect, Program
from pinnace.weights.source import Source

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "operators.md"
GOLDENS = ROOT / "tests" / "data"

HEAD = """\
# Primitives

Every primitive that Pinnace runs, in the dialects of MindSpore and of MindSpore Lite's converter. This page
is made from the primitive table itself by `python tools/make_operator_table.py`; CI checks that it is current.

* **lowered to**: the ONNX that it becomes; "nothing" is decided while lowering.
* **types**: element types of its results in the goldens.
* **golden**: one of the models under `tests/data`, written and run by MindSpore or MindSpore Lite, that use it; "by
  formula" where MindSpore Lite's runtime cannot run it, and what is expected is computed from what is documented.

{count} primitives in {rows} rows, {proven} of the rows with a golden.

| primitive | dialect | family | lowered to | types | golden |
| --- | --- | --- | --- | --- | --- |
"""


@dataclass
class Evidence:
    """What the goldens show of one row of the table."""

    types: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


def main(arguments: list[str]) -> int:
    page = render()
    if "--check" not in arguments:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is not current: run python tools/make_operator_table.py")
    return 1


def render() -> str:
    """The page."""
    table = list(rows())
    found = evidence()
    lines = [line(row, found[row.dialect, row.name]) for row in table]
    proven = sum(bool(found[row.dialect, row.name].files) for row in table)
    return HEAD.format(count=len({r.name for r in table}), rows=len(table), proven=proven) + "".join(lines)


def line(row: Primitive, seen: Evidence) -> str:
    dialect = row.dialect.value if row.dialect else "both"
    golden = min(seen.files, key=lambda name: ("(" in name, len(name), name), default="")
    types = ", ".join(sorted(seen.types))
    return f"| {row.name} | {dialect} | {row.family} | {row.lowered_to} | {types} | {golden} |\n"


def evidence() -> dict[tuple[Dialect | None, str], Evidence]:
    """What the goldens show, by dialect and name of the row that serves them."""
    known = {(row.dialect, row.name) for row in rows()}
    found: dict[tuple[Dialect | None, str], Evidence] = defaultdict(Evidence)
    formulas = by_formula()
    for path, program in programs():
        for function in program.functions.values():
            for node in function.nodes:
                own = (program.dialect, node.primitive)
                seen = found[own if own in known else (None, node.primitive)]
                seen.files.add(path.name + (" (by formula)" if path in formulas else ""))
                seen.types |= {t.dtype.name.lower() for t in node.types if t is not None}
    return found


def by_formula() -> set[Path]:
    """The goldens whose outputs are computed here; the README beside them lists them."""
    folder = GOLDENS / "ms_primitives"
    named = re.findall(r"`(\w+)`", (folder / "README.md").read_text(encoding="utf-8"))
    return {folder / f"{name}.ms" for name in named}


def programs() -> Iterator[tuple[Path, Program]]:
    """The goldens that are MindSpore programs."""
    for path in sorted([*GOLDENS.rglob("*.mindir"), *GOLDENS.rglob("*.ms")]):
        graph = formats.read(Source.of_file(path))
        if isinstance(graph, Program):
            yield path, graph


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
