"""Models in one line, for a console, and as a table, for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinnace.escaping import html_table, shown
from pinnace.types import Port


class Summary(NamedTuple):
    """A model as it is shown: its class, facts such as its file and engine, and its ports, if it is built."""

    kind: str
    facts: Sequence[str]
    inputs: Sequence[Port] = ()
    outputs: Sequence[Port] = ()

    def line(self) -> str:
        """Return "<Model net.onnx, onnxruntime: 'x' float32[1, 3] -> 'y' float32[1]>"."""
        sides = (", ".join(f"{shown(repr(port.name))} {_kind(port)}" for port in side) for side in self[2:])
        ports = f": {' -> '.join(sides)}" if self.outputs else ""
        return f"<{self.kind} {', '.join(filter(None, self.facts))}{ports}>"

    def table(self) -> str:
        """Return an HTML table of the inputs and outputs, with the facts as its caption."""
        rows = (
            (side, shown(port.name), _kind(port))
            for side, ports in (("input", self.inputs), ("output", self.outputs))
            for port in ports
        )
        return html_table(f"{self.kind} {', '.join(filter(None, self.facts))}", rows)


def _kind(port: Port) -> str:
    return f"{port.dtype.name.lower()}{port.dims()}"
