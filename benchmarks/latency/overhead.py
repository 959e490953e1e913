"""What the way through `predict` costs: a model that does nothing, beside onnxruntime's own `run`.

    python -m benchmarks overhead [--rounds 7] [--runs 20000]

Identity of 16 floats, one thread, one process; microseconds a call, the least of the rounds, in turn.
"""

from __future__ import annotations

import argparse
import os
import timeit

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from pinnace import Context, Model, ModelType

NOTHING = '<ir_version: 10, opset_import: ["": 20]> g (float[1,16] x) => (float[1,16] y) { y = Identity(x) }'


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks overhead")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, default=20_000)
    options = parser.parse_args(arguments)
    os.environ["PINNACE_CACHE_DIR"] = "off"
    data = ir.to_proto(ir.from_onnx_text(NOTHING)).SerializeToString()
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = 1
    session = ort.InferenceSession(data, chosen, providers=["CPUExecutionProvider"])
    context = Context()
    context.cpu.thread_num = 1
    model = Model()
    model.build_from_buffer(data, ModelType.ONNX, context)
    x = np.ones((1, 16), np.float32)
    inputs = model.get_inputs()
    inputs[0].set_data_from_numpy(x)
    outputs = model.predict(inputs)
    ways = {
        "InferenceSession.run": lambda: session.run(None, {"x": x}),
        "predict, tensors": lambda: model.predict(inputs),
        "predict, arrays": lambda: model.predict([x]),
        "predict, outputs bound": lambda: model.predict(inputs, outputs),
    }
    least = dict.fromkeys(ways, np.inf)
    for _ in range(options.rounds):
        for name, way in ways.items():
            seconds = timeit.timeit(way, number=options.runs) / options.runs
            least[name] = min(least[name], seconds)
    base = least["InferenceSession.run"]
    print("| way | us | over run |\n| --- | ---: | ---: |")
    for name, seconds in least.items():
        print(f"| {name} | {1e6 * seconds:.1f} | {seconds / base:.2f} |")
