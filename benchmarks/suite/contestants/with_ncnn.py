"""ncnn: an extractor for each prediction; files of pnnx, its converter. It has no pool."""

import os
import re
import subprocess
import sysconfig

import numpy as np

from serving import serve

PLACE = r"%s\.numpy\((?:\), )?batch_index=(\d+)\)"
"""Where the script that pnnx writes beside a model tells which dimension of a port is the batch."""


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
            if not name.startswith(("model.ncnn.", "model_ncnn.")):
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
        with open(file_of_script(job.file)) as script:
            text = script.read()
        self._given = [(name, batch_of(text, name)) for name in net.input_names()]
        self._made = [(name, batch_of(text, name)) for name in net.output_names()]
        return "fp32"

    def caller(self):
        net, ncnn, given, made = self._net, self._ncnn, self._given, self._made

        def call(arrays):
            extractor = net.create_extractor()
            for (name, batch), array in zip(given, arrays):
                whole = array.astype(np.int32) if array.dtype == np.int64 else array
                extractor.input(name, ncnn.Mat(whole, batch_index=batch).clone())
            return [np.array(extractor.extract(name)[1].numpy(batch_index=batch)) for name, batch in made]

        return call


def file_of_script(param):
    return param.replace("model.ncnn.param", "model_ncnn.py")


def batch_of(script, port):
    return int(re.search(PLACE % port, script).group(1))


serve(Library)
