"""One client: asks a server one request after another and prints the seconds of each, as JSON.

Arguments: http or grpc, the address, the seconds to ask for, binary or json, the names of the model and of
its output, and a .npz with its input. The last number is the client's own CPU seconds.
"""

import importlib
import json
import sys
import time

import numpy as np

kind, address, seconds, form, model, output, file = sys.argv[1:8]
protocol = importlib.import_module(f"tritonclient.{kind}")
client = protocol.InferenceServerClient(address)
((name, values),) = np.load(file).items()
tensor = protocol.InferInput(name, values.shape, "FP32")
outputs = None
if kind == "http" and form == "json":
    tensor.set_data_from_numpy(values, binary_data=False)
    outputs = [protocol.InferRequestedOutput(output, binary_data=False)]
else:
    tensor.set_data_from_numpy(values)
for _ in range(20):
    assert np.isfinite(client.infer(model, [tensor], outputs=outputs).as_numpy(output)).all()
print("ready", flush=True)
sys.stdin.readline()
taken = []
used, end = time.process_time(), time.perf_counter() + float(seconds)
while (begin := time.perf_counter()) < end:
    client.infer(model, [tensor], outputs=outputs)
    taken.append(time.perf_counter() - begin)
print(json.dumps([*taken, time.process_time() - used]))
