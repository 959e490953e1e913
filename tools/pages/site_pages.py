"""Pages of the manual that are made when MkDocs builds it: the files of the root, and the command line's help.

A hook of MkDocs (mkdocs.yml).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pinnace.cli import app

ROOT = Path(__file__).parents[2]
FILES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}
# Links between pages, as they are on a code host: [text](docs/page.md#part), [text](../README.md).
LINK = re.compile(r"\[([^]]*)\]\((?!https?:|#)([^)#]*)(#[^)]*)?\)")
COMMANDS = """\
# Command line

`pinnace COMMAND --help` prints the same in a terminal. Results go to stdout, everything else to stderr. A command that
fails prints one message and exits with 1; wrong usage exits with 2.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for name, source in FILES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    text = "\n".join((COMMANDS, *commands(typer.main.get_command(app), "pinnace")))
    files.append(File.generated(config, "reference/commands.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages of the site; a link to a file that is no page becomes its name."""
    folder = Path(FILES.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent
    pages = {(ROOT / source).resolve(): name for name, source in FILES.items()}

    def point(link: re.Match[str]) -> str:
        text, target, part = link[1], link[2], link[3] or ""
        path = (ROOT / folder / target).resolve()
        name = pages.get(path)
        if name is None and path.is_relative_to(ROOT / "docs"):
            name = path.relative_to(ROOT / "docs").as_posix()
        if name is None:
            return f"`{text}`" if path.exists() and "`" not in text else text if path.exists() else link[0]
        up = "../" * (len(Path(page.file.src_uri).parts) - 1)
        return f"[{text}]({up}{name}{part})"

    return LINK.sub(point, markdown)


def commands(command: typer.core.TyperCommand, name: str) -> Iterator[str]:
    """Sections of a command and of those beneath it, from their help."""
    context = typer.Context(command, info_name=name)
    usage = " ".join((name, *command.collect_usage_pieces(context)))
    yield f"## `{name}`\n\n{command.get_short_help_str(1000) if not command.help else command.help}\n"
    yield f"```text\n{usage}\n```\n"
    rows = [record for p in command.get_params(context) if (record := p.get_help_record(context))]
    if rows:
        yield "| argument or option | what it does |\n| --- | --- |"
        yield from (f"| <code>{cell(left)}</code> | {cell(right)} |" for left, right in rows)
        yield ""
    for child in getattr(command, "commands", {}).values():
        if not child.hidden:
            yield from commands(child, f"{name} {child.name}")


def cell(text: str) -> str:
    """Text of one cell of a table."""
    return html.escape(re.sub(r"\s+", " ", text).strip()).replace("|", "&#124;")
