"""OpenVINO: an inference request; for a pool as many streams as workers, and a request for every client.

The streams have a queue of their own in front of them. Inputs are shared, not copied; outputs are copied
out, because the next prediction of the request writes over them.
"""

from serving import serve

HINTS = {"bf16": "BF16", "f16": "FP16"}


class Library:
    def __init__(self):
        import openvino

        self._core = openvino.Core()
        self.version = openvino.__version__.partition("-")[0]

    def load(self, job):
        hint = self._short_format() if job.precision == "16 bit" else "f32"
        config = {
            "INFERENCE_NUM_THREADS": job.threads * max(job.workers, 1),
            "NUM_STREAMS": max(job.workers, 1),
            "INFERENCE_PRECISION_HINT": hint,
            "PERFORMANCE_HINT": "THROUGHPUT" if job.workers else "LATENCY",
        }
        if job.cache:
            config["CACHE_DIR"] = job.cache
        self._compiled = self._core.compile_model(job.file, "CPU", config)
        return {"f16": "fp16", "f32": "fp32"}.get(hint, hint)

    def _short_format(self):
        """The 16-bit format that the processor computes in, "f32" where it has none."""
        can = self._core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        return next((hint for hint, name in HINTS.items() if name in can), "f32")

    def caller(self):
        infer = self._compiled.create_infer_request().infer
        return lambda arrays: list(infer(arrays, share_inputs=True).to_tuple())


serve(Library)
