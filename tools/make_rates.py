"""Measure the table of speeds by instruction set, src/pinnace/engines/speed/table.json.

    python tools/make_rates.py amx_bf16 --times 2
    python tools/make_rates.py avx512_bf16 --like amx_bf16 --only nothing --half 0.6
    python tools/make_rates.py avx512f --like amx_bf16 --only nothing
    ONEDNN_MAX_CPU_ISA=AVX2 python tools/make_rates.py avx2 --only enforce_fp32 --assume --times 2
    python tools/make_rates.py amx_bf16 --rules measured
    python tools/make_rates.py avx512f --rules amx_bf16
    python tools/make_rates.py avx2 --rules epyc
    python tools/make_rates.py asimd --rules avx2

An entry is for processors with a feature of /proc/cpuinfo; the first entry whose feature is there counts. Rates are
geometric means of --times measurements. --only measures one precision of OpenVINO, whose instruction set can be
limited, and takes the other rates of fp32 from the entry --like. --half is the assumed time of OpenVINO's products in 16 bits over fp32. --assume computes
onnxruntime's rates from OpenVINO's, with the ratios `ASSUMED`. --rules sets what rules gain alone: measured here,
those of an entry, or `ON_EPYC`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import geometric_mean

from pinnace.bench.machine import chain, measure, ways
from pinnace.bench.rewritten import gains
from pinnace.engines.speed.profile import as_record

TABLE = Path(__file__).parents[1] / "src/pinnace/engines/speed/table.json"
ORDER = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "asimd")

ASSUMED = {
    "attention": 0.94, "conv": 1.0, "cut": 1.0, "depthwise": 0.85, "elementwise": 1.16, "erf": 0.64,
    "grouped": 0.85, "move": 1.03, "node": 0.81, "norm": 0.95, "pointwise": 0.93, "pool": 0.96, "product": 0.88,
    "reduction": 1.2, "sigmoid": 1.04, "softmax": 1.33, "unblocked": 1.28, "vector": 0.86, "volume": 1.65,
}  # fmt: skip
"""onnxruntime's time over OpenVINO's with AVX2, by class of work: with these the two engines' times of 37 networks
on an EPYC (docs/engines.md) are explained best. `python -m benchmarks prediction --fit` on such a machine says by
what to multiply them: its factors of onnxruntime over those of bench/factors.json."""

CONVOLUTIONS = """
| 16 | 3.89 / 3.95 | 2.06 / 2.34 | 2.14 / 3.14 | 1.80 / 2.38 | 1.86 / 2.55 | 1.60 / 1.99 | 1.57 / 2.16 |
| 32 | 2.88 / 4.22 | 2.10 / 1.96 | 1.47 / 1.32 | 0.97 / 1.31 | 1.15 / 1.39 | 1.05 / 1.44 | 1.22 / 1.73 |
| 48 | 1.64 / 1.85 | 1.44 / 1.29 | 0.75 / 0.98 | 0.74 / 1.01 | 0.87 / 1.22 | 0.77 / 1.27 | 0.93 / 1.40 |
| 64 | 1.36 / 1.26 | 1.28 / 1.40 | 0.95 / 1.13 | 0.82 / 1.26 | 0.81 / 1.00 | 0.73 / 1.23 | 0.90 / 1.31 |
| 128 | 2.14 / 1.49 | 1.18 / 1.02 | 0.70 / 0.90 | 0.61 / 0.91 | 0.61 / 0.98 | 0.66 / 0.98 |
| 256 | 1.78 / 1.25 | 0.87 / 0.77 | 0.75 / 0.83 | 0.55 / 0.76 |
| 512 | 2.60 / 1.82 | 1.02 / 0.89 |
"""
"""Results of `python -m benchmarks convolutions` on an EPYC: for channels, and images of 7, 14, 20, 28, 40, 56 and
80 pixels, times with tiles of 4 and of 2 over those without."""


def _of_tiles(side: int) -> list:
    """Return the rows of Winograd's algorithm: channels and number of tiles, and what the table says."""
    found = []
    for line in CONVOLUTIONS.split("\n")[1:-1]:
        channels, *cells = line.strip("| ").split(" | ")
        for size, cell in zip((7, 14, 20, 28, 40, 56, 80), cells, strict=False):
            ratios = dict(zip((4, 2), map(float, cell.split(" / ")), strict=True))
            found.append([[int(channels), (-(-size // side)) ** 2], ratios[side]])
    return found


ON_EPYC = {
    "winograd:4": _of_tiles(4),
    "winograd:2": _of_tiles(2),
    "sum_of_rows": [[[4, 1024], 0.51], [[49, 64], 0.83], [[196, 512], 0.26], [[3136, 96], 0.32]],
    "attention": [[[64], 0.93], [[256], 0.93], [[1024], 0.93]],
    "activation_of_integers": [[[], 0.63]], "apart_from_layer_norm": [[[], 0.46]], "average_pool": [[[], 0.57]],
    "batch_norm_of_merged": [[[], 0.73]], "bias_of_integers": [[[], 0.46]], "faster_mish": [[[], 0.16]],
    "faster_softplus": [[[], 0.4]], "gelu": [[[], 0.62]], "group_norm": [[[], 0.48]], "layer_norm": [[[], 0.45]],
    "product_of_three": [[[], 0.08]], "root_mean_square": [[[512], 0.72], [[8192], 0.91], [[98304], 0.92]],
    "scale_of_channels": [[[], 0.76]], "scaled_layer_norm": [[[], 0.39]], "transposed_parts": [[[], 0.87]],
}  # fmt: skip
"""Times with the rules over those without, measured on an EPYC with AVX2 and onnxruntime 1.32: Winograd's algorithm
by the benchmark above, whose rounds are many, the rest medians of three `--rules measured`, which differ by up to
two times for single convolutions on a machine with other guests."""

PRODUCTS = ("attention", "conv", "grouped", "pointwise", "product", "vector", "volume")

_CALL = 3.4e6  # picoseconds of a call of onnxruntime, which knows no instruction sets


def main() -> None:
    options = _options()
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    entry = table.setdefault(options.feature, {"origin": _origin(options), "rates": {}, "rules": {}})
    if options.rules:
        entry["rules"] = _rules(options.rules)
    else:
        entry |= {"origin": _origin(options), "rates": _rates(options, table)}
    lines = ",\n".join(f'"{feature}": {json.dumps(table[feature])}' for feature in ORDER if feature in table)
    TABLE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _origin(options: argparse.Namespace) -> str:
    assumed = options.like or options.assume or options.rules not in (None, "measured")
    return f"a table for processors with {options.feature}" + (", partly assumed" if assumed else "")


def _rules(source: str) -> dict | str:
    if source == "measured":
        return gains(sorted({way[2] for way in ways()}), chain, print)
    return ON_EPYC if source == "epyc" else source


def _rates(options: argparse.Namespace, table: dict) -> dict:
    chosen = [way for way in ways() if not options.only or way[:2] == ("openvino", options.only)]
    measured = [as_record(measure(chosen, print, rules=False))["rates"] for _ in range(options.times)]
    rates = {
        way: {kind: _mean([one[way][kind] for one in measured]) for kind in measured[0][way]}
        for way in measured[0]
    }
    if options.like:
        rates = {way: options.like for way in table[options.like]["rates"] if "fp32" in way} | rates
    if options.half:
        rates |= _halved(table[options.like]["rates"], options.half)
    if options.assume:
        rates |= {way.replace("openvino", "onnxruntime"): _assumed(one) for way, one in rates.items()}
    return {way: _short(one) for way, one in rates.items()}


def _mean(found: list) -> list:
    """Return the geometric mean of measurements of the same sizes."""
    return [[rows[0][0], geometric_mean(one for _, one in rows)] for rows in zip(*found, strict=True)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("feature", choices=ORDER)
    parser.add_argument("--only", help="a precision of OpenVINO, or nothing")
    parser.add_argument("--like", help="the entry with the rates of fp32")
    parser.add_argument("--half", type=float)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--assume", action="store_true")
    parser.add_argument("--rules", metavar="measured|epyc|ENTRY")
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
