"""mindspore_lite's own suites of its API, run on Pinnace by `pinnace exec`.

    python tools/conformance/peer_suites.py CHECKOUT

CHECKOUT is a clone of mindspore-ai/mindspore-lite, bare or not. The suite of LiteInfer exports a network, so
mindspore has to be installed beside Pinnace and pytest. The suites build `mobilenetv2.ms`, of which they ask no
more than one image of 224 x 224 with its channels last: `tests/data/api/picture.ms` takes its place. That of the
converter converts `mobilenetv2.tflite`, for which tf2onnx and tensorflow have to be installed. Prints the
failures and the counts; exits with 1 where something fails or a suite is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.util import find_spec
from pathlib import Path

SUITES = ("test_inference_api", "test_server_inference_api", "test_lite_infer_api", "test_converter_api")
FOLDER = "mindspore-lite/test/ut/python"
DATA = Path(__file__).parents[2] / "tests" / "data"
PICTURE = DATA / "api" / "picture.ms"
NETWORK = DATA / "frontends" / "face_detection_short_range.tflite"


_ONE = "`predict(x)` takes one array or tensor if the model has one input"
OTHERWISE = {
    "test_model_predict_inputs_type_error": _ONE,
    "test_model_parallel_runner_predict_inputs_type_error": _ONE,
    "test_lite_infere_predict_inputs_type_error": _ONE,
    "test_update_weights": "its error of a model that is not built has another text",
}
"""Tests of mindspore_lite that contradict Pinnace, and how."""


def text_of(checkout: Path, suite: str) -> bytes:
    path = f"{FOLDER}/{suite}.py"
    if (checkout / path).exists():
        return (checkout / path).read_bytes()
    return subprocess.check_output(["git", "-C", str(checkout), "show", f"HEAD:{path}"])


def run(suite: str, folder: Path) -> tuple[int, int]:
    """How many tests of a suite in a folder pass, of how many."""
    report = folder / f"{suite}.xml"
    options = ["-q", "--no-header", "--tb=short", "-W", "ignore", "-p", "no:cacheprovider"]
    options += [f"--junit-xml={report}", *(f"--deselect={suite}.py::{name}" for name in OTHERWISE)]
    command = [sys.executable, "-m", "pinnace", "exec", "-m", "pytest", *options, f"{suite}.py"]
    # Without this the last suite does nothing.
    environment = {**os.environ, "MSLITE_ENABLE_CLOUD_INFERENCE": "on"}
    subprocess.run(command, cwd=folder, env=environment, check=False)
    cases = list(ElementTree.parse(report).iter("testcase"))
    return sum(len(case) == 0 for case in cases), len(cases)


def main(checkout: Path) -> bool:
    passed = total = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(PICTURE, folder / "mobilenetv2.ms")
        shutil.copy(NETWORK, folder / "mobilenetv2.tflite")
        for suite in SUITES:
            (folder / f"{suite}.py").write_bytes(text_of(checkout, suite))
        there = [suite for suite in SUITES if "lite_infer" not in suite or find_spec("mindspore")]
        for suite in there:
            good, all_ = run(suite, folder)
            passed, total = passed + good, total + all_
            print(f"{suite}: {good} of {all_} pass", flush=True)
    left_out = [suite for suite in SUITES if suite not in there]
    if left_out:
        print(f"{', '.join(left_out)}: left out, because mindspore is not installed")
    print(f"together: {passed} of {total} pass")
    print(*(f"not run: {name}: {reason}" for name, reason in OTHERWISE.items()), sep="\n")
    return passed == total > 0 and not left_out


if __name__ == "__main__":
    sys.exit(0 if main(Path(sys.argv[1])) else 1)
