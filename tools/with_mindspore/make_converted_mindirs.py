"""Keep models that Pinnace converts to `.mindir` and MindSpore runs to what onnxruntime computes.

    python -m tools.with_mindspore.make_converted_mindirs MINDSPORE tests/data/converted     # MINDSPORE: python with mindspore

For each NAME.onnx there (`make_converted_goldens.py`) it writes NAME.mindir, unless MindSpore refuses it or
differs; then it says so.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from tools.conformance.converter_table import Server
from tools.conformance.onnx_backend import by_onnxruntime

from pinnace.converter.convert import Conversion, convert
from pinnace.weights.source import Source

TOLERANCE = 1e-5
"""Sums in another order."""


def main(interpreter: str, out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(interpreter, "run_in_mindspore.py", Path(folder))
        for path in sorted(out.glob("*.onnx")):
            golden = np.load(path.with_suffix(".npz"))
            inputs = [golden[name] for name in golden.files if name[0] == "x"]
            expected = by_onnxruntime(path.read_bytes(), inputs)
            made = path.with_suffix(".mindir")
            try:
                convert(Source.of_file(path), None, made, Conversion())
                for x, y in zip(server(made, inputs), expected, strict=True):
                    np.testing.assert_allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE, strict=True)
            except Exception as error:
                made.unlink(missing_ok=True)
                print(f"{path.stem}: {' '.join(str(error).split())[:200]}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
