"""MLServer's runtime class for onnxruntime; the model's version is "here" or "aside", see `with_kserve`."""

import asyncio

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
        (given,), (made,) = self.session.get_inputs(), self.session.get_outputs()
        self.given, self.made = given.name, made.name
        return True

    async def predict(self, payload):
        arrays = {self.given: NumpyCodec.decode_input(payload.inputs[0])}
        if self.settings.parameters.version == "here":
            (y,) = self.session.run(None, arrays)
        else:
            (y,) = await asyncio.to_thread(self.session.run, None, arrays)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output(self.made, y)])
