"""Convert the models of `make_lite_models.py` with MindSpore Lite, and keep what it computes rightly itself.

    python tools/with_mindspore_lite/make_lite_goldens.py MODELS tests/data/lite_layers        # needs mindspore_lite 2.0.0

Each model becomes NAME.ms and NAME_lite.mindir; one that the converter refuses, or that MindSpore Lite's own
runtime does not run to what ONNX expects, is left out. Every file is tried in a process of its own, since
the converter and the runtime may end theirs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

TOLERANCE = 1e-5
LOOSER = {"lstm_forward": 1e-4, "lstm_bidirectional": 1e-4}  # its Tanh and Sigmoid are approximations


def convert_and_run(model, target):
    """End with an error unless MindSpore Lite converts a model and computes what its .npz says."""
    import mindspore_lite as mslite

    kind = mslite.ModelType.MINDIR_LITE if target.suffix == ".ms" else mslite.ModelType.MINDIR
    converter = mslite.Converter()
    converter.save_type = kind
    converter.convert(mslite.FmkType.ONNX, str(model), str(target.with_suffix("")))
    os.chmod(str(target), 0o644)
    lite = mslite.Model()
    lite.build_from_file(str(target), kind)
    golden = np.load(str(model.with_suffix(".npz")))
    inputs = lite.get_inputs()
    for i, tensor in enumerate(inputs):
        array = golden[f"x{i}"]
        if list(array.shape) != tensor.shape:
            array = array.transpose(0, 2, 3, 1)
        dtype = tensor.get_data_to_numpy().dtype
        tensor.set_data_from_numpy(np.ascontiguousarray(array.astype(dtype)))
    for i, tensor in enumerate(lite.predict(inputs)):
        expected = golden[f"y{i}"].astype(np.float64)
        result = tensor.get_data_to_numpy().astype(np.float64)
        tolerance = LOOSER.get(model.stem, TOLERANCE)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def main(models, out):
    for model in sorted(models.glob("*.onnx")):
        kept = []
        for target in (out / (model.stem + ".ms"), out / (model.stem + "_lite.mindir")):
            command = [sys.executable, __file__, "--one", str(model), str(target)]
            if subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
                kept.append(target.name)
            elif target.exists():
                target.unlink()
        if kept:
            shutil.copy(str(model.with_suffix(".npz")), str(out))
        print(model.stem, kept or "left out")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        convert_and_run(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
