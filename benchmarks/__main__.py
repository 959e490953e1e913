"""`python -m benchmarks NAME ...`: one benchmark by name, from the rooms by what is measured."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path

ROOMS = ("conversion", "latency", "multirank", "serving", "startup")
NAMES = {
    m.name: f"benchmarks.{room}.{m.name}"
    for room in ROOMS
    for m in pkgutil.iter_modules([str(Path(__file__).with_name(room))])
} | {"suite": "benchmarks.suite"}

os.environ.setdefault("PINNACE_CACHE_KEEP", "before")  # nothing runs in the background of a measurement
if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    names = ", ".join(sorted(NAMES))
    raise SystemExit(f"usage: python -m benchmarks NAME [options]; NAME is one of: {names}")
importlib.import_module(NAMES[sys.argv[1]]).main(sys.argv[2:])
