"""Run the lines of tools/pages/twenty_things.toml for one library, in the working directory.

python tests/docs/things.py LIBRARY
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx

SOURCE = Path(__file__).parents[2] / "tools" / "pages" / "twenty_things.toml"
IMPORTED = {"pinnace": "pinnace", "onnxruntime": "ort", "openvino": "ov"}
MODEL = """<ir_version: 10, opset_import: ["": 18]>
g (float[batch, 3] x, float scale) => (float[batch, 3] logits) {
    scaled = Mul(x, scale)
    logits = Sin(scaled)
}"""
X = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
RIGHT = np.sin(2 * X)


def things() -> list[dict[str, str]]:
    rows = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["thing"]
    return [{key: text.strip("\n") for key, text in row.items()} for row in rows]


def run(lines, names):
    code = compile(lines, "<lines>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def check(lines, first, by_name, names):
    """Run lines after those that open and use a model, and compare what they have computed."""
    run(first, names)
    run(by_name, names)
    names["y"] = np.zeros_like(X)
    run(lines, names)
    y = names["y"]
    if isinstance(y, list):
        assert [name for name, _ in y] == ["x", "scale"]
    elif not isinstance(y, np.ndarray):
        assert y  # a name, a time
    else:
        if not y.any():  # the lines open a model
            run(by_name, names)
        np.testing.assert_allclose(names["y"], RIGHT, rtol=1e-6)


def main(library):
    rows = things()
    made = onnx.parser.parse_model(MODEL)
    onnx.save(made, "model.onnx")
    given = {
        "np": np,
        "json": json,
        "time": time,
        "asyncio": asyncio,
        "x": X,
        "scale": np.array(2, np.float32),
    }
    given |= {IMPORTED[library]: importlib.import_module(library), "data": made.SerializeToString()}
    with ThreadPoolExecutor(4) as threads:
        for row in filter(lambda row: row[library], rows):
            names = given | {"threads": threads, "taken": []}
            if "tensor" in row["pinnace"]:
                try:
                    torch = importlib.import_module("torch")
                except ImportError:
                    print(f"{row['title']}: there is no torch")
                    continue
                names["tensor"] = torch.from_numpy(X.copy()).requires_grad_()
            try:
                check(row[library], rows[0][library], rows[3][library], names)
            except BaseException as error:
                error.add_note(f"{row['title']}\n{row[library]}")
                raise


if __name__ == "__main__":
    main(sys.argv[1])
