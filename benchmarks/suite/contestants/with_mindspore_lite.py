"""mindspore_lite 2.0.0: `Model`, and `ModelParallelRunner` for a pool; files of its own converter."""

import os

import numpy as np

from serving import serve

VERSION = "2.0.0"  # the package does not tell


class Library:
    def __init__(self):
        import mindspore_lite

        self._lite = mindspore_lite
        self.version = VERSION

    def convert(self, onnx, folder):
        for kind, suffix in (
            (self._lite.ModelType.MINDIR, ".mindir"),
            (self._lite.ModelType.MINDIR_LITE, ".ms"),
        ):
            converter = self._lite.Converter()
            converter.save_type = kind
            converter.input_format = self._lite.Format.NCHW
            converter.convert(self._lite.FmkType.ONNX, onnx, os.path.join(folder, "model"))
            made = os.path.join(folder, "model" + suffix)
            if os.path.exists(made):
                return made
        raise ValueError("the converter made no file")

    def load(self, job):
        context = self._lite.Context()
        context.target = ["cpu"]
        context.cpu.thread_num = job.threads
        context.cpu.precision_mode = "enforce_fp32"
        if job.workers:
            context.parallel.workers_num = job.workers
            self._model = self._lite.ModelParallelRunner()
            self._model.build_from_file(job.file, context)
        else:
            kinds = {".ms": self._lite.ModelType.MINDIR_LITE}
            kind = kinds.get(os.path.splitext(job.file)[1], self._lite.ModelType.MINDIR)
            self._model = self._lite.Model()
            self._model.build_from_file(job.file, kind, context)
        self._inputs, self._outputs = job.inputs, job.outputs
        return "fp32"

    def caller(self):
        tensors, predict, outputs = self._model.get_inputs(), self._model.predict, self._outputs
        ordered = [{tensor.name: tensor for tensor in tensors}[name] for name in self._inputs]

        def call(arrays):
            for tensor, array in zip(ordered, arrays):
                tensor.set_data_from_numpy(array.astype(np.int32) if array.dtype == np.int64 else array)
            made = {tensor.name: tensor for tensor in predict(tensors)}
            return [made[name].get_data_to_numpy() for name in outputs]

        return call


serve(Library)
