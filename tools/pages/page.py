"""Pages of the manual that a program writes."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def write_or_check(page: Path, text: str) -> int:
    """Write a page; with `--check` on the command line compare it, and return 1 where it differs."""
    if "--check" not in sys.argv[1:]:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(
        f"{page.relative_to(ROOT)} is not current: run python {Path(sys.argv[0]).resolve().relative_to(ROOT)}"
    )
    return 1
