"""Runs MindIR files in real MindSpore for `tools/conformance/converter_table.py`, as lines come on standard input.

A line is `MODEL INPUTS OUTPUTS`: a `.mindir`, an `.npz` with x0, x1, ..., and where the results go as y0, y1,
... The answer is a line on standard output that begins with ANSWER: empty, or the error. Run with an
interpreter that has mindspore.
"""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import nn

ANSWER = "ANSWER "


def leaves(value):
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def array(value):
    if value.dtype == ms.bfloat16:
        return value.astype(ms.float32).asnumpy()
    return value.asnumpy()


def run(model, inputs, outputs):
    given = np.load(inputs)
    network = nn.GraphCell(ms.load(model))
    results = network(
        *(ms.Tensor(given[f"x{i}"]) for i in range(sum(name[0] == "x" for name in given.files)))
    )
    np.savez(outputs, **{f"y{i}": array(y) for i, y in enumerate(leaves(results))})


def main():
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what MindSpore prints goes to standard error
    for line in sys.stdin:
        try:
            run(*line.split())
            answer = ""
        except Exception as error:
            answer = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        print(f"{ANSWER}{answer}", file=answers, flush=True)


if __name__ == "__main__":
    main()
