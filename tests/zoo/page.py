"""docs/conformance.md: what came of the networks, as a page."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version

from tests.zoo.catalog import ENTRIES, Entry
from tests.zoo.ours import RIGHT
from tests.zoo.talk import Answer

_HEAD = "| network | parameters | nodes | primitives | max. error | MindSpore | Pinnace | ratio | to ONNX | |"


def verdict(result: Answer) -> str:
    """In a word: right, wrong, unsupported, failed, or the oracle cannot."""
    ours = result.get("ours", {})
    if "failed" in result["oracle"]:
        return "oracle cannot"
    if "unsupported" in ours:
        return "unsupported"
    if "error" not in ours:
        return "failed"
    ways = [ours, *(result[name] for name in ("written", "loaded") if name in result)]
    return "right" if all(way.get("error", float("inf")) <= RIGHT for way in ways) else "wrong"


def row(entry: Entry, result: Answer) -> str:
    """A line of the table."""
    ours, seconds = result.get("ours", {}), result.get("seconds", {})
    cells = [
        entry.name,
        f"{ours['bytes'] / 4e6:.1f} M" if "bytes" in ours else "",
        str(ours.get("nodes", "")),
        str(ours.get("primitives", "")),
        f"{ours['error']:.1e}" if "error" in ours else "",
        _milliseconds(seconds.get("oracle")),
        _milliseconds(seconds.get("ours")),
        _ratio(seconds, "oracle"),
        _ratio(seconds, "onnx"),
        _remark(result),
    ]
    return f"| {' | '.join(cells)} |"


def page(results: Mapping[str, Answer]) -> str:
    """The whole page."""
    made = next((r["oracle"]["versions"] for r in results.values() if "versions" in r["oracle"]), {})
    made = made | {"Pinnace's engine: onnxruntime": version("onnxruntime"), "numpy": version("numpy")}
    used = ", ".join(f"{name} {number}" for name, number in made.items())
    known = [e for e in ENTRIES.values() if e.name in results]
    return "\n".join(
        [
            "# Conformance",
            "",
            "Pinnace's results beside MindSpore's, and beside onnxruntime's without optimization.",
            "",
            "## Whole networks",
            "",
            "`python -m tests.zoo --page docs/conformance.md` exports networks with random weights and moving",
            "averages from MindSpore, and runs them with MindSpore and with Pinnace. Networks of mindcv and mindyolo",
            "are those libraries' own; the others are in `tests/zoo/networks.py`.",
            "",
            f"Versions: {used}, Python {platform.python_version()}; one core of {_processor()}.",
            "",
            "* *Right*: no output differs from MindSpore's by more than 1e-4 of its largest value, for two inputs,",
            "  or for several steps of a network with a state; also when another process loads the network from",
            "  the compile cache. Rows of detections with nearly equal scores may",
            "  change places. For very deep networks, which magnify rounding, the averages keep part of the mean",
            "  (`_CALM` in `tests/zoo/catalog.py`).",
            "* *Oracle cannot*: MindSpore could not make, export or run the network.",
            "* Times are milliseconds per request, medians of runs in turn, with one thread. *Ratio* is Pinnace's",
            "  time over MindSpore's. *To ONNX* is the time of the `.mindir` over that of the `.onnx` that MindSpore",
            "  writes of the same network, both in Pinnace.",
            "",
            summary(results),
            "",
            _HEAD,
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            *(row(e, results[e.name]) for e in known),
            "",
        ]
    )


def summary(results: Mapping[str, Answer]) -> str:
    """Counts of verdicts, and means of ratios."""
    counts = Counter(verdict(r) for r in results.values())
    counted = ", ".join(f"{n} {what}" for what, n in counts.most_common())
    lines = [f"{len(results)} networks: {counted}."]
    for base, name in (("oracle", "MindSpore's time"), ("onnx", "the time of the ONNX file")):
        ratios = [
            r["seconds"]["ours"] / r["seconds"][base]
            for r in results.values()
            if {"ours", base} <= r.get("seconds", {}).keys()
        ]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(
                f"Time over {name}: geometric mean {mean:.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
                f" ({len(ratios)} networks)."
            )
    return "\n".join(lines)


def _remark(result: Answer) -> str:
    what = verdict(result)
    if what == "oracle cannot":
        reason = result["oracle"]["failed"]
    elif what == "unsupported":
        reason = "; ".join(result["ours"]["unsupported"])
    elif what == "failed":
        reason = result["ours"]["failed"]
    else:
        reason = "rows of near equal scores in another order" if ours_reordered(result) else ""
    reason = reason.replace("|", "/").replace("\n", " ")
    return f"{what}: {reason}" if reason else what


def ours_reordered(result: Answer) -> bool:
    """Whether an output was compared row by row."""
    return bool(result.get("ours", {}).get("reordered"))


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.1f}"


def _ratio(seconds: Mapping[str, float], base: str) -> str:
    return f"{seconds['ours'] / seconds[base]:.2f}" if {"ours", base} <= seconds.keys() else ""


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()
