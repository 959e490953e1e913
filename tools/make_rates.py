"""Measure the table of speeds by instruction set, src/pinnace/engines/speed/table.json.

    python tools/make_rates.py amx_bf16
    python tools/make_rates.py avx512_bf16 --like amx_bf16 --only nothing --half 0.6
    python tools/make_rates.py avx512f --like amx_bf16 --only nothing
    ONEDNN_MAX_CPU_ISA=AVX2 python tools/make_rates.py avx2 --only enforce_fp32 --assume

An entry is for processors with a feature of /proc/cpuinfo; the first entry whose feature is there counts. --only
measures one precision of OpenVINO, whose instruction set can be limited, and takes the other rates of fp32 from
the entry --like. --half is the assumed time of OpenVINO's products in 16 bits over fp32. --assume computes onnxruntime's rates from OpenVINO's, with the ratios `ASSUMED`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pinnace.bench.machine import measure, ways
from pinnace.engines.speed.profile import as_record

TABLE = Path(__file__).parents[1] / "src/pinnace/engines/speed/table.json"
ORDER = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")

ASSUMED = {
    "attention": 0.94, "conv": 1.0, "cut": 1.0, "depthwise": 0.85, "elementwise": 1.16, "erf": 0.64,
    "grouped": 0.85, "move": 1.03, "node": 0.81, "norm": 0.95, "pointwise": 0.93, "pool": 0.96, "product": 0.88,
    "reduction": 1.2, "sigmoid": 1.04, "softmax": 1.33, "unblocked": 1.28, "vector": 0.86, "volume": 1.65,
}  # fmt: skip
"""onnxruntime's time over OpenVINO's with AVX2, by class of work: with these the two engines' times of 37 networks
on an EPYC (docs/engines.md) are explained best (least squares, drawn to 0.95)."""

PRODUCTS = ("attention", "conv", "grouped", "pointwise", "product", "vector", "volume")

_CALL = 3.4e6  # picoseconds of a call of onnxruntime, which knows no instruction sets


def main() -> None:
    options = _options()
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    chosen = [way for way in ways() if not options.only or way[:2] == ("openvino", options.only)]
    record = as_record(measure(chosen, print)) if chosen else {"rates": {}}
    rates = record["rates"]
    if options.like:
        rates = {way: options.like for way in table[options.like]["rates"] if "fp32" in way} | rates
    if options.half:
        rates |= _halved(table[options.like]["rates"], options.half)
    if options.assume:
        rates |= {way.replace("openvino", "onnxruntime"): _assumed(one) for way, one in rates.items()}
    origin = f"a table for processors with {options.feature}"
    if options.like or options.assume:
        origin += ", partly assumed"
    table[options.feature] = {"origin": origin, "rates": {way: _short(one) for way, one in rates.items()}}
    lines = ",\n".join(f'"{feature}": {json.dumps(table[feature])}' for feature in ORDER if feature in table)
    TABLE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("feature", choices=ORDER)
    parser.add_argument("--only", help="a precision of OpenVINO, or nothing")
    parser.add_argument("--like", help="the entry with the rates of fp32")
    parser.add_argument("--half", type=float)
    parser.add_argument("--assume", action="store_true")
    return parser.parse_args()


def _halved(rates: dict, half: float) -> dict:
    """Return rates in 16 bits from those of OpenVINO in fp32."""
    found = {}
    for way in [way for way in rates if way.startswith("openvino enforce_fp32")]:
        found[way.replace("enforce_fp32", "preferred_fp16")] = {
            kind: [[size, one * (half if kind in PRODUCTS else 1)] for size, one in rows]
            for kind, rows in rates[way].items()
        }
    return found


def _assumed(rates: dict) -> dict:
    rows = {kind: [[size, one * ASSUMED.get(kind, 1)] for size, one in rows] for kind, rows in rates.items()}
    return rows | {"call": [[[], _CALL]]}


def _short(rates: dict | str) -> dict | str:
    if isinstance(rates, str):
        return rates
    return {
        k: [[[int(n) for n in size], float(f"{one:.3g}")] for size, one in rows] for k, rows in rates.items()
    }


if __name__ == "__main__":
    main()
