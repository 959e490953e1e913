"""Record what mindspore_lite computes of models whose inputs were resized.

    python tools/with_mindspore_lite/make_resize_goldens.py tests/data/lite_layers tests/data/resize/lite.npz    # mindspore_lite 2.0.0

Each model is given the inputs of its .npz, repeated or cut as `numpy.resize` does, in some other shapes with as many
dimensions: another batch, other heights and widths, another last dimension. The outputs have the names
"FILE WHICH y0", ...; the shapes are those of "FILE WHICH x0", .... Where mindspore_lite refuses or crashes nothing is
written. Every case runs in a child process.
"""

import sys
from pathlib import Path

import mindspore_lite as mslite
import numpy as np
from isolated import isolated


def others(shapes):
    """Other shapes of all inputs, by what is other."""
    batch = next((s[0] for s in shapes if s), None)
    found = {
        "batch": [[s[0] + 2, *s[1:]] if s and s[0] == batch else s for s in shapes],
        "middle": [[s[0], s[1] + 2, s[2] + 3, s[3]] if len(s) == 4 else s for s in shapes],
        "last": [[*s[:-1], s[-1] + 1] if s else s for s in shapes],
    }
    return {name: dims for name, dims in found.items() if dims != shapes}


def run(path, which):
    """The shapes of a model's inputs where `which` is None, else these and the outputs after a resize."""
    kind = mslite.ModelType.MINDIR_LITE if path.suffix == ".ms" else mslite.ModelType.MINDIR
    model = mslite.Model()
    model.build_from_file(str(path), kind)
    inputs = model.get_inputs()
    shapes = [t.shape for t in inputs]
    if which is None:
        return shapes
    dims = others(shapes)[which]
    given = np.load(str(path.parent / (path.stem.replace("_lite", "") + ".npz")))
    model.resize(inputs, dims)
    for i, (tensor, shape) in enumerate(zip(inputs, dims)):
        dtype = tensor.get_data_to_numpy().dtype
        tensor.set_data_from_numpy(np.resize(given[f"x{i}"], shape).astype(dtype))
    results = [tensor.get_data_to_numpy() for tensor in model.predict(inputs)]
    return dims, results


def main(folder, out):
    found = {}
    for path in sorted((*folder.glob("*.ms"), *folder.glob("*_lite.mindir"))):
        shapes, _ = isolated(run, path, None)
        for which in others(shapes or []):
            answer, _ = isolated(run, path, which)
            for letter, arrays in zip("xy", answer or ()):
                for i, array in enumerate(arrays):
                    found[f"{path.name} {which} {letter}{i}"] = np.asarray(array)
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(str(out), **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
