"""MNN: its module interface; files of its own converter. It has no pool."""

import os
from importlib import metadata

import numpy as np

from serving import serve


class Library:
    def __init__(self):
        import MNN.expr
        import MNN.nn

        self._expr, self._nn = MNN.expr, MNN.nn
        self.version = metadata.version("MNN")

    def convert(self, onnx, folder):
        import _tools  # what the command mnnconvert calls; the command itself reports to its makers

        made = os.path.join(folder, "model.mnn")
        arguments = ["--modelFile", onnx, "--MNNModel", made, "--bizCode", "MNN"]
        _tools.mnnconvert(["mnnconvert", "-f", "ONNX"] + arguments)
        return made

    def load(self, job):
        if job.workers:
            raise ValueError("MNN has no pool of workers")
        config = {"backend": "CPU", "numThread": job.threads, "precision": "high"}
        manager = self._nn.create_runtime_manager((config,))
        self._net = self._nn.load_module_from_file(job.file, job.inputs, job.outputs, runtime_manager=manager)
        return "fp32"

    def caller(self):
        expr, forward = self._expr, self._net.forward

        def variable(array):
            if array.dtype == np.int64:
                return expr.const(array.astype(np.int32), list(array.shape), expr.NCHW, expr.int)
            return expr.const(array, list(array.shape), expr.NCHW, expr.float)

        def call(arrays):
            results = forward([variable(array) for array in arrays])
            return [np.array(expr.convert(result, expr.NCHW).read()) for result in results]

        return call


serve(Library)
