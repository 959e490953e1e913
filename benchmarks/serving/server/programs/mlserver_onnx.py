"""MLServer's runtime class for onnxruntime."""

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Onnx(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        path = self.settings.parameters.uri
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload):
        (y,) = self.session.run(None, {"x": NumpyCodec.decode_input(payload.inputs[0])})
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", y)])
