"""Keep models that Pinnace converts to `.mindir` and MindSpore runs to what onnxruntime computes.

    python tools/make_converted_mindirs.py MINDSPORE tests/data/converted     # MINDSPORE: python with mindspore

For each NAME.onnx there (`make_converted_goldens.py`), and for those of `OWN`, it writes NAME.mindir, unless
MindSpore refuses it or differs; then it says so.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from converter_table import Server
from onnx_backend import by_onnxruntime

from pinnace.converter.convert import Conversion, convert
from pinnace.weights.source import Source

GROWING = """<ir_version: 10, opset_import: ["" : 21]>
g (float[3] x, int64 n) => (float[u] y) <float[3] w = {1, 2, 0.5}> {
    all = Loop (n, , x) <
        body = round (int64 i, bool go, float[k] a) => (bool on, float[m] b) {
            on = Identity (go)
            c = Mul (a, a)
            b = Concat <axis = 0> (c, w)
        }
    >
    y = Neg (all)
}
"""
VOLUME = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1, 1, 4, 4, 4] x, float[2, 1, 3, 3, 3] w) => (float[1, 2, 4, 4, 4] y) <float[2] b = {1, -2}> {
    c = Conv <pads = [1, 1, 1, 1, 1, 1]> (x, w, b)
    y = Relu (c)
}
"""
SOME = np.random.default_rng(0).normal(size=118).astype(np.float32)
OWN = {
    "growing": (GROWING, [np.array([0.5, 1, 2], np.float32), np.array(3)]),
    "volume": (VOLUME, [SOME[:64].reshape(1, 1, 4, 4, 4), SOME[64:].reshape(2, 1, 3, 3, 3)]),
}
TOLERANCE = 1e-5
"""Sums in another order."""


def write_own(out: Path) -> None:
    for name, (text, inputs) in OWN.items():
        model = onnx.parser.parse_model(text)
        (y,) = by_onnxruntime(model.SerializeToString(), inputs)
        onnx.save(model, out / f"{name}.onnx")
        np.savez_compressed(out / f"{name}.npz", **{f"x{i}": x for i, x in enumerate(inputs)}, y0=y)


def main(interpreter: str, out: Path) -> None:
    write_own(out)
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
