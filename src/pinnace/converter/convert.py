"""Conversion of a model file, from reading to the files that it becomes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from pinnace import formats
from pinnace.converter import splitting
from pinnace.converter.checking import difference, likeness
from pinnace.converter.optimizing import EXPLANATIONS, Optimize, Turn, narrowed, optimized, take_pictures
from pinnace.converter.raising import raised
from pinnace.engines.onnxruntime.rules import fuse_blocks
from pinnace.errors import (
    ConfigError,
    FileWriteError,
    NotSupportedError,
    UnsupportedModelError,
    UnsupportedPrimitive,
    warn,
)
from pinnace.formats.mindir.writer import write
from pinnace.graph.functions import inline
from pinnace.graph.outputs import settle_outputs
from pinnace.lowering import custom
from pinnace.lowering.entry import STATE
from pinnace.lowering.graph import cast_outputs, compilable, port, shapes_of
from pinnace.options.target import Target
from pinnace.program import Dialect, Layout, Program
from pinnace.quantization.accuracy import Likeness
from pinnace.quantization.files import Quantization, quantized
from pinnace.tensors import gears
from pinnace.types import Array, ModelType
from pinnace.weights.encryption import decrypt, encrypt
from pinnace.weights.source import Source
from pinnace.writing import check_output, followed, replacing

_OUTPUTS = {
    ModelType.MINDIR: (Dialect.MINDSPORE, Layout.NCHW, ".mindir", "pinnace.formats.mindir.writer"),
    ModelType.MINDIR_LITE: (Dialect.LITE, Layout.NHWC, ".ms", "pinnace.formats.ms.writer"),
}
"""The formats that models are written in: dialect, layout, suffix, and the module that writes files."""

_CONVERTED_FOR = "pinnace.converted_for"
"""Metadata key of the shapes that a file notes, unless others were given."""
_DUMPS = ("MSLITE_DUMP_LEVEL", "MSLITE_DUMP_PATH")
"""Variables by which MindSpore Lite's converter writes its graphs between two passes."""


