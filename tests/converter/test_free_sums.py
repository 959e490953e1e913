"""Einsum, EyeLike and Col2Im with free dimensions, beside the ONNX model itself, for two sizes."""

import numpy as np
import onnx
import pytest
from tests.converted import same

from pinnace.errors import UnsupportedModelError
from pinnace.types import ModelType

MODELS = {
    "scores": (
        "x, z",
        'Einsum<equation="bhid,bhjd->bhij">(x, z)',
        [(1, 2, 3, 4), (1, 2, 5, 4)],
        [(2, 2, 1, 4), (2, 2, 6, 4)],
    ),
    "values": (
        "x, z",
        'Einsum<equation="bhij,bhjd->bihd">(x, z)',
        [(1, 2, 3, 5), (1, 2, 5, 4)],
        [(2, 2, 1, 6), (2, 2, 6, 4)],
    ),
    "outer": ("x, z", 'Einsum<equation="bi,j->bij">(x, z)', [(1, 3), (5,)], [(2, 1), (4,)]),
    "diagonal": ("x", 'Einsum<equation="ii->i">(x)', [(3, 3)], [(5, 5)]),
    "eye": ("x", "EyeLike<k=1>(x)", [(3, 4)], [(5, 2)]),
    "blocks": ("x", "Col2Im(x, image, block)", [(1, 18, 9)], [(3, 18, 9)]),
}


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize("name", MODELS)
def test_free_dimensions(name, kind, tmp_path):
    names, nodes, *shapes = MODELS[name]
    ports = []
    for i, port in enumerate(names.split(", ")):
        dims = [
            f"d{i}{j}" if a != b else str(a)
            for j, (a, b) in enumerate(zip(shapes[0][i], shapes[1][i], strict=True))
        ]
        ports.append(f"float[{', '.join(dims)}] {port}")
    rank = {"scores": 4, "values": 4, "outer": 3, "diagonal": 1, "eye": 2, "blocks": 4}[name]
    result = ", ".join(f"r{i}" for i in range(rank))
    sizes = "<int64[2] image = {5, 5}, int64[2] block = {3, 3}>"
    text = f"g ({', '.join(ports)}) => (float[{result}] y) {sizes} {{ y = {nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}').SerializeToString()
    random = np.random.default_rng(0)
    requests = [[random.normal(size=shape).astype(np.float32) for shape in each] for each in shapes]
    same(model, tmp_path, *requests, kind=kind)


@pytest.mark.parametrize(("first", "second"), [("1", "m"), ("m", "1"), ("2", "3")])
def test_a_letter_of_two_sizes_is_refused(first, second, tmp_path):
    """ONNX repeats a dimension of size 1, and a free one may be larger."""
    text = f"""g (float[2, {first}] x, float[2, {second}] z) => (float[2, 2] y)
        {{ y = Einsum<equation="ij,kj->ik">(x, z) }}"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}').SerializeToString()
    with pytest.raises(UnsupportedModelError, match="one letter for dimensions of different sizes"):
        same(model, tmp_path)
