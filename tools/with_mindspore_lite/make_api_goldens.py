"""Record how mindspore_lite answers calls of its API, right and wrong ones.

Run by a Python that has mindspore_lite (2.0.0 for CPython 3.7 was used):

    python tools/with_mindspore_lite/make_api_goldens.py tests/data/api

It reads `cases.txt` there, a case a line, and writes `goldens.json` beside it. A case is a piece of code;
the value of its last expression, or its exception, is written down. `m` is the package, `np` is numpy, ADD
and DENSE are models of that folder: x + y of shape [3, 4, 5] each, and relu(x @ w) of [-1, 3]. Every case
runs in a child process, because some crash.
"""

import ast
import json
import os
import sys

from isolated import isolated


def show(value):
    """A value as JSON: plain things as they are, arrays as lists, the rest as str."""
    if isinstance(value, (list, tuple)):
        return [show(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def run(code, names):
    """Run one case and tell what came of it."""
    tree = ast.parse(code)
    last = tree.body[-1]
    try:
        if isinstance(last, ast.Expr):
            tree.body.pop()
            exec(compile(tree, "case", "exec"), names)
            return {
                "code": code,
                "value": show(eval(compile(ast.Expression(last.value), "case", "eval"), names)),
            }
        exec(compile(tree, "case", "exec"), names)
        return {"code": code, "value": None}
    except Exception as error:
        return {"code": code, "error": type(error).__name__, "message": str(error)}


def main(folder):
    import mindspore_lite as m
    import numpy as np

    names = {"m": m, "np": np, "__file__": __file__}
    names["ADD"], names["DENSE"] = (os.path.join(folder, name + ".mindir") for name in ("add", "dense"))
    with open(os.path.join(folder, "cases.txt")) as file:
        codes = [line.strip() for line in file]
    cases = []
    for code in codes:
        answer, crash = isolated(run, code, dict(names))
        cases.append(answer or {"code": code, "crash": crash})
    with open(os.path.join(folder, "goldens.json"), "w") as file:
        json.dump({"peer": "mindspore_lite " + m.__version__, "cases": cases}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
