"""ncnn: an extractor for each prediction; files of pnnx, its converter. It has no pool."""

import os
import subprocess
import sysconfig

import numpy as np
from serving import serve

BATCHED = 233  # pnnx's mark of a first dimension that is a batch


class Library:
    def __init__(self):
        import ncnn

        self._ncnn = ncnn
        self.version = ncnn.__version__

    def convert(self, onnx, folder):
        made = os.path.join(folder, "model.ncnn.param")
        program = os.path.join(sysconfig.get_path("purelib"), "pnnx", "pnnx")
        copy = os.path.join(folder, "model.onnx")  # it writes beside what it reads
        os.symlink(onnx, copy)
        os.chmod(program, 0o755)
        subprocess.run([program, copy, "fp16=0"], check=True, timeout=240)
        for name in os.listdir(folder):
            if not name.startswith("model.ncnn."):
                os.remove(os.path.join(folder, name))
        return made

    def load(self, job):
        if job.workers:
            raise ValueError("ncnn has no pool of workers")
        net = self._net = self._ncnn.Net()
        net.opt.num_threads = job.threads
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = False
        if net.load_param(job.file) or net.load_model(job.file[: -len("param")] + "bin"):
            raise ValueError("ncnn does not read the file that pnnx made")
        return "fp32"

    def caller(self):
        net, ncnn = self._net, self._ncnn
        given, made = net.input_names(), net.output_names()

        def call(arrays):
            extractor = net.create_extractor()
            for name, array in zip(given, arrays):
                whole = array.astype(np.int32) if array.dtype == np.int64 else array
                extractor.input(name, ncnn.Mat(whole, batch_index=BATCHED))
            return [np.array(extractor.extract(name)[1].numpy(batch_index=BATCHED)) for name in made]

        return call


serve(Library)
