"""Runs files in real MindSpore Lite for `tools/conformance/converter_table.py`, as lines come on standard input.

A line is `MODEL INPUTS OUTPUTS`, as for `run_in_mindspore.py`. Run with an interpreter that has mindspore_lite
2.0.0, whose Python is 3.7.
"""

import os
import sys

import mindspore_lite as mslite
import numpy as np

ANSWER = "ANSWER "
TYPES = {getattr(mslite.DataType, name.upper()): name for name in ("bool", "int32", "int64", "float32")}
"""Element types of results, with numpy's names."""


def array(tensor):
    if 0 in tensor.shape:  # at which get_data_to_numpy ends the process
        return np.zeros(tensor.shape, TYPES[tensor.dtype])
    return tensor.get_data_to_numpy()


def run(path, inputs, outputs):
    given = np.load(inputs)
    kind = mslite.ModelType.MINDIR_LITE if path.endswith(".ms") else mslite.ModelType.MINDIR
    model = mslite.Model()
    model.build_from_file(path, kind)
    arrays = [np.ascontiguousarray(given["x%d" % i]) for i in range(len(given.files))]
    tensors = model.get_inputs()
    if any(tensor.shape != list(x.shape) for tensor, x in zip(tensors, arrays)):
        model.resize(tensors, [list(x.shape) for x in arrays])
        tensors = model.get_inputs()
    for tensor, x in zip(tensors, arrays):
        if tensor.dtype == mslite.DataType.INT32:  # what it makes of int64 in a .mindir
            x = x.astype(np.int32)
        tensor.set_data_from_numpy(x)
    results = [array(tensor) for tensor in model.predict(tensors)]
    np.savez(outputs, **{"y%d" % i: y for i, y in enumerate(results)})


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what MindSpore Lite prints goes to standard error
    for line in sys.stdin:
        try:
            run(*line.split())
            answer = ""
        except Exception as error:
            answer = "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:300])
        answers.write(ANSWER + answer + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
