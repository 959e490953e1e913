"""ONNX's own operator tests through Pinnace's ONNX door and through plain onnxruntime, side by side.

    python tools/conformance/onnx_backend.py [--verbose]

Wherever onnxruntime passes, Pinnace must, with the same outputs: it hands the graph to the same engine. Where
a rule of `pinnace/engines/onnxruntime/rules` wrote an operator otherwise they may differ by the rounding of sums. Prints
the counts and every difference; exits with 1 where there is one.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from pinnace.building.build import build_model as build
from pinnace.errors import PinnaceError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

Arrays = list[np.ndarray]


def by_onnxruntime(model: bytes, inputs: Arrays) -> Arrays:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=False)))


def by_pinnace(model: bytes | Path, inputs: Arrays) -> Arrays:
    executable = build(model, None, Target(threads=1), Settings())
    try:
        return executable.execution().run([np.asarray(x, order="C") for x in inputs])
    finally:
        executable.close()


def same(a: Arrays, b: Arrays) -> bool:
    return len(a) == len(b) and all(map(same_array, a, b))


def same_array(x: np.ndarray, y: np.ndarray) -> bool:
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return False
    return x.tolist() == y.tolist() if x.dtype == object else x.tobytes() == y.tobytes()


def verdict_of(given: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    if same(given, expected):
        return "same"
    close = len(given) == len(expected) and all(map(close_array, given, expected))
    return "same but for rounding" if close else "different"


def close_array(x: np.ndarray, y: np.ndarray) -> bool:
    """A rule wrote the operator otherwise: sums of float32 in another order, each step 1.2e-7."""
    floats = (x.dtype, x.shape) == (y.dtype, y.shape) and x.dtype == np.float32
    return floats and np.allclose(x, y, rtol=1e-6, atol=1e-6, equal_nan=True)


def judge(case: TestCase) -> tuple[str, str]:
    """The verdict on one case, and what to say of it."""
    model, given = case.model.SerializeToString(), case.data_sets[0][0]
    if any(x is None or isinstance(x, list) for x in given):
        return "takes what is no tensor", ""
    inputs = [numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x) for x in given]
    try:
        expected = by_onnxruntime(model, inputs)
    except Exception as error:
        return "onnxruntime refuses it", str(error)
    if not all(isinstance(y, np.ndarray) for y in expected):
        return "gives what is no tensor", ""
    try:
        return verdict_of(by_pinnace(model, inputs), expected), ""
    except PinnaceError as error:
        return "only onnxruntime runs it", str(error)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--verbose", action="store_true", help="name the cases of every verdict")
    verbose = parser.parse_args().verbose
    counts: Counter[str] = Counter()
    for case in load_model_tests(kind="node"):
        verdict, reason = judge(case)
        counts[verdict] += 1
        if verbose or verdict in ("different", "only onnxruntime runs it"):
            print(f"{case.name}: {verdict}: {reason.splitlines()[0] if reason else ''}")
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    raise SystemExit(bool(counts["different"] or counts["only onnxruntime runs it"]))


if __name__ == "__main__":
    main()
