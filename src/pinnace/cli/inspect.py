"""`pinnace inspect`: the contents of a model file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinnace.cli.options import AsJson, ModelFile

if TYPE_CHECKING:
    from pinnace.building.report import ModelReport
    from pinnace.types import Port


def inspect(
    model: ModelFile,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="List the nodes, by the names that [execution_plan] takes.")
    ] = False,
    onnx: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what Pinnace makes of the model, for viewers like Netron."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a model's dialect, inputs, outputs, weights and primitives, and what is not supported.

    If something is not supported, the command ends with that error and exit status 1.
    """
    from pinnace.building.opening import inspect_model
    from pinnace.cli.console import progress
    from pinnace.errors import UnsupportedModelError

    with progress(f"Reading {model.name}"):
        report = inspect_model(model, onnx)
    if as_json:
        print(json.dumps(_as_json(model, report, nodes), indent=2))
    else:
        _show(model, report, nodes)
    if report.unsupported:
        raise UnsupportedModelError(str(model), report.unsupported)


def _as_json(model: Path, report: ModelReport, nodes: bool) -> dict[str, Any]:
    said = {
        "model": str(model),
        **asdict(report),
        "inputs": [_port(port) for port in report.inputs],
        "outputs": [_port(port) for port in report.outputs],
        "nodes": [{"name": name, "primitive": primitive} for name, primitive in report.nodes],
    }
    return said if nodes else {key: value for key, value in said.items() if key != "nodes"}


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "shape": list(port.shape), "names": list(port.names), "dtype": port.dtype.name}


def _show(model: Path, report: ModelReport, nodes: bool) -> None:
    from pinnace.cli.console import table

    megabytes = f"{report.parameter_bytes / 1e6:.1f} MB"
    facts = [
        ("dialect", report.dialect),
        ("producer", report.producer or "not said"),
        ("parameters", f"{report.parameters} with {report.parameter_bytes} bytes ({megabytes})"),
        *report.user_info.items(),
    ]
    table(str(model), facts)
    for title, ports in (("inputs", report.inputs), ("outputs", report.outputs)):
        table(title, [(port.name, port.dtype.name, port.dims()) for port in ports])
    table("primitives", [(f"{count:5}", name) for name, count in report.primitives.items()])
    if nodes:
        table("nodes", [(primitive, name) for name, primitive in report.nodes])
    refused = [(f"{p.count:5}", p.name, f"first at {p.first_node}: {p.reason}") for p in report.unsupported]
    table("unsupported", refused)
