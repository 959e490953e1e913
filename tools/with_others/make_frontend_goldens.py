"""Results of TFLite's own runtime for tests/data/frontends.

    python tools/with_others/make_frontend_goldens.py      # wants ai-edge-litert

face_detection_short_range.tflite is MediaPipe's BlazeFace, a small MobileNet with float16 weights, as the package
mediapipe 0.10.14 has it (Apache-2.0, Copyright The MediaPipe Authors).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "frontends"


def main() -> None:
    for file in sorted(FOLDER.glob("*.tflite")):
        model = Interpreter(str(file))
        model.allocate_tensors()
        (port,) = model.get_input_details()
        # numbers that a short formula gives, so that they need not be kept
        x = (np.arange(np.prod(port["shape"])) * 7919 % 256).astype(port["dtype"]).reshape(port["shape"])
        if x.dtype == np.float32:
            x /= 255
        model.set_tensor(port["index"], x)
        model.invoke()
        rows = {row["name"]: model.get_tensor(row["index"]) for row in model.get_output_details()}
        np.savez_compressed(file.with_suffix(".npz"), **rows)
        print(file.name, x.dtype, x.shape, {name: y.shape for name, y in rows.items()})


if __name__ == "__main__":
    main()
