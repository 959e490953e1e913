"""KServe's own server with onnxruntime. Arguments: the model, the ports of HTTP and gRPC, here or aside.

"here" computes in the event loop, which suits a model of microseconds; "aside" in threads.
"""

import asyncio
import sys
from pathlib import Path

import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer

path, http_port, grpc_port, where = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
name = Path(path).stem
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
(given,), (made,) = session.get_inputs(), session.get_outputs()


class Onnx(Model):
    def __init__(self):
        super().__init__(name)
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        arrays = {given.name: payload.inputs[0].as_numpy()}
        if where == "here":
            (y,) = session.run(None, arrays)
        else:
            (y,) = await asyncio.to_thread(session.run, None, arrays)
        output = InferOutput(made.name, list(y.shape), "FP32")
        output.set_data_from_numpy(y, binary_data=True)
        return InferResponse(payload.id or "", name, [output])


ModelServer(http_port=http_port, grpc_port=grpc_port, enable_grpc=True, workers=1).start([Onnx()])
