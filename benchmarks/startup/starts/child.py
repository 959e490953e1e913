"""One start: import, build, and a prediction from zeros. It imports nothing that would be imported for it."""

import sys
import time

begin = time.perf_counter()
name, path, engine, precision = (*sys.argv[1:], "", "")[:4]


def with_onnxruntime():
    import onnxruntime

    started = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    built = time.perf_counter() - started
    import numpy as np

    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    fed = {
        one.name: np.zeros([size if isinstance(size, int) else 1 for size in one.shape], kinds[one.type])
        for one in session.get_inputs()
    }
    session.run(None, fed)
    return built, session


def with_pinnace():
    import pinnace

    started = time.perf_counter()
    context = pinnace.Context()
    context.cpu.thread_num = 1
    context.cpu.provider = engine
    if precision:
        context.cpu.precision_mode = precision
    model = pinnace.Model(path, context)
    built = time.perf_counter() - started
    import numpy as np

    inputs = model.get_inputs()
    model.predict([np.zeros([max(1, size) for size in one.shape], one.dtype.to_numpy()) for one in inputs])
    return built, model


built, held = with_onnxruntime() if name == "onnxruntime" else with_pinnace()
end = time.perf_counter()


def kilobytes(file, field):
    with open(f"/proc/self/{file}", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field))


import json  # noqa: E402

peak, anonymous = kilobytes("status", "VmHWM") / 1024, kilobytes("smaps_rollup", "Anonymous") / 1024
print(json.dumps({"total": end - begin, "build": built, "peak": peak, "anonymous": anonymous}))
