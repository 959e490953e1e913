"""`pinnace shard`: partition a model for several ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pinnace.cli.options import AsJson, FixedShapes, ModelFile

if TYPE_CHECKING:
    from pinnace.distributed.shard.cutting import RankShare


def shard(
    model: ModelFile,
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=2, metavar="N", help="Number of ranks.")],
    strategy: Annotated[
        Literal["tensor", "pipeline"] | None,
        typer.Option(
            help="Cut every large product, or cut the graph into stages; the default depends on the model."
        ),
    ] = None,
    shapes: FixedShapes = None,
    folder: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder for the files.", file_okay=False)
    ] = Path(),
    form: Annotated[
        Literal["mindir", "onnx"] | None,
        typer.Option("--format", help="Format of the files; mindir for a .mindir, otherwise onnx."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cut a model into one file for each rank.

    It shows what each rank holds, computes and sends, and why the model is cut this way. Run one file
    per rank: pinnace launch -n 2 main.py 'NAME_{rank}.mindir', where main.py builds a Model of the file and
    predicts, with the same inputs in all ranks.
    """
    from pinnace.deferred import import_onnx_ir

    import_onnx_ir()
    from pinnace.cli.console import progress
    from pinnace.converter.convert import save_mindir
    from pinnace.distributed.shard.cutting import save_onnx
    from pinnace.distributed.shard.cutting import shard as cut

    fixed = dict(map(_shape, shapes or []))
    is_mindir = (form or model.suffix.removeprefix(".")) == "mindir"
    with progress(f"Cutting {model.name}", model=str(model)):
        shares = cut(model, ranks, folder, strategy or "", fixed, save_mindir if is_mindir else save_onnx)
    if as_json:
        print(json.dumps([asdict(share) for share in shares], indent=2))
    else:
        _show(f"{model.name} in {ranks} ranks", shares)


def _show(title: str, shares: Sequence[RankShare]) -> None:
    from pinnace.cli.console import fold, table

    head = ("rank", "file", "weights MB", "of whole", "operations 10^9", "collectives", "sent MB")
    rows = [
        (
            str(rank),
            share.file,
            f"{share.weights / 1e6:.1f}",
            f"{share.weights / max(1, share.whole):.2f}",
            f"{share.operations / 1e9:.2f}",
            str(share.collectives),
            f"{share.sent / 1e6:.2f}",
        )
        for rank, share in enumerate(shares)
    ]
    table(title, rows, head)
    for line in shares[0].why:
        print(fold(line))


def _shape(text: str) -> tuple[str, list[int]]:
    name, found, dims = text.partition("=")
    if not found or not all(part.strip().isdecimal() for part in dims.split(",")):
        raise typer.BadParameter(f"{text!r} is not NAME=1,128", param_hint="--shape")
    return name, [int(part) for part in dims.split(",")]