@dataclass(frozen=True)
class Conversion:
    """The choices of a conversion.

    `input_shape` fixes dimensions, or frees them: "x:1,3,-1,-1;y:1". `dynamic_dims` are the sizes that free
    dimensions may have (`tensors.gears`), given by `dynamic_dims_option`; `output_type` is the element type
    of outputs ("FP16", "FP32", "UINT8"). `int32` makes inputs and outputs of int64 int32, and those of
    float64 float32. `notes` say what the choices left out. `turn` makes the inputs of four dimensions NHWC
    that are NCHW, or the reverse. `half` stores the float32 weights in float16; `check` compares the results
    with those of the original. `decrypt` and `encrypt` are a key and a mode. `quantize` stores or
    computes with fewer bits. `trust` allows files that are programs. `files` were read for these choices, and
    are not written to.
    """

    save_type: ModelType = ModelType.MINDIR
    input_shape: str = ""
    optimize: Optimize = "general"
    turn: Turn = ""
    half: bool = False
    check: bool = False
    decrypt: tuple[bytes, str] | None = None
    encrypt: tuple[bytes, str] | None = None
    quantize: Quantization | None = None
    trust: bool = False
    split: tuple[splitting.Pair, ...] = ()
    dynamic_dims: str = ""
    dynamic_dims_option: str = ""
    output_type: str = ""
    int32: bool = False
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    @property
    def target(self) -> Target:
        """The target with these shapes and results."""
        names = ("input_shape", "dynamic_dims", "dynamic_dims_option", "output_type")
        return Target(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class Summary:
    """The result of a conversion: its files, and what it did to the model. Sizes are in bytes.

    `notes` say what else became of it. `error` is the greatest difference from the original's results over
    their greatest value, None if it was not measured; `likeness` compares the results for the samples of a
    calibration.
    """

    files: tuple[Path, ...]
    nodes_before: int
    nodes: int
    bytes_before: int
    bytes: int
    precision: str
    error: float | None = None
    likeness: Likeness | None = None
    notes: tuple[str, ...] = ()


def convert(
    source: Source,
    kind: ModelType | None,
    output: str | os.PathLike[str],
    options: Conversion,
    stage: Callable[[str], None] = lambda name: None,
    inputs: Iterable[Path] = (),
) -> Summary:
    """Convert a model; `output` may lack the suffix, and `stage` is told what begins.

    The files of the model and `inputs` are not written to.

    Raises ModelFormatError, UnsupportedModelError with all nodes that have no way into the format,
    ConfigError for inputs that are unknown or must be fixed, NotSupportedError, FileWriteError, and OSError.
    """
    dialect, layout, suffix, writer = _format_of(options)
    path = Path(output)
    if os.path.basename(output) in ("", ".", ".."):
        raise FileWriteError(f"{output} cannot be written: it is a folder, and a file is needed")
    path = followed(path if path.suffix == suffix else Path(f"{path}{suffix}"))
    calibration = options.quantize and options.quantize.calibration
    inputs = (*inputs, *options.files, *(calibration.files if calibration else ()))
    own = source.seen  # the reader may find more of its own
    check_output(path, (*own, *inputs))
    stage("reading")
    if options.decrypt is not None:
        source = Source.of_buffer(decrypt(source.data, *options.decrypt, source.name))
    model = _read(source, kind, options.input_shape)
    before = sum(1 for _ in model.graph.all_nodes())
    parts = splitting.split(model, options.split, path.stem) if options.split else []
    _check_gears(model, options, source.name)
    precision, samples, notes = _transformed(model, source, options, stage)
    stage("converting")
    program = raised(model, dialect, layout, source.name, options.half)
    program.converted_for = _noted(options) or ({} if options.turn else model.meta.get(_CONVERTED_FOR, {}))
    error, like = None, None
    with replacing(path, (*own, *inputs)) as place:
        stage("writing")
        written = import_module(writer).write(program, place)
        if options.check:
            stage("checking")
            error = difference(source, kind, written[0], options.target, options.turn)
        if samples:
            stage("comparing")
            like = likeness(source, kind, written[0], options.input_shape, options.turn, samples)
        if options.encrypt is not None:
            stage("encrypting")
            _encrypt(written, *options.encrypt)
    files = [path.parent / file.relative_to(place.parent) for file in written]
    nodes = sum(len(function.nodes) for function in program.functions.values())
    for number, part in enumerate(parts):
        bare = replace(options, input_shape="", split=(), decrypt=None, notes=())
        whole = Source.of_buffer(part.serialized(source.name), source.folder)
        place = path.with_name(f"{path.stem}_{number}")
        files += convert(whole, ModelType.ONNX, place, bare, stage, (*own, *inputs)).files
    size = sum(file.stat().st_size for file in files)
    return Summary(tuple(files), before, nodes, source.size, size, precision, error, like, notes)


def _format_of(options: Conversion) -> tuple[Dialect, Layout, str, str]:
    """Return dialect, layout, suffix and writer. Raises NotSupportedError for choices that exclude others."""
    if options.save_type not in _OUTPUTS:
        known = " or ".join(kind.name for kind in _OUTPUTS)
        raise NotSupportedError(f"save_type {options.save_type.name}: choose {known}")
    if dumped := " and ".join(name for name in _DUMPS if os.environ.get(name)):
        warn(f"no effect: {dumped}; pinnace inspect FILE --onnx OUT writes the graph of a model")
    others = options.encrypt, options.turn, options.dynamic_dims, options.output_type
    if options.split and (options.save_type is not ModelType.MINDIR or any(others)):
        raise NotSupportedError(
            "[SplitGraph] is for .mindir without encryption, input_format, dynamic_dims and output_type"
        )
    dialect, layout, suffix, writer = _OUTPUTS[options.save_type]
    if options.quantize is not None:
        if options.half:
            raise NotSupportedError("weight_fp16 with quantization: choose one of them")
        if options.quantize.method != "stored":
            dialect = Dialect.LITE  # the one that has operators on integers
    return dialect, layout, suffix, writer


def _transformed(
    model: ir.Model, source: Source, options: Conversion, stage: Callable[[str], None]
) -> tuple[str, Sequence[Sequence[Array]], tuple[str, ...]]:
    """Change a graph as the options want it; return its precision, samples to compare by, and notes."""
    if options.output_type:
        cast_outputs(model, options.output_type, ())
    notes = (*options.notes, *EXPLANATIONS.get(options.optimize, ()))
    if options.int32:
        notes += tuple(narrowed(model))
    stage("optimizing")
    optimized(model, options.optimize)
    precision = "float16 weights" if options.half else "as in the model"
    samples: Sequence[Sequence[Array]] = ()
    if options.quantize is not None:
        stage("quantization")
        precision, samples = quantized(model, options.quantize, source)
    if options.optimize != "none":
        fuse_blocks(model)
    if options.turn:
        take_pictures(model, options.turn)
    return precision, samples, notes


def _read(source: Source, kind: ModelType | None, input_shape: str) -> ir.Model:
    """Return a model as an ONNX graph of standard operators, the one form in which all models are converted.

    Of MindSpore's formats it is what an engine would get, of an ONNX file its own graph, with the functions
    that the file defines inlined. `input_shape` fixes dimensions of its inputs, as in a context.

    Raises ModelFormatError, UnsupportedModelError, and ConfigError for unknown inputs.
    """
    graph = formats.read(source, kind)
    folder = None if source.folder is None else str(source.folder)
    shapes = shapes_of(graph, input_shape, source.name)
    if not isinstance(graph, Program) and not shapes:
        model = graph
    else:
        model = compilable(graph, source.name, folder, shapes=shapes).model
    if states := [i.name or "" for i in model.graph.inputs if STATE in i.metadata_props]:
        reason = (
            "a parameter that the model assigns keeps its value between requests, and no rule writes that: "
            "take the value as an input, and return the new one"
        )
        rows = UnsupportedPrimitive.counted([("state", reason, name) for name in states])
        raise UnsupportedModelError(source.name, rows)
    if isinstance(graph, Program) and not shapes:
        model.meta[_CONVERTED_FOR] = graph.converted_for
    if model.functions:
        inline(model, source.name)
    if model is graph:
        custom.replace(model, source.name)
        settle_outputs(model.graph)
        _forget_zeros(model.graph)
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    return model


def _forget_zeros(graph: ir.Graph) -> None:
    """Make dimensions that a file declares to be 0 unknown, until they are inferred.

    What has no elements is a constant, and the operators before it go; a Compress declared so would too.
    """
    for output in (one for node in graph.all_nodes() for one in node.outputs):
        if output.shape is not None and any(size == 0 for size in output.shape):
            output.shape = ir.Shape([None if size == 0 else size for size in output.shape])


def _check_gears(model: ir.Model, options: Conversion, name: str) -> None:
    """Raise ConfigError unless the file can hold the gears, and the model has dimensions for them."""
    if not options.dynamic_dims:
        return
    option = options.dynamic_dims_option
    inputs = [port(name, i) for i in model.graph.inputs if i.name not in model.graph.initializers]
    gears.limited(inputs, *options.target.gears)
    if options.save_type is not ModelType.MINDIR:
        raise ConfigError(f"{option}: a .ms has no place for sizes of free dimensions: write a .mindir")
    if options.turn:
        raise ConfigError(f"{option} with pictures in another order of dimensions: leave out input_format")


def _noted(options: Conversion) -> dict[str, str]:
    """Return the shapes that a file keeps, as MindSpore Lite's converter notes them for Ascend."""
    if options.optimize != "ascend_oriented" and not options.dynamic_dims:
        return {}
    noted = {gears.INPUT_SHAPE: options.input_shape, gears.DYNAMIC_DIMS: options.dynamic_dims}
    return {name: text for name, text in noted.items() if text}


def _encrypt(files: Sequence[Path], key: bytes, mode: str) -> None:
    if len(files) > 1:
        raise NotSupportedError(
            "encryption is of one file, and more than 1 GiB of weights are in a file of their own: "
            "leave out the key, or halve the weights by weight_fp16 (--fp16)"
        )
    beside = files[0].with_name("encrypted")
    with files[0].open("rb") as plain, beside.open("wb") as target:
        encrypt(plain, target, key, mode)
    beside.replace(files[0])


def save_mindir(parts: Sequence[ir.Model], stems: Sequence[Path], inputs: Iterable[Path]) -> list[Path]:
    """Write STEM.mindir for each part, none of which may be one of `inputs`; return the files.

    Raises NotSupportedError, before anything is written, for nodes that have no way into the format.
    """
    names = [f"{stem.name}.mindir" for stem in stems]
    try:
        programs = [
            raised(part, Dialect.MINDSPORE, Layout.NCHW, name)
            for part, name in zip(parts, names, strict=True)
        ]
    except UnsupportedModelError as error:
        raise NotSupportedError(f"{error}\nOr write the parts as ONNX: --format onnx.") from None
    with replacing(stems[0].with_name(names[0]), inputs) as first:
        written = [
            write(program, first.with_name(name))[0] for program, name in zip(programs, names, strict=True)
        ]
    return [stem.with_name(file.name) for stem, file in zip(stems, written, strict=True)]
