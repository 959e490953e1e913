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
    from pinnace.cache.store import Store

app = typer.Typer(no_args_is_help=True, help="Show, check or clear compiled models.")

_Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="The cache; the default is PINNACE_CACHE_DIR, or the user's cache folder."),
]


@app.command("list")
def list_entries(folder: _Folder = None, as_json: AsJson = False) -> None:
    """Show the entries and the tuned models."""
    from pinnace.cache.choices import all_kept
    from pinnace.cache.entry import Damaged
    from pinnace.cli.console import table

    store = _store(folder)
    rows: list[dict[str, Any]] = []
    for key in store.entry_keys():
        try:
            entry = store.entry(key)
            what = {"engine": entry.engine, "model": entry.model}
        except (Damaged, FileNotFoundError):
            what = {"engine": "damaged", "model": ""}
        rows.append({"key": key, "bytes": store.size(key), "used": store.used(key), **what})
    tunings = list(all_kept(store))
    if as_json:
        facts = {"folder": str(store.root), "bytes": store.size(), "limit": store.limit}
        print(json.dumps(facts | {"entries": rows, "tuned": [asdict(one) for one in tunings]}, indent=2))
        return
    table(
        f"{store.root}, {_megabytes(store.size())} of at most {_megabytes(store.limit)}",
        [(_megabytes(row["bytes"]), _when(row["used"]), row["engine"], row["model"]) for row in rows],
        ("size", "last used", "engine", "model"),
    )
    if tunings:
        tuned = [(_when(one.when), str(len(one.measured)), one.model) for one in tunings]
        table("tuned", tuned, ("when", "settings", "model"))


@app.command()
def verify(folder: _Folder = None, as_json: AsJson = False) -> None:
    """Check every byte and remove damaged entries.

    The exit status is 1 if there were any.
    """
    from pinnace.cache.entry import Damaged
    from pinnace.cli.console import note

    store = _store(folder)
    whole, damaged = 0, 0
    for key in store.entry_keys():
        try:
            store.verify(key)
            whole += 1
        except FileNotFoundError:
            pass  # removed by another process meanwhile
        except Damaged as damage:
            note(f"{damage}; removed", "removed", entry=key)
            store.remove(key)
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

    In a terminal it asks first. Running models keep working.
    """
    from pinnace.cli.console import fold

    store = _store(folder)
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


def _store(folder: Path | None) -> Store:
    from pinnace.cache.store import Store
    from pinnace.errors import ConfigError
    from pinnace.options.settings import Settings

    options = None if folder is None else {"ms_cache": {"serialize_path": str(folder)}}
    try:
        store = Store.chosen(Settings.load(options=options))
    except (OSError, ValueError) as error:
        raise ConfigError(f"there is no cache: {error}") from None
    if store is None:
        raise ConfigError("there is no cache: it is switched off by PINNACE_CACHE_DIR or --folder")
    return store


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "not known"
