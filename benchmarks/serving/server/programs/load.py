"""One client: asks a server one request after another and prints the seconds of each, as JSON.

Arguments: http or grpc, the address, the seconds to ask for, binary or json.
"""

import importlib
import json
import sys
import time

import numpy as np

kind, address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
protocol = importlib.import_module(f"tritonclient.{kind}")
client = protocol.InferenceServerClient(address)
tensor = protocol.InferInput("x", [1, 16], "FP32")
values = np.ones((1, 16), np.float32)
outputs = None
if kind == "http" and sys.argv[4] == "json":
    tensor.set_data_from_numpy(values, binary_data=False)
    outputs = [protocol.InferRequestedOutput("y", binary_data=False)]
else:
    tensor.set_data_from_numpy(values)
for _ in range(20):
    assert client.infer("mlp", [tensor], outputs=outputs).as_numpy("y").shape == (1, 4)
print("ready", flush=True)
sys.stdin.readline()
taken = []
end = time.perf_counter() + seconds
while (begin := time.perf_counter()) < end:
    client.infer("mlp", [tensor], outputs=outputs)
    taken.append(time.perf_counter() - begin)
print(json.dumps(taken))
