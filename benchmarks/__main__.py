"""`python -m benchmarks NAME ...`: one benchmark by name."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path

NAMES = sorted(
    m.name
    for m in pkgutil.iter_modules([str(Path(__file__).parent)])
    if m.name not in ("__main__", "harness", "models")
)

os.environ.setdefault("PINNACE_CACHE_KEEP", "before")  # nothing runs in the background of a measurement
if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    raise SystemExit(f"usage: python -m benchmarks NAME [options]; NAME is one of: {', '.join(NAMES)}")
importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
