"""Write docs/configuration.md: every option, from the table that decides what options do.

    python tools/pages/make_configuration_table.py [--check]

`--check` writes nothing and exits with 1 where the file is not what it should be.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from page import ROOT, write_or_check

from pinnace.options.table import CONTEXT, PLACES, SECTIONS, Option

PAGE = ROOT / "docs" / "configuration.md"

HEAD = """\
# Configuration

This page lists every attribute of `Context` and every key of a configuration. `python tools/pages/make_configuration_table.py` makes it from
`src/pinnace/options/table.py`, the table that the code uses.

A configuration is an .ini file (`config_path`), a dict of sections (`config_dict` of `Model` and `DataParallel`, `config` of
`LiteInfer`, `context.parallel.config_info` of `ModelParallelRunner`), or both. The dict takes precedence over the file, and `Context`
over both. Names of sections and keys are case-insensitive. Values are checked. An unknown name gets a warning with the nearest known one.
**One warning of the build names all options that were set and have no effect on the target, with the reason.**

In the tables, `✓` is an effect and `–` is none; options of one kind of device have none on another. CUDA and TensorRT are providers of a
GPU; simulated devices are those of `PINNACE_SIMULATE` ([Devices](devices.md)).

"""
COLUMNS = "CPU", "CUDA", "TensorRT", "Ascend", "simulated GPU", "simulated Ascend"


def render() -> str:
    """The page."""
    parts = [HEAD, "## Attributes of `Context`\n\n", *table({f"`{name}`": o for name, o in CONTEXT.items()})]
    for name, section in SECTIONS.items():
        rows = {f"`{key}`": option for key, option in section.keys.items()}
        if section.others is not None:
            others = "any other" if rows else "any"
            rows["the name of a node" if name == "execution_plan" else others] = section.others
        parts += [f"\n## [{name}]\n\n", *table(rows)]
    return "".join(parts)


def table(rows: Mapping[str, Option]) -> list[str]:
    """The lines of a table."""
    titles = ("option", "what it does", "values", *COLUMNS, "why not elsewhere")
    return [
        f"| {' | '.join(cells)} |\n"
        for cells in (titles, ["---"] * len(titles), *map(row, *zip(*rows.items(), strict=True)))
    ]


def row(name: str, option: Option) -> list[str]:
    """The cells of an option."""
    marks = ["✓" if place in option.on else "–" for place in PLACES]
    does = option.does + (f"; for {' and '.join(option.needs)} only" if option.needs else "")
    values = "" if option.values is None else str(option.values)
    return [name, does, values, *marks, option.why]


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render()))
