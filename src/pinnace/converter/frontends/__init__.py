"""The ways in for files that Pinnace does not run: each becomes an ONNX file, which is converted.

TensorFlow's, TFLite's and PyTorch's files are read by the library that knows them best. It runs in a process
of its own: a damaged file may end it, its memory is bounded, and none of it stays in this one. Caffe has no
library that is kept; `pinnace.converter.caffe` reads its files.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import cast

from pinnace.converter.convert import Conversion, Summary, convert
from pinnace.converter.optimizing import Turn
from pinnace.errors import ArgumentValueError, ModelFormatError, NotSupportedError
from pinnace.formats import FRAMEWORKS
from pinnace.machine.cgroup import usable_memory
from pinnace.shapes import named_shapes
from pinnace.types import ModelType
from pinnace.weights.source import Source

_SCRIPTS = {
    "TFLITE": ("with_tf2onnx.py", {"tf2onnx": "tf2onnx", "tensorflow": "tensorflow-cpu"}),
    "TF": ("with_tf2onnx.py", {"tf2onnx": "tf2onnx", "tensorflow": "tensorflow-cpu"}),
    "PYTORCH": ("with_torch.py", {"torch": "torch", "onnxscript": "onnxscript"}),
}
"""The script of a framework, and the modules that it imports with the packages that have them."""
_PROGRAMS = {
    "PYTORCH": "torch.onnx.export writes",
    "TF": "python -m tf2onnx.convert writes",
}
"""Frameworks whose files run when their library reads them, and what makes the file that does not."""
_CHILD = """\
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv.pop(1)),) * 2)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
_LONGEST = 3600
"""Seconds that a library may take."""
_LARGEST = (1 << 31) - 1
"""Bytes of a message of protobuf."""
_TAIL = 4000
"""Bytes at the end of its output that an error looks at."""
_CHANNELS_LAST = ("TFLITE", "TF")
"""Frameworks whose pictures have their channels last."""


def framework_of(model: Path) -> str:
    """Return the framework of a file by its suffix; MINDIR, which is told from the content, if unknown."""
    return "TF" if model.is_dir() else FRAMEWORKS.get(model.suffix, "MINDIR")


def turned(framework: str, layout: str) -> Turn:
    """Return how pictures of a framework are turned to be of a layout, "" where they are or may stay."""
    own = "NHWC" if framework in _CHANNELS_LAST else "NCHW"
    return cast(Turn, "" if layout == own else layout)


def convert_from(
    framework: str,
    model: str,
    weights: str,
    output: str | os.PathLike[str],
    options: Conversion,
    stage: Callable[[str], None] = lambda name: None,
) -> Summary:
    """Convert a file of a framework, named as in FmkType; `weights` has those of a Caffe model.

    Raises what `convert` raises, ArgumentValueError for a program that `options` do not trust, and
    NotSupportedError if the package that reads the file is missing.
    """
    if framework in ("ONNX", "MINDIR"):
        kind = ModelType.ONNX if framework == "ONNX" else None
        return convert(Source.of_file(model), kind, output, options, stage)
    with TemporaryDirectory(prefix="pinnace-") as folder:
        stage("importing")
        made = Path(folder) / "model.onnx"
        files = _import(framework, model, weights, made, options)
        source = replace(Source.of_file(made), name=model)
        summary = convert(source, ModelType.ONNX, output, options, stage, files)
    return replace(summary, bytes_before=sum(file.stat().st_size for file in files))


def _import(framework: str, model: str, weights: str, made: Path, options: Conversion) -> list[Path]:
    """Write a model as ONNX; return its own files."""
    if framework == "CAFFE":
        from pinnace.converter import caffe

        if not weights:
            raise ModelFormatError(
                f"{model}: a Caffe model needs its weights: give weight_file, the .caffemodel"
            )
        caffe.write(Source.of_file(model), Source.of_file(weights), made, named_shapes(options.input_shape))
        return [Path(model), Path(weights)]
    path = _checked(framework, Path(model))
    if framework in _PROGRAMS and not options.trust:
        raise ArgumentValueError(
            f"{model}: is a program, which may read and write all your files while it is converted. If you "
            "trust who made it, convert it with trust=True (--trust). Safe is an ONNX file of the model, "
            f"which {_PROGRAMS[framework]} where the model is made"
        )
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    if framework == "TF" and size > _LARGEST:
        raise ModelFormatError(
            f"{model}: is of {size / 1e9:.1f} GB, and tf2onnx reads at most 2.1 GB with the weights: "
            "store them in float16, or try `python -m tf2onnx.convert --large_model` and convert its file"
        )
    _run(framework, path, made, options.input_shape)
    return files


def _checked(framework: str, model: Path) -> Path:
    """Return the file or folder to read. Raises ModelFormatError if it is plainly of another framework."""
    if model.is_dir() or (framework == "TF" and model.name == "saved_model.pb"):
        folder = model if model.is_dir() else model.parent
        if framework == "TF" and (folder / "saved_model.pb").is_file():
            return folder
        raise ModelFormatError(f"{model}: is a folder without saved_model.pb")
    with model.open("rb") as file:
        head = file.read(8)
    if framework == "TFLITE" and head[4:] != b"TFL3":
        raise ModelFormatError(f"{model}: is not a .tflite file: choose the fmk of its framework")
    if framework == "PYTORCH" and not _is_program(model):
        raise ModelFormatError(
            f"{model}: is neither TorchScript nor an ExportedProgram; pickled modules and weights are not "
            "read: save it with torch.export.save or torch.jit.save"
        )
    return model


def _is_program(model: Path) -> bool:
    try:
        with zipfile.ZipFile(model) as archive:
            return any(name.endswith(("/constants.pkl", ".json")) for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _run(framework: str, model: Path, made: Path, shape: str) -> None:
    """Run the script of a framework. Raises ModelFormatError with the last line that it says."""
    script, packages = _SCRIPTS[framework]
    missing = [package for module, package in packages.items() if find_spec(module) is None]
    if missing:
        raise NotSupportedError(
            f"{framework} models need {' and '.join(missing)}: pip install {' '.join(missing)}"
        )
    shapes = json.dumps(named_shapes(shape))
    arguments = [
        str(usable_memory()),
        str(Path(__file__).parent / script),
        framework,
        str(model.absolute()),
    ]
    with TemporaryFile() as output:
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", _CHILD, *arguments, str(made), shapes],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=_LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ModelFormatError(f"{model}: {next(iter(packages))} takes more than {_LONGEST} s") from None
        output.seek(max(0, output.tell() - _TAIL))
        lines = output.read().decode(errors="replace").strip().splitlines() or [""]
    if done.returncode or not made.exists():
        ended = f"{signal.Signals(-done.returncode).name}: " if done.returncode < 0 else ""
        reason = f"{next(iter(packages))} does not read it: {ended}{lines[-1]}"
        raise ModelFormatError(f"{model}: {reason}; is it a whole {framework} file?")
