"""BERT-base and ResNet-50 with random weights, as MindSpore exports them.

Run with an interpreter that has MindSpore and mindcv, at the root of the repository:

    python -m tools.with_mindspore.make_benchmark_models FOLDER

FOLDER gets bert_base.mindir and resnet50.mindir (0.5 GB), for `python -m benchmarks weights --models FOLDER`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mindcv
import mindspore as ms
import numpy as np
from tests.zoo.networks import Bert, BertLayer


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    bert = Bert(words=30522, width=768, layers=0, longest=512)
    bert.layers.extend([BertLayer(768, 12) for _ in range(12)])
    ids = ms.Tensor(np.zeros((1, 128), np.int32))
    export(bert, (ids, ids, ids), folder / "bert_base.mindir")
    image = ms.Tensor(np.zeros((1, 3, 224, 224), np.float32))
    export(mindcv.create_model("resnet50"), (image,), folder / "resnet50.mindir")


def export(net: ms.nn.Cell, inputs: tuple[ms.Tensor, ...], path: Path) -> None:
    net.set_train(False)
    ms.export(net, *inputs, file_name=str(path), file_format="MINDIR")


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    main(Path(sys.argv[1]).absolute())
