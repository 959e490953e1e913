"""MindSpore's side, run by the oracle's Python: what files give, call after call.

    python -m tests.random_programs.oracle FOLDER SEED NUMBER ...

Writes N.mindir and N.npz, with x<call>_<input> and y<call>_<output>. A program that MindSpore does not
export, does not load, or computes otherwise from the file, has no N.npz: it unites equal writes there,
and its own run writes into constants for good.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from tests.random_programs.generate import COUNTS, program


def main(folder: Path, seed: int, numbers: list[int]) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    sys.path.insert(0, str(folder))
    for number in numbers:
        print(number, flush=True)  # before: MindSpore may end the process
        (folder / f"program_{number}.py").write_text(program(seed, number))
        try:
            np.savez(folder / f"{number}.npz", **_computed(folder, seed, number))
        except Exception as error:
            print(number, str(error).partition("\n")[0], file=sys.stderr, flush=True)


def _computed(folder: Path, seed: int, number: int) -> dict[str, np.ndarray]:
    net = importlib.import_module(f"program_{number}").Net()
    draw = np.random.default_rng([seed, number])
    calls = [[*draw.standard_normal((2, 2, 3), np.float32), np.int32(count)] for count in COUNTS]
    path = str(folder / f"{number}.mindir")
    ms.export(net, *map(ms.Tensor, calls[0]), file_name=path, file_format="MINDIR")
    loaded, found = ms.nn.GraphCell(ms.load(path)), {}
    for i, inputs in enumerate(calls):
        for j, x in enumerate(inputs):
            found[f"x{i}_{j}"] = np.asarray(x)
        own = [y.asnumpy().copy() for y in net(*map(ms.Tensor, inputs))]  # a later call may write there
        for j, y in enumerate(loaded(*map(ms.Tensor, inputs))):
            found[f"y{i}_{j}"] = y.asnumpy().copy()
            if not np.allclose(own[j], found[f"y{i}_{j}"], 1e-4, 1e-5):
                raise ValueError(f"MindSpore computes otherwise from the file in call {i}")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), list(map(int, sys.argv[3:])))
