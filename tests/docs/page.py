"""Run the code blocks of a page of the manual, in order, in the working directory.

    python tests/docs/page.py PAGE

Python blocks share one namespace, and may await. A block with a title (```ini title="net.ini") is written to
the file of this name. Of a console block the lines after `$ ` are run; the others are output.
`<!-- not run: why -->` before a block leaves it out.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*) *(?:title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = re.compile(r"<!-- not run: \S.* -->\s*\Z")
LANGUAGES = {"python", "bash", "console", "text", "ini", "json", "yaml", "cpp", "cmake", "dockerfile", "toml"}
RUN = {"python", "bash", "console"}


@dataclass(frozen=True)
class Block:
    line: int  # of its first line in the page, from 1
    language: str
    title: str | None
    text: str
    runs: bool


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        before = text[: fence.start()]
        runs = fence["language"] in RUN and not NOT_RUN.search(before)
        line = before.count("\n") + 2
        yield Block(line, fence["language"], fence["title"], textwrap.dedent(fence["text"]), runs)


def commands(block: Block) -> str:
    """The script of a bash block; of a console block, the lines after `$ ` and what continues them."""
    if block.language == "bash":
        return block.text
    joined = block.text.replace("\\\n", "\\\0")
    return "".join(
        f"{line[2:]}\n".replace("\0", "\n") for line in joined.splitlines() if line.startswith("$ ")
    )


def run(page: Path) -> None:
    # The namespace is that of a module, which functions of the blocks can be pickled from.
    names: dict[str, object] = {"__name__": "__main__"}
    scripts = os.path.dirname(sys.executable)
    environment = os.environ | {"PATH": os.pathsep.join((scripts, os.environ["PATH"])), "COLUMNS": "120"}
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.runs and block.language == "python":
            source = "\n" * (block.line - 1) + block.text
            code = compile(source, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(eval(code, names))
            else:
                exec(code, names)
        elif block.runs:
            script = f"set -e\n{commands(block)}"
            if subprocess.run(["bash", "-c", script], env=environment, check=False).returncode:
                sys.exit(f"{page}:{block.line}: a command failed")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
