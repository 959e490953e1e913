"""Run the example scripts of mindspore_lite's repository, unchanged, and compare them with onnxruntime.

    python tools/conformance/upstream_examples CHECKOUT [--keep FOLDER] [--results FILE] [--write docs/upstream.md] [WORD ...]

CHECKOUT has the repository's files; the scripts whose names contain a WORD are run, all by default. It needs torch,
transformers and Pinnace. Every script gets small models with random weights (`rows.py`, `models.py`), which upstream's
documented `converter_lite` command converts. It runs three times: with the `mindspore_lite` of `oracle/`, which
is onnxruntime without optimization, under `pinnace exec` on the CPU, and likewise on a simulated Ascend. What
the predictions gave, what the script printed (but for times and memory) and the files that it wrote are compared.
`--results` keeps the results, so that a later run of a few
scripts renews theirs alone. `--write` writes the table of the manual; the commits are those that `CHECKOUT/commits.txt` names, a line
`PATH COMMIT` each, or that of the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
from models import picture
from page import right, write
from rows import ROWS, Row

HERE = Path(__file__).parent
EXAMPLES = Path("mindspore-lite/examples/base_models")
TOLERANCE = 2e-4
"""Of the largest value: the engines add float32 in another order."""
TIPPED = 1e-4
"""Of the pixels of a picture: where two classes are as good, a rounding tips the scales."""
NOISE = re.compile(
    r"latency|_ms|\d ?ms\b|rss|hwm|mem|ram\b|hbm|time|tok/s|tokens/s|second|speed|throughput|elapsed|timing|device|\d+\.?\d* ?s\b|\[W\]|warning"
    r"|error.*=|fps|qps|perf",
    re.IGNORECASE,
)
"""Lines of output that differ from run to run."""
DEVICE = re.compile(r"\b(?:cpu|ascend)\b")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
CONFIG = """[acl_build_options]
input_format="ND"
input_shape="{shapes}"
[acl_init_options]
ge.exec.precision_mode={precision}
[ascend_context]
plugin_custom_ops=All
"""
"""The form of upstream's configurations."""


