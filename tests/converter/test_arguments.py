"""Arguments that ONNX files leave out or seldom give mean in converted files what they mean to onnxruntime.

Each line of `arguments.txt` is a model (`tests/written.py`) after its operator set and the kinds of file that
have a form for it: both, neither, or one. Where few primitives compute it, they follow, of MindSpore and
MindSpore Lite: what their rule does not write is taken apart, and slower.
"""

from pathlib import Path

import numpy as np
import pytest
from tests.converted import KINDS, run
from tests.written import expected, given, model

from pinnace.converter.convert import Conversion, convert
from pinnace.errors import UnsupportedModelError
from pinnace.formats import read
from pinnace.weights.source import Source

LINES = (Path(__file__).parent.parent / "data" / "converted" / "arguments.txt").read_text().splitlines()
_OF_RESULTS = ("MakeTuple", "TupleGetItem")


def _last(line):
    """The last node of a line, with its attributes."""
    return line.partition(" => ")[0].rpartition("= ")[2].partition("(")[0]


@pytest.mark.filterwarnings("ignore")  # of types that the engine has no kernels for
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", LINES, ids=_last)
def test_a_seldom_argument_means_the_same(line, kind, tmp_path):
    text, _, primitives = line.partition(" => ")
    opset, kinds, nodes = text.split(" ", 2)
    original = model(nodes, int(opset))
    source, options = Source.of_buffer(original.SerializeToString()), Conversion(save_type=KINDS[kind])
    if kinds not in ("both", kind):
        with pytest.raises(UnsupportedModelError):
            convert(source, None, tmp_path / "made", options)
        return
    made = convert(source, None, tmp_path / "made", options).files[0]
    if primitives:
        wrote = [node.primitive for node in read(Source.of_file(made)).main.nodes]
        few = primitives.split(" | ")[list(KINDS).index(kind)].split()
        assert [name for name in wrote if name not in _OF_RESULTS] == few
    wanted = expected(original)
    results = run(made, *given(original).values())
    assert [(y.dtype, y.shape) for y in results] == [(y.dtype, y.shape) for y in wanted]
    for y, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)  # the two sum up in orders of their own
