"""`pinnace cache`: the compile cache."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinnace.cli.options import AsJson

if TYPE_CHECKING:
    from pinnace.api.cache import Store

app = typer.Typer(no_args_is_help=True, help="Show, check or clear compiled models.")

_Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="The cache; the default is PINNACE_CACHE_DIR, or the user's cache folder.",
    ),
]


@app.command("list")
def list_entries(folder: _Folder = None, as_json: AsJson = False) -> None:
    """Show the entries and the tuned models."""
    from pinnace.api.cache import all_kept, cache_of
    from pinnace.cli.console import table

    store = cache_of(folder)
    if as_json:
        print(json.dumps(_facts(store) | {"below": [_facts(one) for one in store.below]}, indent=2))
        return
    for one in (store, *store.below):
        most = ", only read" if one.installed else f" of at most {_megabytes(one.limit)}"
        table(
            f"{one.root}, {_megabytes(one.size())}{most}",
            [
                (_megabytes(row["bytes"]), _when(row["used"]), row["engine"], row["model"])
                for row in _rows(one)
            ],
            ("size", "last used", "engine", "model"),
        )
        tuned = [(_when(t.when), str(len(t.measured)), t.model) for t in all_kept(one)]
        if tuned:
            table("tuned", tuned, ("when", "settings", "model"))


@app.command()
def verify(folder: _Folder = None, as_json: AsJson = False) -> None:
    """Check every byte and remove damaged entries.

    Folders that are only read keep theirs. The exit status is 1 if there were any.
    """
    from pinnace.api.cache import Damaged, cache_of
    from pinnace.cli.console import note, progress

    first = cache_of(folder)
    whole, damaged = 0, 0
    with progress("Reading the entries"):
        for store, key in [(one, key) for one in (first, *first.below) for key in one.entry_keys()]:
            try:
                store.verify(key)
                whole += 1
            except FileNotFoundError:
                pass  # removed by another process meanwhile
            except Damaged as damage:
                removed = not store.installed and store.remove(key)
                became = "removed" if removed else "it stays, as this cache is only read"
                note(f"{damage}; {became}", "damaged", entry=key)
                damaged += 1
    print(
        json.dumps({"whole": whole, "damaged": damaged}) if as_json else f"{whole} intact, {damaged} damaged"
    )
    if damaged:
        raise typer.Exit(1)


@app.command()
def clear(
    folder: _Folder = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove everything in the cache.

    Of several folders it is the first. In a terminal it asks first. Running models keep working.
    """
    from pinnace.api.cache import cache_of
    from pinnace.cli.console import fold
    from pinnace.errors import ConfigError

    store = cache_of(folder)
    if store.installed:
        raise ConfigError(f"{store.root} is only read, as root owns it or it cannot be written")
    if sys.stdin.isatty() and not yes:
        typer.confirm(
            f"Remove everything in {store.root} ({_megabytes(store.size())})?", abort=True, err=True
        )
    removed = store.clear()
    if as_json:
        print(json.dumps({"folder": str(store.root), **removed}))
        return
    counts = f"{removed['entries']} compiled models, {removed['models']} received models"
    counts += f", {removed['choices']} tunings, {_megabytes(removed['bytes'])}"
    print(fold(f"removed from {store.root}: {counts}"))


def _facts(store: Store) -> dict[str, Any]:
    from pinnace.api.cache import all_kept

    facts = {"folder": str(store.root), "bytes": store.size(), "limit": store.limit}
    return facts | {"entries": _rows(store), "tuned": [asdict(one) for one in all_kept(store)]}


def _rows(store: Store) -> list[dict[str, Any]]:
    from pinnace.api.cache import Damaged

    rows: list[dict[str, Any]] = []
    for key in store.entry_keys():
        try:
            entry = store.entry(key)
            what = {"engine": entry.engine, "model": entry.model}
        except (Damaged, FileNotFoundError):
            what = {"engine": "damaged", "model": ""}
        rows.append({"key": key, "bytes": store.size(key), "used": store.used(key), **what})
    return rows


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "not known"
