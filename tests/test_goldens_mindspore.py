"""Every network that MindSpore exported gives what MindSpore computes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).parent / "data"
FOLDERS = ("mindspore_ops", "mindspore_primitives", "mindspore_random")
CASES = [path for folder in FOLDERS for path in sorted(DATA.glob(f"{folder}/*.mindir"))]

TOLERANCE = {
    # One step of float32 is 1.2e-7; both sides sum up to some hundred products, each in an order of its own,
    # and their approximations of transcendental functions differ by a few steps.
    np.dtype(np.float32): (2e-5, 2e-6),
    # One step of float16 is 1e-3; onnxruntime computes in float32 and rounds once, MindSpore often.
    np.dtype(np.float16): (2e-3, 1e-3),
    # Where onnxruntime has no kernel for float64, the result has float32's precision.
    np.dtype(np.float64): (2e-5, 2e-6),
}
LOOSER = {
    # Computed in float64 these differ as much from MindSpore's results.
    "nn_rnn_bi": (1e-4, 2e-5),
    "dynamic_gru_rzh": (1e-4, 2e-5),
    # MindSpore's own Tanh is off by so much near 1.
    "activation_tanh": (5e-5, 2e-6),
    # One step of bfloat16 is 8e-3, and the two sides round at different places.
    "brain_layer_norm": (8e-3, 2e-6),
    "brain_silu": (8e-3, 2e-6),
    # Computed in float16, given as float32.
    "ctl_fp16_dense": (2e-3, 1e-3),
    # Its weights are float16, and MindSpore computes with them so.
    "loss_bce_with_logits_mixed": (2e-3, 1e-3),
}


def test_all_files_are_there():
    assert len(CASES) > 1900
    assert all(path.with_suffix(".npz").exists() for path in CASES)


OWN_WAY = ("random_clamp_of_nan", "random_maximum_of_zeros", "random_relu_of_the_greatest")
"""Cases of numbers with which OpenVINO has its own way, as docs/engines.md says."""
ON_OPENVINO = [path for path in CASES if path.stem.startswith("random_") and path.stem not in OWN_WAY] + [
    DATA / f"mindspore_primitives/{name}.mindir"
    for name in (
        "arguments_embedding_lookup_rows",
        "own_affine_grid_thin_2_3_1_4",
        "own_inner_non_zero",
        "own_interpolate_bicubic_free",
        "own_logical_not_ints",
    )
]
"""What OpenVINO has got wrong, among others; whether it has the operators or leaves them to onnxruntime."""


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_gives_what_mindspore_computes(path, run_model):
    _compare(path, run_model)


@pytest.mark.filterwarnings("ignore::pinnace.PinnaceWarning")  # that onnxruntime runs a model
@pytest.mark.parametrize("path", ON_OPENVINO, ids=lambda p: p.stem)
def test_gives_it_where_openvino_was_asked_for(path, run_model, target):
    pytest.importorskip("openvino")
    _compare(path, partial(run_model, target=target._replace(provider="openvino")))


def _compare(path, run):
    golden = np.load(path.with_suffix(".npz"))
    results = run(path, [golden[f"x{i}"] for i in range(_count(golden, "x"))])
    assert len(results) == _count(golden, "y")
    for i, result in enumerate(results):
        expected = golden[f"y{i}"]
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        relative, absolute = LOOSER.get(path.stem) or TOLERANCE.get(result.dtype, (0, 0))
        np.testing.assert_allclose(result, expected, rtol=relative, atol=absolute)


def _count(golden, letter: str) -> int:
    return sum(key.startswith(letter) for key in golden)
