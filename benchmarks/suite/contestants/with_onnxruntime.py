"""onnxruntime: a session; for a pool a `ThreadPoolExecutor` in front of it, as servers have it."""

from concurrent.futures import ThreadPoolExecutor

from serving import serve


class Library:
    def __init__(self):
        import onnxruntime

        self._onnxruntime = onnxruntime
        self.version = onnxruntime.__version__

    def load(self, job):
        chosen = self._onnxruntime.SessionOptions()
        chosen.intra_op_num_threads = job.threads
        self._session = self._onnxruntime.InferenceSession(job.file, chosen, ["CPUExecutionProvider"])
        self._names = [port.name for port in self._session.get_inputs()]
        self._pool = ThreadPoolExecutor(job.workers) if job.workers else None
        return "fp32"

    def caller(self):
        names, run, pool = self._names, self._session.run, self._pool
        if pool:
            return lambda arrays: pool.submit(run, None, dict(zip(names, arrays))).result()
        return lambda arrays: run(None, dict(zip(names, arrays)))


serve(Library)
