"""Write `.ms` files with what releases of MindSpore Lite after 2.7 added to the schema.

    python tools/with_mindspore_lite/make_newer_ms.py tests/data/newer        # needs flatbuffers, numpy and pinnace's schema

Only release 2.0.0 can be installed, so these are written field by field. NAME.npz has inputs x0.. and the outputs y0..
that numpy computes from the documented formula. The two files under `later` stand for releases to come: a primitive
and a field that the schema of 2.11 does not have.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np

made = runpy.run_path(str(Path(__file__).with_name("make_ms_primitives.py")))
case, nodes_case, cases = made["case"], made["nodes_case"], made["CASES"]
cases.clear()
SCHEMA = made["ms_file"].__globals__["SCHEMA"]
CELU, HSIGMOID, FLOAT32 = 27, 13, 43
X = np.linspace(-6, 6, 24, dtype=np.float32).reshape(2, 3, 4)

case(
    "celu",
    "Activation",
    {"activation_type": CELU, "alpha": 0.5},
    X,
    expect=lambda x: np.maximum(x, 0) + np.minimum(0, 0.5 * np.expm1(x / 0.5)),
)
case(
    "hard_sigmoid",
    "Activation",
    {"activation_type": HSIGMOID, "alpha": 0.2, "beta": 0.4},
    X,
    expect=lambda x: np.clip(0.2 * x + 0.4, 0, 1),
)
case(
    "arg_min",
    "ArgMinFusion",
    {"axis": 1, "keep_dims": True},
    X,
    out="i",
    expect=lambda x: x.argmin(1)[:, None],
)
nodes_case(
    "constant_of_shape",
    [
        (
            "ConstantOfShape",
            {"data_type": FLOAT32, "value": [2.5], "element_size": 12, "shape": [3, 4]},
            [],
            ["c"],
        ),
        ("AddFusion", {}, ["x0", "c"], ["y0"]),
    ],
    {"x0": X},
    {"c": "f", "y0": "f"},
    expect=lambda x: x + np.float32(2.5),
)


def later_field() -> bytes:
    """A file whose AddFusion has a field after those of the schema."""
    declared = SCHEMA.tables["AddFusion"]
    field = declared["activation_type"]
    declared["later"] = type(field)("later", field.type, 1, field.size, field.form, 0, False, False)
    SCHEMA.slots["AddFusion"] = 2
    nodes_case("later", [("AddFusion", {"later": 3}, ["x0", "x1"], ["y0"])], {"x0": X, "x1": X}, {"y0": "f"})
    return made["file_of"](cases.pop("later"))


def later_primitive() -> bytes:
    """A file with a primitive after those of the schema."""
    SCHEMA.unions["PrimitiveType"][1 + max(SCHEMA.unions["PrimitiveType"])] = "Later"
    SCHEMA.tables["Later"], SCHEMA.slots["Later"] = {}, 0
    case("later", "Later", {}, X)
    return made["file_of"](cases.pop("later"))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, one in cases.items():
        (folder / f"{name}.ms").write_bytes(made["file_of"](one))
        np.savez(folder / f"{name}.npz", **made["values"](one))
    (folder / "later").mkdir(exist_ok=True)
    (folder / "later/later_field.ms").write_bytes(later_field())
    (folder / "later/later_primitive.ms").write_bytes(later_primitive())
