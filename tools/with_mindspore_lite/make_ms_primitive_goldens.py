"""Run the files of `make_ms_primitives.py` with MindSpore Lite's own runtime, and keep what it gives.

    python tools/with_mindspore_lite/make_ms_primitive_goldens.py FOLDER tests/data/ms_primitives      # needs mindspore_lite 2.0.0

The outputs y0.. of a NAME.npz become those of the runtime. A file that it cannot run is kept where numpy has
said what to expect, and left out where not. Every file is tried in a process of its own, since the runtime may
end its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np


def run(path):
    import mindspore_lite as mslite

    # With more threads some kernels of release 2.0.0 leave parts of their results zero.
    context = mslite.Context()
    context.target = ["cpu"]
    context.cpu.thread_num = 1
    model = mslite.Model()
    model.build_from_file(str(path), mslite.ModelType.MINDIR_LITE, context)
    golden = dict(np.load(str(path.with_suffix(".npz"))))
    inputs = model.get_inputs()
    for i, tensor in enumerate(inputs):
        tensor.set_data_from_numpy(golden[f"x{i}"].copy())  # some kernels write into their inputs
    results = [tensor.get_data_to_numpy() for tensor in model.predict(inputs)]
    for i, result in enumerate(results):
        expected = golden.get(f"y{i}")
        if expected is not None:
            agrees = expected.shape == result.shape and np.allclose(result, expected, 1e-5, 1e-5)
            print("AGREES" if agrees else f"DIFFERS\n{result}\n{expected}")
    arrays = {key: value for key, value in golden.items() if key.startswith("x")}
    np.savez(str(path.with_suffix(".npz")), **arrays, **{f"y{i}": y for i, y in enumerate(results)})


def main(folder, out, patterns):
    for path in sorted(p for pattern in patterns or ["*"] for p in folder.glob(f"{pattern}.ms")):
        command = [sys.executable, __file__, "--one", str(path)]
        golden = path.with_suffix(".npz")
        done = None
        if "own" not in np.load(str(golden)):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        known = any(key.startswith("y") for key in np.load(str(golden)))
        remark = "" if done and done.returncode == 0 else "numpy" if known else "left out"
        print(path.stem, remark, done.stdout.decode() if done and b"DIFFERS" in done.stdout else "")
        if known:
            shutil.copy(str(path), str(out))
            shutil.copy(str(golden), str(out))


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        run(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
