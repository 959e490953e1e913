"""Write docs/guides/twenty-things.md from tools/pages/twenty_things.toml; with --check only say whether it is current."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "twenty-things.md"
LIBRARIES = {"pinnace": "Pinnace", "onnxruntime": "onnxruntime", "openvino": "OpenVINO"}
HEAD = """\
# Twenty things that newcomers try

<!-- Written by tools/pages/make_twenty_things.py from tools/pages/twenty_things.toml; a test runs all lines. -->

The model is `model.onnx`, with the inputs `x` (float32, [batch, 3]) and `scale` (a scalar) and the output `logits`. `model`,
`session` and `compiled` are the first row's, `threads` is a `ThreadPoolExecutor`. A dash says that a library has
nothing for it. No row takes more lines, or more characters, in Pinnace than in another library: a test counts both.
"""


def things() -> list[dict[str, str]]:
    rows = tomllib.loads((ROOT / "tools" / "pages" / "twenty_things.toml").read_text(encoding="utf-8"))[
        "thing"
    ]
    return [{key: text.strip("\n") for key, text in row.items()} for row in rows]


def cell(lines: str) -> str:
    return "<br>".join(f"`{line}`" for line in lines.split("\n")) if lines else "–"


def page() -> str:
    names = ("", *LIBRARIES.values())
    rows = [
        [f"{number}. {thing['title']}", *(cell(thing[key]) for key in LIBRARIES)]
        for number, thing in enumerate(things(), 1)
    ]
    table = [names, ["---"] * len(names), *rows]
    return HEAD + "\n" + "".join(f"| {' | '.join(row)} |\n" for row in table)


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE.relative_to(ROOT)} is not current: run python tools/pages/make_twenty_things.py")
