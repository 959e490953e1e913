"""`pinnace inspect`: the contents of a model file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinnace.cli.options import AsJson, ModelFile

_LONG = 200
"""Number of characters shown of a value."""
_MANY = 20
"""Number of rows shown of a list."""

if TYPE_CHECKING:
    from pinnace.building.report import ModelReport
    from pinnace.types import Port


def inspect(
    model: ModelFile,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="List the nodes, by the names that execution_plan takes.")
    ] = False,
    weights: Annotated[
        bool,
        typer.Option("--weights", help="List the weights, by the names that variable_weights_file takes."),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Do not cut long values and lists; --json never does.")
    ] = False,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what Pinnace makes of the model, for Netron.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model file holds.

    It shows dialect, inputs, outputs, weights, operators, and what is not supported; in that case the exit
    status is 1. For a picture of the graph, write it with --onnx FILE and open
    that file in Netron (https://netron.app).
    """
    from pinnace.building.opening import inspect_model
    from pinnace.cli.console import note, progress
    from pinnace.errors import UnsupportedModelError
    from pinnace.writing import check_output

    if onnx:
        check_output(onnx, [model])
    with progress(f"Reading {model.name}", model=str(model)):
        report = inspect_model(model, onnx)
    if as_json:
        print(json.dumps(_as_json(model, report, nodes, weights), indent=2))
    else:
        _show(model, report, nodes, weights, everything)
    if onnx and report.outputs:  # it could be lowered
        note(f"wrote {onnx}", "wrote", path=str(onnx))
    if report.unsupported:
        raise UnsupportedModelError(str(model), report.unsupported)


def _as_json(model: Path, report: ModelReport, nodes: bool, weights: bool) -> dict[str, Any]:
    facts = {
        "model": str(model),
        **asdict(report),
        "inputs": [_port(port) for port in report.inputs],
        "outputs": [_port(port) for port in report.outputs],
        "nodes": [{"name": name, "primitive": primitive} for name, primitive in report.nodes],
        "weights": [weight._asdict() for weight in report.weights],
        "unsupported": [primitive._asdict() for primitive in report.unsupported],
    }
    left_out = {name for name, asked in (("nodes", nodes), ("weights", weights)) if not asked}
    return {key: value for key, value in facts.items() if key not in left_out}


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "shape": list(port.shape), "names": list(port.names), "dtype": port.dtype.name}


def _show(model: Path, report: ModelReport, nodes: bool, weights: bool, everything: bool) -> None:
    from pinnace.cli.console import table

    def shown(title: str, rows: Sequence[Sequence[str]]) -> None:
        cut = [[*map(_cut, row)] for row in rows[:_MANY]]
        if len(rows) > _MANY:
            cut.append(["...", f"{len(rows) - _MANY} more; --all shows them", ""][: len(rows[0])])
        table(title, rows if everything else cut)

    megabytes = f"{report.parameter_bytes / 1e6:.1f} MB"
    facts = [
        ("dialect", report.dialect),
        ("producer", report.producer or "unknown"),
        ("parameters", f"{report.parameters} with {report.parameter_bytes} bytes ({megabytes})"),
        *report.user_info.items(),
    ]
    shown(str(model), facts)
    for title, ports in (("inputs", report.inputs), ("outputs", report.outputs)):
        shown(title, [(port.name, port.dtype.name, port.dims()) for port in ports])
    shown("operators", [(str(count), name) for name, count in report.primitives.items()])
    if nodes:
        shown("nodes", [(primitive, name) for name, primitive in report.nodes])
    if weights:
        shown("weights", [(name, dtype, str(list(shape))) for name, dtype, shape in report.weights])
    refused = [(str(p.count), p.name, f"first at {p.first_node}: {p.reason}") for p in report.unsupported]
    shown("unsupported", refused)


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}... {len(text) - _LONG} characters more"
