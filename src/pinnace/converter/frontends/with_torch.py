"""An ONNX file out of a TorchScript or an ExportedProgram, by torch.onnx; a script for a process of its own.

    python with_torch.py PYTORCH MODEL OUTPUT SHAPES

SHAPES are the inputs' in JSON. An ExportedProgram has its own; a TorchScript knows neither shapes nor element
types, so that it is run: with float32, and where it refuses that, with int64.
"""

import itertools
import json
import os
import sys
import zipfile
from typing import Any

_FREE = 2
"""The size of a free dimension while the model is exported."""
_TRIALS = 64


def main(framework: str, model: str, output: str, shapes: str) -> None:
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # no pickle that runs code
    import torch

    with zipfile.ZipFile(model) as archive:
        scripted = any(name.endswith("/constants.pkl") for name in archive.namelist())
    if not scripted:
        torch.onnx.export(torch.export.load(model), (), output, dynamo=True)
        return
    module = torch.jit.load(model, map_location="cpu").eval()
    named = _inputs(module, json.loads(shapes))
    dynamic = {name: [i for i, d in enumerate(dims) if d < 0] for name, dims in named.items()}
    torch.onnx.export(
        module,
        _examples(module, list(named.values())),
        output,
        input_names=list(named),
        dynamic_axes={name: axes for name, axes in dynamic.items() if axes},
        dynamo=False,
    )


def _inputs(module: Any, shapes: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the shapes in the order of the arguments."""
    arguments = module.forward.schema.arguments[1:]
    names = [a.name for a in arguments if not a.has_default_value() or a.name in shapes]
    if sorted(names) != sorted(shapes):
        wanted = ";".join(f"{name}:..." for name in names)
        raise ValueError(f"TorchScript has no shapes: give those of all inputs, {wanted}")
    return {name: shapes[name] for name in names}


def _examples(module: Any, shapes: list[list[int]]) -> tuple[Any, ...]:
    """Return inputs that the module takes."""
    import torch

    sizes = [[_FREE if d < 0 else d for d in dims] for dims in shapes]
    first = None
    for dtypes in itertools.islice(
        itertools.product((torch.float32, torch.int64), repeat=len(sizes)), _TRIALS
    ):
        given = tuple(torch.ones(dims, dtype=dtype) for dims, dtype in zip(sizes, dtypes, strict=True))
        try:
            with torch.no_grad():
                module(*given)
            return given
        except RuntimeError as error:
            first = first or error
    raise ValueError(f"the model does not take these shapes: {str(first).splitlines()[-1]}")


if __name__ == "__main__":
    main(*sys.argv[1:5])
