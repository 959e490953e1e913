"""`pinnace compile`: fill the compile cache ahead of time."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from pinnace.cli.options import AsJson, ConfigFile, Precision, Provider


def compile_models(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help=".mindir, .ms or .onnx files.")],
    config: ConfigFile = None,
    provider: Provider = "automatic",
    precision: Precision = "enforce_fp32",
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Make a cache there that every user may read; services name it in PINNACE_CACHE_DIR.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fill the compile cache ahead of time.

    Builds load them from there. Use it when you make an image or deploy a service, with the same kind of
    CPU, the same PINNACE_CACHE_DIR, and the provider, precision and configuration of the service. Without a
    provider, a model is kept for the engine that suits the default threads. The exit status is 1 if a model
    is not kept.
    """
    from pinnace.api.cache import shared_folder
    from pinnace.cli.console import note, progress, table
    from pinnace.cli.opening import context_for, open_model

    context = context_for(
        0, config, provider="" if provider == "automatic" else provider, precision=precision
    )
    shared = None if to is None else shared_folder(to.absolute())
    if shared is not None:
        context.parallel.config_info = {"ms_cache": {"serialize_path": str(shared.root)}}
    rows = []
    for path in models:
        start = time.perf_counter()
        text = f"{path}: {path.stat().st_size / 1e6:.0f} MB" if path.exists() else str(path)
        note(text, "model", model=str(path))
        with progress(f"Compiling {path.name}", model=str(path)):
            model = open_model(path, context)
        facts = {key: model.get_model_info(key) for key in ("cache", "engine", "precision")}
        rows.append({"model": str(path), **facts, "seconds": round(time.perf_counter() - start, 3)})
        model.close()
    if shared is not None:
        shared.let_read()
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        head = ("cache", "engine", "precision", "seconds", "model")
        table("compile cache", [[str(row[name]) for name in head] for row in rows], head)
    if any(row["cache"] not in ("written", "loaded") for row in rows):
        raise typer.Exit(1)
