"""Triton with onnxruntime, by nvidia-pytriton. Arguments: the model, ports of HTTP and gRPC, here or aside.

"aside" has two instances, each with a session of one thread.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

path, http_port, grpc_port, where = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
(given,), (made,) = session.get_inputs(), session.get_outputs()


def infer(requests):
    return [dict(zip([made.name], session.run(None, request.data), strict=True)) for request in requests]


config = TritonConfig(http_port=http_port, grpc_port=grpc_port, http_address="127.0.0.1", allow_metrics=False)
with Triton(config=config) as triton:
    triton.bind(
        model_name=Path(path).stem,
        infer_func=infer if where == "here" else [infer, infer],
        inputs=[Tensor(name=given.name, dtype=np.float32, shape=tuple(given.shape))],
        outputs=[Tensor(name=made.name, dtype=np.float32, shape=tuple(made.shape))],
        config=ModelConfig(batching=False),
    )
    triton.serve()
