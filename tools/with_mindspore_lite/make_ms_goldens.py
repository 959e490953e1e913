"""Convert the models of `make_ms_models.py` with MindSpore Lite, plain and packed, and run them there.

    python tools/with_mindspore_lite/make_ms_goldens.py MODELS tests/data/ms        # needs mindspore_lite 2.0.0

What is quantized is converted to NAME_lite.mindir too, which shares its NAME.npz. Each NAME.ms gets a NAME.npz with inputs x0.. and outputs y0.. of MindSpore Lite's own runtime, where that
can run the file: release 2.0.0 fails on products and convolutions with quantized weights. Their files are
kept all the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mindspore_lite as mslite
import numpy as np

QUANTIZED = {"quant_type": "WEIGHT_QUANT", "min_quant_weight_size": "0", "min_quant_weight_channel": "1"}
DYNAMIC = {**QUANTIZED, "quant_type": "DYNAMIC_QUANT", "bit_num": "8"}
MIXED = {"init_scale": "0.02", "auto_tune": "false"}


def convert(source, target, bits=None, half=False, mindir=False):
    """Write TARGET.ms or TARGET_lite.mindir; `bits` 0 is a width for each layer, -1 dynamic quantization."""
    converter = mslite.Converter()
    converter.save_type = mslite.ModelType.MINDIR if mindir else mslite.ModelType.MINDIR_LITE
    converter.weight_fp16 = half
    if bits is not None:
        settings = DYNAMIC if bits == -1 else dict(QUANTIZED, bit_num=str(bits))
        converter.set_config_info("common_quant_param", settings)
    if bits == 0:
        converter.set_config_info("mixed_bit_weight_quant_param", MIXED)
    target = str(target) + ("_lite" if mindir else "")
    converter.convert(mslite.FmkType.ONNX, str(source), target)
    os.chmod(target + (".mindir" if mindir else ".ms"), 0o644)


def run(path):
    model = mslite.Model()
    model.build_from_file(str(path), mslite.ModelType.MINDIR_LITE)
    random = np.random.RandomState(3)
    arrays = {}
    inputs = model.get_inputs()
    if any(-1 in tensor.shape for tensor in inputs):
        model.resize(inputs, [[3 if d == -1 else d for d in tensor.shape] for tensor in inputs])
        inputs = model.get_inputs()
    for i, tensor in enumerate(inputs):
        whole = tensor.dtype == mslite.DataType.INT32
        array = np.arange(tensor.shape[0], dtype=np.int32) if whole else random.standard_normal(tensor.shape)
        arrays[f"x{i}"] = array if whole else array.astype(np.float32)
        tensor.set_data_from_numpy(arrays[f"x{i}"])
    for i, tensor in enumerate(model.predict(inputs)):
        arrays[f"y{i}"] = tensor.get_data_to_numpy()
    np.savez(str(path.with_suffix(".npz")), **arrays)


def main(models, out):
    jobs = [(name, None, False) for name in ("network", "network_free", "product")]
    jobs += [(name, None, True) for name in ("network", "dense")]
    jobs += [("dense", bits, False) for bits in (1, 2, 3, 4, 5, 7, 8, 9, 12, 16)]
    jobs += [("few", bits, False) for bits in (4, 8)]
    jobs += [("sparse", bits, False) for bits in (1, 4, 8, 12)]
    jobs += [("convolution", bits, False) for bits in (None, 0, 4)]
    jobs += [(name, 8, False) for name in ("network", "product")]
    jobs += [(name, -1, False) for name in ("network", "product")]
    for name, bits, half in jobs:
        kind = "_half" if half else {None: "", 0: "_mixed", -1: "_dynamic"}.get(bits, f"_{bits}bit")
        target = out / (name + kind)
        convert(models / (name + ".onnx"), target, bits, half)
        try:
            if bits:
                convert(models / (name + ".onnx"), target, bits, half, mindir=True)
            run(target.with_suffix(".ms"))
        except RuntimeError as error:
            print(target.name, "does not convert to .mindir, or not run:", error)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
