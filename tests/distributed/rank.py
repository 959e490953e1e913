"""One rank of a test: `rank.py STEM[,STEM] SIZE [options]`.

Runs each `STEM_SIZE_RANK.mindir` ("{rank}" in a stem is the rank), compares with the `.npz` beside it, and
prints one line of JSON.
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
from pinnace.errors import PinnaceError

parser = argparse.ArgumentParser()
parser.add_argument("stem")
parser.add_argument("size", type=int)
parser.add_argument("--rank", type=int)
parser.add_argument("--config", default="")
parser.add_argument("--groups", default="")
parser.add_argument("--timeout", type=int, default=60)
parser.add_argument("--do", default="")
options = parser.parse_args()

context = pinnace.Context()
context.cpu.thread_num = 1
context.group_info_file = options.groups
if options.rank is not None:
    context.ascend.rank_id = options.rank
rank = context.gpu.rank_id if options.rank is None else options.rank
answer = {"rank": rank, "error": 0.0, "shapes": []}

# "never 1": rank 1 does not come; "stops 1": it comes once; "die 1": it is killed at a random moment
what, _, who = options.do.partition(" ")
mine = bool(what) and int(who) == rank


def stay_away():
    time.sleep(options.timeout + 3)
    sys.exit()


def run(stem):
    path = Path(f"{stem.format(rank=rank)}_{options.size}_{rank}.mindir")
    golden = np.load(path.with_suffix(".npz"))
    model = pinnace.Model()
    limit = {"distributed": {"timeout": str(options.timeout)}}
    model.build_from_file(str(path), pinnace.ModelType.MINDIR, context, options.config, limit)
    if what == "die" and mine:
        delay = 0.02 + np.random.default_rng().random() * 0.3
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    for turn in range(10**9 if what == "die" else 2):
        if what == "stops" and mine and turn == 1:
            stay_away()
        outputs = [output.get_data_to_numpy() for output in model.predict([golden["x"]])]
    expected = [golden[f"y{i}"] for i in range(len(outputs))]
    errors = [float(np.abs(y - e).max()) for y, e in zip(outputs, expected, strict=True)]
    answer["error"] = max(answer["error"], *errors)
    answer["shapes"] += [y.shape == e.shape for y, e in zip(outputs, expected, strict=True)]
    answer["info"] = {key: model.get_model_info(key) for key in ("rank", "communicator", "segments")}


if what == "never" and mine:
    stay_away()
try:
    for stem in options.stem.split(","):
        run(stem)
except PinnaceError as error:
    answer["raised"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer), flush=True)
sys.exit("raised" in answer)
