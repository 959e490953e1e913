"""The form in which a model runs with fewer bits, as text that a tuning keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

METHODS = {
    "bits16": "16 bits",
    "weights16": "weights of 16 bits",
    "weights8": "weights of 8 bits",
    "held8": "weights of 8 bits",
    "weights4": "weights of 4 bits",
    "dynamic8": "8 bits, dynamic",
    "int8": "8 bits, calibrated",
}
"""The methods, and what users read: "weights8" is for onnxruntime, "held8" for OpenVINO."""

_NO_RANGES: Mapping[str, tuple[float, float]] = {}


@dataclass(frozen=True)
class QuantizationScheme:
    """A method, the names of the operators that it leaves alone, and the ranges of activations for "int8".

    `share` is the part of the operators that the method changes, 0..1. `rest` is the method for the others,
    "" for none.
    """

    method: str
    kept: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=lambda: _NO_RANGES)
    share: float = 1.0
    rest: str = ""

    @classmethod
    def of(cls, text: str) -> QuantizationScheme:
        """Read what `text` wrote."""
        record = json.loads(text)
        ranges = {name: (low, high) for name, (low, high) in record["ranges"].items()}
        return cls(**{**record, "kept": tuple(record["kept"]), "ranges": ranges})

    @property
    def text(self) -> str:
        """All of it in one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def __str__(self) -> str:
        part = "" if self.share == 1 else f", {self.share:.0%} of the operators"
        rest = f", else {METHODS[self.rest]}" if self.rest else ""
        return METHODS[self.method] + part + rest
