"""The manual's page of upstream's scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

HEAD = """# Upstream's example scripts

The example scripts of MindSpore Lite's repository (`mindspore-ai/mindspore-lite`, folder
`mindspore-lite/examples/base_models`) run unchanged under `pinnace exec`. `tools/conformance/upstream_examples` shows it, with a
checkout of that repository: it makes small models with random weights for each script, with the inputs and outputs that
the script uses, converts them by the documented command

<!-- not run: its files are those of a script below -->
```bash
converter_lite --fmk=ONNX --modelFile=./NAME.onnx --outputFile=./NAME --optimize=ascend_oriented \\
    --saveType=MINDIR --configFile=./NAME.ini
```

and runs the script on the CPU and on a simulated Ascend. "right" means that everything agrees with onnxruntime without
optimization on the same ONNX models and inputs: what the predictions gave (to 2e-4 of the largest value), what the script
printed, generated text included, and the files that it wrote. The models have upstream's inputs and outputs, but not its
networks or weights, and nothing ran on an Ascend.

{right} of {tried} scripts are right on both. Scripts that are not in the table were not tried. Five were held out until Pinnace
was done: those of blip_vqa_base, cain, clip_vit_base_patch32, cogvlm and convnext, the first folders without one in the
table. They ran without a change of Pinnace.

| script | commit | CPU | simulated Ascend | reason |
| --- | --- | --- | --- | --- |
"""


def right(results: Mapping[str, Sequence[str]]) -> int:
    """The number of scripts that are right on both devices."""
    return sum(cpu == ascend == "right" for cpu, ascend, _ in results.values())


def write(file: Path, results: Mapping[str, Sequence[str]], commits: Mapping[str, str]) -> None:
    """Write the page: a line a script with its results on both devices, and why one is not right."""
    lines = [
        f"| `{script}` | `{commits.get(script, '')[:10]}` | {cpu} | {ascend} | {reason.replace('|', '¦')} |"
        for script, (cpu, ascend, reason) in sorted(results.items())
    ]
    file.write_text(HEAD.format(right=right(results), tried=len(results)) + "\n".join(lines) + "\n")