class Failed(Exception):
    """A script, a conversion or a comparison that did not end as it should."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_intermixed_args()
    rows = [r for r in ROWS if not arguments.words or any(w in r.script for w in arguments.words)]
    results = (
        json.loads(arguments.results.read_text()) if arguments.results and arguments.results.exists() else {}
    )
    for row in rows:
        with _folder(arguments.keep, row) as name:
            results[row.script] = result = _try(row, arguments.checkout.resolve(), Path(name).resolve())
        if arguments.results:
            arguments.results.write_text(json.dumps(results, indent=1))
        print(f"{row.script:70} {' | '.join(result)}", flush=True)
    print(f"{right(results)} of {len(results)} are right")
    if arguments.write:
        write(arguments.write, results, _commits(arguments.checkout))


def _folder(keep: Path | None, row: Row) -> AbstractContextManager[str]:
    """The folder that a script runs in: a temporary one, or one of its own in `keep`."""
    if keep is None:
        return tempfile.TemporaryDirectory()
    folder = keep / row.script.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return nullcontext(str(folder))


def _commits(checkout: Path) -> dict[str, str]:
    listed = checkout / "commits.txt"
    if listed.exists():
        return dict(line.split()[:2] for line in listed.read_text().splitlines())
    done = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    return dict.fromkeys((row.script for row in ROWS), done.stdout.strip())


def _try(row: Row, checkout: Path, work: Path) -> tuple[str, str, str]:
    """Returns the results on the CPU and on the simulated Ascend, and the reason where one is not right."""
    script = checkout / EXAMPLES / row.script
    if not script.exists():
        return "not run", "not run", "the checkout has no such file"
    try:
        _prepare(row, script.parent, work)
        _run(row, script, work, "oracle", "cpu" if "{device}" in row.arguments else "ascend")
    except Failed as error:
        return "not run", "not run", str(error)
    results = []
    reason = ""
    for device in ("cpu", "ascend"):
        if device == "cpu" and "{device}" not in row.arguments:
            results.append("—")
            continue
        try:
            _run(row, script, work, device, device)
            _compare(work / "oracle", work / device)
            results.append("right")
        except Failed as error:
            results.append("wrong")
            reason = reason or str(error)
    return results[0], results[1], reason


def _prepare(row: Row, source: Path, work: Path) -> None:
    """Make the models and pictures in the folder `start`, and convert the models there."""
    start = work / "start"
    start.mkdir()
    for i, name in enumerate(row.pictures):
        picture(start / name, seed=i)
    for file, make in row.files.items():
        make(start / file)
    for name, network in row.networks.items():
        network.write(start / f"{name}.onnx")
        config = start / f"{name}.ini"
        if row.configs.get(name):
            given = source / row.configs[name]
            if not given.exists():
                raise Failed(f"the checkout lacks {row.configs[name]}")
            config.write_text(given.read_text())
        else:
            config.write_text(CONFIG.format(shapes=network.input_shape(), precision="force_fp16"))
        command = [
            str(Path(sys.executable).with_name("converter_lite")), "--fmk=ONNX", f"--modelFile=./{name}.onnx", f"--outputFile=./{name}",
            "--optimize=ascend_oriented", "--saveType=MINDIR", f"--configFile=./{name}.ini",
        ]  # fmt: skip
        _call(command, start, {})


def _run(row: Row, script: Path, work: Path, name: str, device: str) -> None:
    """Run a script in a copy of `start`; its output goes to `NAME/output.txt`, its predictions to `NAME/record`."""
    folder, record = work / name, work / f"{name}.record"
    shutil.copytree(work / "start", folder)
    record.mkdir()
    paths = [str(HERE / "recorder")]
    extra = {
        "UPSTREAM_RECORD": str(record),
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, "-m", "pinnace", "exec"]
    if name == "oracle":
        paths.insert(0, str(HERE / "oracle"))
        command = [sys.executable]
    else:
        extra["PINNACE_SIMULATE"] = "ascend:1" if device == "ascend" else ""
    extra["PYTHONPATH"] = os.pathsep.join(paths)
    arguments = shlex.split(row.arguments.format(device=device))
    (work / f"{name}.txt").write_text(_call([*command, str(script), *arguments], folder, extra))


def _call(command: Sequence[str], folder: Path, extra: dict[str, str]) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | extra
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
    except subprocess.TimeoutExpired:
        raise Failed("it took more than 300 seconds") from None
    if done.returncode:
        last = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Failed(
            next((line for line in reversed(last) if "Error" in line), last[-1] if last else "no message")[
                :300
            ]
        )
    return done.stdout


def _compare(expected: Path, found: Path) -> None:
    """Compare the predictions, the printed lines and the written files of two runs."""
    kept = [sorted(path.with_suffix(".record").glob("*.npz")) for path in (expected, found)]
    if not kept[0] or len(kept[0]) != len(kept[1]):
        raise Failed(f"{len(kept[1])} predictions in place of {len(kept[0])}")
    for one, other in zip(*kept, strict=True):
        with np.load(one) as a, np.load(other) as b:
            for key in a.files:
                _close(a[key], b[key], TOLERANCE, f"prediction {one.stem}, {key}")
    lines = [list(_lines(path.with_suffix(".txt").read_text(), path)) for path in (expected, found)]
    if len(lines[0]) != len(lines[1]):
        raise Failed(f"{len(lines[1])} lines of output in place of {len(lines[0])}")
    for a, b in zip(*lines, strict=True):
        if NUMBER.sub("#", a) != NUMBER.sub("#", b):
            raise Failed(f"it printed {b!r} in place of {a!r}")
        numbers = [np.array(NUMBER.findall(line), np.float64) for line in (a, b)]
        _close(numbers[0], numbers[1], 10 * TOLERANCE, f"the printed line {a!r}")
    start = expected.parent / "start"
    for file in sorted(expected.rglob("*")):
        if file.is_file() and not (start / file.relative_to(expected)).exists():
            _same_file(file, found / file.relative_to(expected))


def _lines(text: str, folder: Path) -> Iterator[str]:
    for line in text.splitlines():
        line = DEVICE.sub("DEVICE", line.replace(str(folder), "")).strip()
        if line and not NOISE.search(line):
            yield line


def _same_file(expected: Path, found: Path) -> None:
    from PIL import Image

    name = expected.name
    if not found.exists():
        raise Failed(f"it did not write {name}")
    if expected.suffix in (".png", ".jpg"):
        levels = [np.asarray(Image.open(file), np.int16) for file in (expected, found)]
        if levels[0].shape != levels[1].shape or np.mean(np.abs(levels[0] - levels[1]) > 1) > TIPPED:
            raise Failed(f"the picture {name} differs")
    elif expected.suffix == ".npy":
        _close(np.load(expected), np.load(found), TOLERANCE, name)
    elif expected.suffix in (".txt", ".json") and NUMBER.sub("#", expected.read_text()) != NUMBER.sub(
        "#", found.read_text()
    ):
        raise Failed(f"the text of {name} differs")


def _close(expected: np.ndarray, found: np.ndarray, tolerance: float, what: str) -> None:
    if expected.shape != found.shape:
        raise Failed(f"{what}: the shape is {found.shape} in place of {expected.shape}")
    if expected.size == 0:
        return
    a, b = expected.astype(np.float64), found.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        raise Failed(f"{what}: other values are not finite")
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    difference = np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)
    if difference > tolerance:
        raise Failed(f"{what}: differs by {difference:.1e} of the largest value")


if __name__ == "__main__":
    main()
