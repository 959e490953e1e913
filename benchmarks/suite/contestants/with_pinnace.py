"""Pinnace: `Model`, and `ModelParallelRunner` for a pool. A cache folder is its compile cache."""

import os

from serving import serve

MODES = {"fp32": "enforce_fp32", "16 bit": "preferred_fp16"}
NAMES = {"float16": "fp16", "bfloat16": "bf16"}


class Library:
    engine = ""

    def __init__(self):
        import pinnace

        self._pinnace = pinnace
        self.version = pinnace.__version__

    def load(self, job):
        if job.cache:
            os.environ["PINNACE_CACHE_DIR"] = job.cache
        context = self._pinnace.Context()
        context.target = ["cpu"]
        context.cpu.thread_num = job.threads
        context.cpu.precision_mode = MODES[job.precision]
        if job.workers:
            context.parallel.workers_num = job.workers
            context.parallel.config_info = job.options
            self._model = self._pinnace.ModelParallelRunner()
            self._model.build_from_file(job.file, context)
        else:
            self._model = self._pinnace.Model()
            self._model.build_from_file(job.file, self._pinnace.ModelType.ONNX, context)
        self.engine = self._model.get_model_info("engine")
        if self._model.get_model_info("form"):
            return "fp16 weights"
        return NAMES.get(self._model.get_model_info("precision"), "fp32")

    def caller(self):
        predict = self._model.predict
        return lambda arrays: [tensor.get_data_to_numpy() for tensor in predict(arrays)]


serve(Library)
