"""EfficientNet-Lite0 as the converter quantizes it: bytes, cosine with the original, milliseconds.

    python -m benchmarks quantization [--folder DIR] [--rounds 20] [--threads 1]

Samples are the two pictures of the quickstart; the cosine is the smaller of theirs. Times are medians of
rounds in turns, in one process, on default engines. DIR keeps the files.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np

import pinnace as mslite
from benchmarks.conversion.converting import prepared, time_of
from benchmarks.suite.machine import describe

DATA = Path(mslite.__file__).parent / "data"
MODEL = DATA / "efficientnet_lite0.mindir"
PICTURES = {
    "calibrate_size": "2",
    "input_type": "IMAGE",
    "image_to_format": "RGB",
    "normalize_mean": "[123.675,116.28,103.53]",
    "normalize_std": "[58.395,57.12,57.375]",
    **{f"resize_{side}": "256" for side in ("width", "height")},
    **{f"center_crop_{side}": "224" for side in ("width", "height")},
}
_FULL, _OPTIONS = {"quant_type": "FULL_QUANT"}, "full_quant_param"
WAYS = {
    "`WEIGHT_QUANT`, 8 bits": (".ms", {"quant_type": "WEIGHT_QUANT"}, {}),
    "`WEIGHT_QUANT`, 4 bits": (".ms", {"quant_type": "WEIGHT_QUANT", "bit_num": "4"}, {}),
    "`FULL_QUANT`": (".ms", _FULL, {}),
    "`FULL_QUANT`, `.mindir`": (".mindir", _FULL, {}),
    "`FULL_QUANT`, `bias_correction=false`": (".ms", _FULL, {"bias_correction": "false"}),
    "`FULL_QUANT`, `per_channel=false`": (".ms", _FULL, {"per_channel": "false"}),
    "`FULL_QUANT`, `REMOVAL_OUTLIER`": (".ms", _FULL, {"activation_quant_method": "REMOVAL_OUTLIER"}),
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks quantization", description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    print(", ".join(f"{key}: {value}" for key, value in describe().items()), end="\n\n")
    print("| | bytes | cosine | ms |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        pictures = folder / "pictures"
        pictures.mkdir(parents=True, exist_ok=True)
        for name in ("chelsea.png", "coffee.png"):
            (pictures / name).write_bytes((DATA / name).read_bytes())
        made = {name: _made(folder / str(i), pictures, *way) for i, (name, way) in enumerate(WAYS.items())}
        files = {"the model": (MODEL, 1.0), **made}
        x = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
        runs = {name: prepared(file, _kind(file), [x], options.threads) for name, (file, _) in files.items()}
        times = {name: [] for name in files}
        for _ in range(options.rounds):
            for name, run in runs.items():
                times[name].append(time_of(run))
        for name, (file, cosine) in files.items():
            size, took = file.stat().st_size / 1e6, statistics.median(times[name]) * 1e3
            print(f"| {name} | {size:.1f} MB | {cosine:.4f} | {took:.1f} |")


def _made(
    path: Path, pictures: Path, suffix: str, common: dict[str, str], own: dict[str, str]
) -> tuple[Path, float]:
    """A quantized file, and its cosine with the original."""
    converter = mslite.Converter()
    converter.save_type = _kind(path.with_suffix(suffix))
    converter.set_config_info("common_quant_param", common)
    converter.set_config_info("data_preprocess_param", {"calibrate_path": f"x:{pictures}", **PICTURES})
    if own:
        converter.set_config_info(_OPTIONS, own)
    converter.convert(mslite.FmkType.MINDIR, MODEL, path)
    return converter.summary.files[0], converter.summary.likeness.cosine


def _kind(path: Path) -> mslite.ModelType:
    return mslite.ModelType.MINDIR_LITE if path.suffix == ".ms" else mslite.ModelType.MINDIR
