"""`pinnace cache`: the compile cache."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pinnace.cache.store import Store

app = typer.Typer(no_args_is_help=True, help="Show, check or clear the models that are kept compiled.")

_Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="The cache; PINNACE_CACHE_DIR, or the user's own, where it is not given."),
]


@app.command("list")
def list_entries(folder: _Folder = None) -> None:
    """Show the entries: model, size, last use, engine; and the tuned models."""
    from pinnace.cache.choices import all_kept
    from pinnace.cache.entry import Damaged
    from pinnace.cli.console import table

    store = _store(folder)
    rows = []
    for key in store.entry_keys():
        try:
            entry = store.entry(key)
            what = (entry.model, entry.engine)
        except (Damaged, FileNotFoundError):
            what = ("damaged", "")
        rows.append((key[:12], _megabytes(store.size(key)), _when(store.used(key)), *what))
    table(f"{store.root}, {_megabytes(store.size())} of at most {_megabytes(store.limit)}", rows)
    if tuned := [(_when(one.when), one.model, f"{one.measured[0]} ...") for one in all_kept(store)]:
        table("tuned", tuned)


@app.command()
def verify(folder: _Folder = None) -> None:
    """Read every byte of the cache, remove damaged entries, and exit with 1 if there were any."""
    from pinnace.cache.entry import Damaged

    store = _store(folder)
    whole, damaged = 0, 0
    for key in store.entry_keys():
        try:
            store.verify(key)
            whole += 1
        except FileNotFoundError:
            pass  # removed by another process meanwhile
        except Damaged as damage:
            print(f"{damage}; removed", file=sys.stderr)
            store.remove(key)
            damaged += 1
    print(f"{whole} whole, {damaged} damaged")
    if damaged:
        raise typer.Exit(1)


@app.command()
def clear(
    folder: _Folder = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove everything in the cache; in a terminal, after asking. Running models keep working."""
    store = _store(folder)
    if sys.stdin.isatty() and not yes:
        typer.confirm(f"Remove what is kept in {store.root}, {_megabytes(store.size())}?", abort=True)
    removed = store.clear()
    print(
        f"removed from {store.root}: {removed['entries']} compiled models, {removed['models']} models from "
        f"elsewhere, {removed['choices']} tunings, {_megabytes(removed['bytes'])}"
    )


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
