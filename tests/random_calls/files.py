"""Compare all goldens of a folder on each engine: what `tools/with_mindspore/sweep_types.py` has made.

PINNACE_CACHE_DIR=off python -m tests.random_calls.files FOLDER
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from tests.random_calls.ours import verdict

from pinnace.options.target import Target


def main(folder: Path) -> int:
    """Print what is wrong, and how many were compared; 1 where something was wrong."""
    warnings.simplefilter("ignore")  # that another engine runs a model is no failure
    files = sorted(path for path in folder.glob("*.npz") if path.with_suffix(".mindir").exists())
    wrong = 0
    for path in files:
        for engine in ("onnxruntime", "openvino"):
            problem = verdict(path.with_suffix(""), Target(threads=1, provider=engine))
            if problem:
                wrong += 1
                print(path.stem, engine, problem, flush=True)
    print(f"{len(files)} files, {wrong} results wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
