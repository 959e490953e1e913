"""Files of `.ms` that real MindSpore Lite runs rightly, made again.

`tools/with_mindspore_lite/make_converted_goldens.py` made the first ones.
"""

from pathlib import Path

import numpy as np
import pytest

from pinnace.converter.convert import Conversion, convert
from pinnace.formats.ms import reader
from pinnace.types import ModelType
from pinnace.weights.source import Source

FOLDER = Path(__file__).parent.parent / "data" / "converted"
CASES = sorted(path.stem for path in FOLDER.glob("*.ms"))


def form(path):
    """The content of a file: nodes of functions, which name each other by their places, and constants."""
    program = reader.read(Source.of_file(path))
    return [form_of(function, dict.fromkeys(program.functions)) for function in program.functions.values()]


def form_of(function, known):
    known |= {name: t.tobytes() for name, t in {**function.parameters, **function.constants}.items()}
    known |= {port.name: i for i, port in enumerate(function.inputs)}
    for place, node in enumerate(function.nodes):
        known |= {name: (f"node {place}", i) for i, name in enumerate(node.outputs)}
    nodes = [
        (n.primitive, [known[i] for i in n.inputs], dict(n.attributes), [t and t.dtype for t in n.types])
        for n in function.nodes
    ]
    return nodes, [known[name] for name in function.outputs]


@pytest.mark.parametrize("name", CASES)
def test_a_model_becomes_the_file_that_mindspore_lite_runs(name, tmp_path):
    options = Conversion(save_type=ModelType.MINDIR_LITE)
    (path,) = convert(Source.of_file(FOLDER / f"{name}.onnx"), None, tmp_path / name, options).files
    # Made again where rules changed: MindSpore Lite must run what they write now.
    assert form(path) == form(FOLDER / f"{name}.ms")


@pytest.mark.parametrize("name", CASES)
def test_pinnace_computes_what_mindspore_lite_does(run_model, name):
    golden = np.load(FOLDER / f"{name}.npz")
    inputs = [golden[k] for k in golden.files if k[0] == "x"]
    expected = [golden[k] for k in golden.files if k[0] == "y"]
    given = run_model(FOLDER / f"{name}.ms", inputs)
    for x, y in zip(given, expected, strict=True):
        # MindSpore Lite's exponential is an approximation.
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5, strict=True)
