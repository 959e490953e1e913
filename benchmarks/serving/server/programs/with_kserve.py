"""KServe's own server with onnxruntime. Arguments: the model, the port of HTTP, the port of gRPC."""

import sys

import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer

path, http_port, grpc_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Onnx(Model):
    def __init__(self):
        super().__init__("mlp")
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        (y,) = session.run(None, {"x": payload.inputs[0].as_numpy()})
        output = InferOutput("y", list(y.shape), "FP32")
        output.set_data_from_numpy(y, binary_data=True)
        return InferResponse(payload.id or "", "mlp", [output])


ModelServer(http_port=http_port, grpc_port=grpc_port, enable_grpc=True, workers=1).start([Onnx()])
