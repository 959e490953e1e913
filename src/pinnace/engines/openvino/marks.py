"""Marks of OpenVINO's nodes that outlast the export of a model.

Only OpenVINO's reader of its own format makes such marks; Python can pass them on.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import openvino as ov

_MODEL = """<net name="m" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1" element_type="f32"/>
<rt_info><attribute name="{}" version="0" value="{}"/></rt_info>
<output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>
<layer id="1" name="y" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>1</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"""


_Mark = tuple[str, Any]
"""Key and value of a mark."""

_OLDER: _Mark = ("precise_0", "")
"""The mark of `kept_wide` before OpenVINO 2026."""


def kept_compressed(conversion: ov.Node) -> ov.Node:
    """Mark a conversion of a constant that is left to the run. Returns it."""
    return _marked(conversion, _mark("decompression") or ("decompression_0", ""))


def kept_wide(node: ov.Node) -> ov.Node:
    """Mark a node that keeps its type where others are computed in 16 bits. Returns it."""
    return _marked(node, _mark("DisablePrecisionConversion", "dynamic:f16") or _OLDER)


def _marked(node: ov.Node, mark: _Mark) -> ov.Node:
    key, value = mark
    node.set_rt_info(value, key)
    return node


@cache
def _mark(name: str, value: str = "") -> _Mark | None:
    """Return a mark; None if OpenVINO does not know it."""
    known = ov.Core().read_model(_MODEL.format(name, value).encode()).get_parameters()[0].get_rt_info()
    key = f"{name}_0"
    return (key, known[key]) if key in known else None
