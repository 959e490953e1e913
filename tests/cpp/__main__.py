"""`python -m tests.cpp [--runners 1000]`: C++ programs under AddressSanitizer, and what runners leave behind.

The programs of the tests run once more, built with their library by `-fsanitize=address,undefined`, and with
Python's memory from malloc, so that a use of freed memory is seen in arrays too. Then runners are made and
deleted without the sanitizer. Takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cpp.conftest import PROGRAMS, ROOT, run
from tests.cpp.models import write

from pinnace.cpp.build import Built, build

DATA = ROOT / "tests" / "data"
ADD = DATA / "api" / "add.onnx"
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined")
ALLOWED = {"memory": 2000, "files": 0, "threads": 0, "mappings": 0.01, "failures": 0}
"""The most that a runner leaves: tables that grow in steps. Were its session kept, it would leave 50 KB."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cpp", description=__doc__)
    parser.add_argument("--runners", type=int, default=1000)
    options = parser.parse_args()
    os.environ["PINNACE_CACHE_DIR"] = "off"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sanitized(folder)
        leaks(folder, options.runners)


def sanitized(folder: Path) -> None:
    """Run the programs under AddressSanitizer, which ends a program at its first error."""
    built = build(folder / "sanitized", {**os.environ, "CXXFLAGS": " ".join(SANITIZED)})
    # Python frees little at its end, so leaks are for `leaks`.
    os.environ |= {
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:abort_on_error=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }
    write(folder)
    # Not `embeds`, which needs the headers of Python, nor models that run on OpenVINO: it opens a library in
    # a way that AddressSanitizer forbids.
    sources = [source for source in PROGRAMS.glob("*.cc") if source.stem != "embeds"]
    made = {source.stem: compiled(source, folder, built, *SANITIZED) for source in sources}
    trials = [
        ("surface", DATA, folder),
        *(("lives", life, ADD) for life in ("static", "threads", "fork")),
        ("leaks", ADD, 20),
    ]
    for program, *arguments in trials:
        run(made[program], *arguments, PINNACE_SIMULATE="gpu:2,ascend:1" if program == "surface" else "")
        print(f"AddressSanitizer: {program} {arguments[0]}: nothing", flush=True)


def compiled(source: Path, folder: Path, built: Built, *flags: str) -> Path:
    """Return the program of a source file."""
    program = folder / f"{source.stem}-{built.folder.name}"
    compiler = os.environ.get("CXX") or "c++"
    run(compiler, *flags, source, "-o", program, *built.cflags, *built.ldflags)
    return program


def leaks(folder: Path, runners: int) -> None:
    """Make and delete runners; exit with 1 if they leave something."""
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONMALLOC"):
        os.environ.pop(name, None)
    program = compiled(PROGRAMS / "leaks.cc", folder, build(folder / "plain"), "-O1")
    done = subprocess.run([program, ADD, str(runners)], capture_output=True, text=True, check=False)
    print(f"{runners} runners leave, each: {done.stdout.strip()}{done.stderr}")
    left = json.loads(done.stdout)
    if any(left[what] > ALLOWED[what] for what in ALLOWED):
        sys.exit("runners leave something")


if __name__ == "__main__":
    main()
