"""One rank of a test: `rank.py STEM[,STEM] SIZE [options]`.

Runs each `STEM_SIZE_RANK.mindir` and compares with the `.npz` beside it, or NAME_{rank}.onnx or .mindir and
compares with NAME.npz of the folder --golden; writes RANK.json to the folder --answers, because what ranks
print may be lost or mixed where a launcher ends them.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import pinnace
from pinnace.distributed.watchdog import Watchdog
from pinnace.errors import PinnaceError

parser = argparse.ArgumentParser()
parser.add_argument("stem")
parser.add_argument("size", type=int)
parser.add_argument("--rank", type=int)
parser.add_argument("--config", default="")
parser.add_argument("--groups", default="")
parser.add_argument("--golden", default="")
parser.add_argument("--timeout", type=int, default=500)
parser.add_argument("--answers", type=Path, required=True)
parser.add_argument("--do", default="")
parser.add_argument("--gpu", action="store_true", help="each rank on a GPU of its own")
options = parser.parse_args()

context = pinnace.Context()
context.cpu.thread_num = 1
context.group_info_file = options.groups
if options.rank is not None:
    context.ascend.rank_id = options.rank
rank = context.gpu.rank_id if options.rank is None else options.rank
if options.gpu:
    context.target = ["gpu"]
    context.gpu.device_id = rank
answer = {"rank": rank, "error": 0.0, "shapes": {}}

# "never 1": rank 1 does not come; "stops 1": it comes once, and the others wait 5 s then; "raises 1": it
# comes once, and ends with an error; "die 1": it is killed at a random moment
what, _, who = options.do.partition(" ")
mine = bool(what) and int(who) == rank


watchdogs = []
init = Watchdog.__init__


def noted(self, *arguments):
    init(self, *arguments)
    watchdogs.append(self)


Watchdog.__init__ = noted


def stay_away():
    """Wait until the others have given up."""
    while len(list(options.answers.glob("*.json"))) < options.size - 1:
        time.sleep(0.05)
    sys.exit()


def scale(expected):
    """What errors are measured by: 1, or the largest value where that is more.

    MindSpore sums halves in halves, with a rounding for each rank, which may be 3e-3 of 1 in four.
    """
    half = 300 if expected.dtype == np.float16 else 1
    return half * max(1.0, float(np.abs(expected).max(initial=0)))


def run(stem, timeout):
    if stem.endswith((".onnx", ".mindir")):
        path = Path(stem.replace("{rank}", str(rank)))
        golden = np.load(Path(options.golden, path.stem.rpartition("_")[0] + ".npz"))
        inputs, expected = ([golden[k] for k in golden if k.startswith(f"run0_{c}")] for c in "xy")
    else:
        path = Path(f"{stem}_{options.size}_{rank}.mindir")
        golden = np.load(path.with_suffix(".npz"))
        inputs, expected = [golden["x"]], [golden[k] for k in golden if k != "x"]
    model = pinnace.Model()
    limit = {"distributed": {"timeout": str(timeout)}}
    kind = pinnace.ModelType.ONNX if path.suffix == ".onnx" else pinnace.ModelType.MINDIR
    model.build_from_file(str(path), kind, context, options.config, limit)
    if what == "die" and mine:
        delay = 0.02 + np.random.default_rng().random() * 0.3
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    for turn in range(10**9 if what == "die" else 2):
        if what == "stops" and turn == 1:
            if mine:
                stay_away()
            for watchdog in watchdogs:
                watchdog.seconds = 5
        if what == "raises" and mine and turn == 1:
            raise ZeroDivisionError
        outputs = [output.get_data_to_numpy() for output in model.predict(inputs)]
    errors = [
        float(np.abs(np.subtract(y, e, dtype=float)).max() / scale(e))
        for y, e in zip(outputs, expected, strict=True)
    ]
    answer["error"] = float(np.max([answer["error"], *errors]))  # NaN stays NaN
    kinds = [[(a.shape, a.dtype) for a in arrays] for arrays in (outputs, expected)]
    answer["shapes"][stem] = kinds[0] == kinds[1]
    answer["info"] = {key: model.get_model_info(key) for key in ("rank", "communicator", "segments")}


if what == "never" and mine:
    stay_away()
try:
    for number, stem in enumerate(options.stem.split(",")):
        run(stem, options.timeout + number)
except PinnaceError as error:
    answer["raised"] = f"{type(error).__name__}: {error}"
written = options.answers / f"{rank}.new"
written.write_text(json.dumps(answer))
written.rename(written.with_suffix(".json"))
sys.exit("raised" in answer)
