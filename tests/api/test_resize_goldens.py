"""resize beside MindSpore, which runs the network itself at other shapes, and MindSpore Lite.

Goldens are made by `tools/with_mindspore/make_ms_resize_goldens.py` and
`tools/with_mindspore_lite/make_resize_goldens.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinnace import Context, Model, ModelType
from pinnace.errors import DataMismatchError

DATA = Path(__file__).parents[1] / "data"
LITE = np.load(DATA / "resize" / "lite.npz")

FORBIDDEN = {
    ("view", 0): r"\(Reshape\): the file keeps 2 for dimension 0, as in its own input",
    ("broadcast", 0): r"\(Concat\)",
    ("broadcast", 2): r"\(Concat\)",
    ("zeros", 0): r"\(Add\): Incompatible dimensions",
    ("zeros", 1): r"\(Add\): dimensions that were both 2 are now 1 and 2, so one is broadcast",
    ("reshape_back", 0): r"\(Reshape\): the file asks for the shape \[2, 3, 4\]",
    ("reshape_back", 1): r"\(Reshape\): the file asks for the shape \[2, 3, 4\]",
}
"""What MindSpore has written into the file of its sizes; it would be another number now."""

ENDS = (".ms", "_lite.mindir")
WRONG = {
    # MindSpore Lite reads beyond the weights of a layer that is given more channels than these.
    *((f"{name}.ms", "last") for name in ("bn", "bn_stem", "conv_group", "prelu", "scale")),
    *((f"{name}_lite.mindir", "middle") for name in ("bn", "bn_stem", "prelu", "scale")),
    *((f"{name}{end}", "last") for name in ("ln", "scale3") for end in ENDS),
    # It leaves out what the parts do not hold.
    *((f"{name}{end}", "last") for name in ("split_input", "split_sizes") for end in ENDS),
}
"""What MindSpore Lite resizes and computes wrongly, and Pinnace refuses."""

OVERRUN = "resize_linear"
"""Files in which MindSpore Lite writes beyond a table for the former sizes; for most others it crashes."""


def opened(path: Path) -> Model:
    model = Model()
    kind = ModelType.MINDIR_LITE if path.suffix == ".ms" else ModelType.MINDIR
    model.build_from_file(str(path), kind, Context(thread_num=1))
    return model


@pytest.mark.parametrize("path", sorted((DATA / "resize").glob("*.mindir")), ids=lambda path: path.stem)
def test_mindspore(path: Path) -> None:
    model, golden = opened(path), np.load(path.with_suffix(".npz"))
    for i in range(len(golden.files) // 2):
        x = golden[f"x{i}"]
        message = FORBIDDEN.get((path.stem, i))
        if message:
            with pytest.raises(DataMismatchError, match=message):
                model.resize(model.get_inputs(), [list(x.shape)])
            continue
        model.resize(model.get_inputs(), [list(x.shape)])
        (result,) = model.predict([x])
        # Sums of float32 in another order.
        np.testing.assert_allclose(result.get_data_to_numpy(), golden[f"y{i}"], rtol=1e-4, atol=1e-5)


def test_what_is_written_to_a_part() -> None:
    model, x = opened(DATA / "mindspore_primitives" / "view_chunk.mindir"), np.ones((6, 4), np.float32)
    model.resize(model.get_inputs(), [[6, 4]])
    whole, part = (y.get_data_to_numpy() for y in model.predict([x]))
    # Twice x, its first half set to 0; and one more of the whole.
    np.testing.assert_array_equal(whole, [[1, 1, 3, 3]] * 6)
    np.testing.assert_array_equal(part, [[2, 2]] * 6)


def cases() -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """Arrays by file, by what is other, and by name."""
    found: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    for key in LITE.files:
        file, which, name = key.split()
        found.setdefault(file, {}).setdefault(which, {})[name] = LITE[key]
    return found


CASES = cases()


@pytest.mark.parametrize("file", [file for file in CASES if not file.startswith(OVERRUN)])
def test_mindspore_lite(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")  # small models: writing them takes longer than building
    path = DATA / "lite_layers" / file
    model, given = opened(path), np.load(path.parent / f"{path.stem.replace('_lite', '')}.npz")
    for which, known in CASES[file].items():
        inputs = model.get_inputs()
        dims = [known[f"x{i}"].tolist() for i in range(len(inputs))]
        if (file, which) in WRONG:
            with pytest.raises(DataMismatchError, match="resize failed"):
                model.resize(inputs, dims)
            continue
        model.resize(inputs, dims)
        for i, tensor in enumerate(inputs):
            tensor.set_data_from_numpy(np.resize(given[f"x{i}"], dims[i]).astype(tensor.dtype.to_numpy()))
        for i, tensor in enumerate(model.predict(inputs)):
            # MindSpore Lite approximates some functions.
            np.testing.assert_allclose(tensor.get_data_to_numpy(), known[f"y{i}"], rtol=2e-4, atol=2e-4)
