"""Pinnace answers calls as mindspore_lite 2.0.0 did (tools/with_mindspore_lite/make_api_goldens.py)."""

from __future__ import annotations

import ast
import builtins
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pinnace

DATA = Path(__file__).parents[1] / "data" / "api"
GOLDENS = {case["code"]: case for case in json.loads((DATA / "goldens.json").read_text())["cases"]}

# Where Pinnace does something else on purpose: the end of the case, and what it gives or raises instead.
DIFFERENT: dict[str, Any] = {
    # The library there divides by zero and takes the process with it.
    "t.shape = [0, 2]; (t.element_num, t.data_size)": [0, 0],
    "m.ModelType.MINDIR); i = x.get_inputs(); i[0].get_data_to_numpy()": RuntimeError,
    # It reads memory in an order or as a type that it does not have.
    "reshape(3, 2).T); t.get_data_to_numpy()": [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]],
    'np.ones(2, ">f4")); t.get_data_to_numpy()': [1.0, 1.0],
    "np.arange(4, dtype=np.float32)); t.shape = [2, 2]; t.get_data_to_numpy()": [[0.0, 1.0], [2.0, 3.0]],
    "t.shape = [8]; t.get_data_to_numpy().shape": [8],
    "t.dtype = m.DataType.INT32; str(t.get_data_to_numpy().dtype)": "int32",
    # It takes shapes that the model cannot have.
    "x.resize(i, [[2, 4]])": RuntimeError,
    "x.resize(i, [[2]])": RuntimeError,
    # It cannot make free again what the file leaves free.
    "DENSE, m.ModelType.MINDIR); i = x.get_inputs(); x.resize(i, [[-1, 3]])": None,
    # It says that a model which is not built has no inputs.
    "m.Model().get_inputs()": RuntimeError,
    "m.ModelParallelRunner().get_inputs()": RuntimeError,
    # It gives the layout DEFAULT here and NCHW for the same output of a runner.
    "m.Model(); x.build_from_file(ADD, m.ModelType.MINDIR); i = x.get_inputs(); [t.set_data_from_numpy("
    "np.ones((3, 4, 5), np.float32)) for t in i]; o = x.predict(i); str(o[0])": (
        "name: sum,\ndtype: DataType.FLOAT32,\nshape: [3, 4, 5],\nformat: Format.NCHW,\n"
        "element_num: 60,\ndata_size: 240."
    ),
    # It cannot predict before resize where an input has a free dimension; releases after 2.0 can.
    "DENSE, m.ModelType.MINDIR); t = m.Tensor(); t.shape = [2, 3]; t.set_data_from_numpy(np.ones(6, "
    "np.float32)); o = x.predict([t]); o[0].get_data_to_numpy()": [[6.0, 9.0], [6.0, 9.0]],
    # Releases after 2.0 take tuples too, and outputs.
    "m.Model().predict((m.Tensor(),))": RuntimeError,
    "x.resize(i, [(2, 3)])": None,
    "x.resize(i, ([2, 3],))": None,
    "x.predict(i, 1)": "outputs must be list, but got <class 'int'>.",
    # It takes tensors of its own library only.
    "m.Tensor(1)": "tensor must be Tensor or numpy.ndarray, but got <class 'int'>.",
    'm.Tensor("x")': "tensor must be Tensor or numpy.ndarray, but got <class 'str'>.",
    # Python's own message, which names the class in newer versions.
    "m.Model().build_from_file()": TypeError,
}
OURS = {"DataType": [["BFLOAT16", 45], ["STRING", 12]], "ModelType": [["ONNX", 3]]}


def show(value: Any) -> Any:
    """As the tool that made the goldens writes values."""
    if isinstance(value, list | tuple):
        return [show(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def run(code: str) -> Any:
    names = {"m": pinnace, "np": np, "__file__": __file__}
    names |= {"ADD": str(DATA / "add.mindir"), "DENSE": str(DATA / "dense.mindir")}
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "case", "exec"), names)
    return show(eval(compile(ast.Expression(last.value), "case", "eval"), names)) if last else None


def expected(code: str) -> Any:
    """What the case gives, or the class and the text of what it raises."""
    for end, instead in DIFFERENT.items():
        if code.endswith(end):
            return instead
    golden = GOLDENS[code]
    if "error" not in golden:
        value = golden["value"]
        members = next((name for name in OURS if f"{name}.__members__" in code), None)
        return sorted(value + OURS[members]) if members else value
    kind = getattr(builtins, golden["error"])
    # "failed" alone, or with a code, is all that their library tells; Python's own messages change
    says_nothing = golden["message"].startswith("predict failed") or "Error is" in golden["message"]
    return kind if says_nothing or kind is AttributeError else (kind, golden["message"])


@pytest.mark.parametrize("code", GOLDENS)
def test_answer(code: str) -> None:
    want = expected(code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pinnace.PinnaceWarning)
        if isinstance(want, type):
            with pytest.raises(want):
                run(code)
        elif isinstance(want, tuple):
            with pytest.raises(want[0]) as caught:
                run(code)
            assert str(caught.value).startswith(want[1])
        elif isinstance(want, str) and "must be" in want:
            with pytest.raises(TypeError) as caught:
                run(code)
            assert str(caught.value) == want
        else:
            assert run(code) == want


@pytest.mark.parametrize("end", DIFFERENT)
def test_every_difference_is_one(end: str) -> None:
    matching = [code for code in GOLDENS if code.endswith(end)]
    assert len(matching) == 1
