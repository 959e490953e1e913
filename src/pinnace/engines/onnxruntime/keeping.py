"""What the compile cache keeps of a model that onnxruntime optimised.

onnxruntime writes the optimised graph, and into one file beside it every larger weight: as it was, as
optimisers changed it, and behind that as kernels packed it. Of this the entry keeps

* nothing of weights that are as they were and that no kernel packs: they come from the model's own file;
* each other weight of some size in a file that is named by its content, so that models share these files;
  those of branches and loops in a folder of their own, because onnxruntime refuses files with several hard
  links there (seen in 1.31);
* the small ones together in one file.

The settings are onnxruntime's own: `session.save_external_prepacked_constant_initializers` and
`session.optimized_model_external_initializers_*` in its onnxruntime_session_options_config_keys.h. An
initializer's `external_data` then has, beside location, offset and length, entries
"prepacked_N": "KEY|offset;length;0|...". A session packs again when it is made, weight by weight, and
drops what it packed in favour of the file's where the two are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from pinnace.compiler.graph import Compilable
from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.compiling import optimised
from pinnace.engines.onnxruntime.loading import GRAPH
from pinnace.engines.protocol import TENSORS, Compiled, Kept
from pinnace.options.target import Target
from pinnace.weights.digest import digest
from pinnace.weights.source import SMALL, Source

_Bytes = npt.NDArray[np.uint8]
_TOGETHER, _UNSHARED = "weights", "unshared"
_ALONE = 1 << 16  # bytes from which a weight gets a file of its own
_PAGE = 4096  # where onnxruntime wants packed weights to begin
_GRAPH, _DATA = "optimised.onnx", "optimised.data"


def compile_into(folder: Path, graph: Compilable, source: Source, target: Target) -> Compiled:
    """See `Engine.compile`."""
    places = _places(graph.model, source)
    first_state = tuple(np.array(value.numpy()) for value in graph.first_state)
    chosen = session.options(target, graph.folder)
    chosen.optimized_model_filepath = str(folder / _GRAPH)
    for key, value in {
        "session.optimized_model_external_initializers_file_name": _DATA,
        "session.optimized_model_external_initializers_min_size_in_bytes": str(SMALL),
        "session.save_external_prepacked_constant_initializers": "1",
    }.items():
        chosen.add_session_config_entry(key, value)
    optimised(graph, chosen)
    weights = _sort_out(folder, places, source)
    return Compiled(graph.interface, first_state, weights)


@dataclass(frozen=True)
class _WeightLocation:
    """Where a weight of the graph lies in the model's files."""

    file: str
    offset: int
    length: int
    shape: tuple[int, ...]


def _places(model: ir.Model, source: Source) -> dict[str, _WeightLocation]:
    """The larger weights of a graph that an engine can take from the model's files."""
    places = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.nbytes <= SMALL or tensor.dtype is ir.DataType.STRING:
            continue
        if tensor.dtype.bitwidth % 8:
            continue
        place = _place(tensor, source)
        if place is not None:
            places[name] = _WeightLocation(*place, tensor.nbytes, tuple(tensor.shape.numpy()))
    return places


def _place(tensor: ir.TensorProtocol, source: Source) -> tuple[str, int] | None:
    if isinstance(tensor, ir.ExternalTensor):
        location = str(tensor.location)
        own = source.path is not None and location == source.path.name
        return "" if own else location, tensor.offset or 0
    array = tensor.numpy()
    begin = np.frombuffer(source.data, np.uint8).ctypes.data
    offset = int(array.ctypes.data) - begin
    inside = 0 <= offset <= len(source.data) - array.nbytes and array.flags.c_contiguous
    return ("", offset) if inside else None


def _sort_out(folder: Path, places: Mapping[str, _WeightLocation], source: Source) -> tuple[Kept, ...]:
    """Turn what onnxruntime wrote into what the entry keeps; gives what comes from the model's files."""
    model = onnx.load(str(folder / _GRAPH), load_external_data=False)
    data = np.memmap(folder / _DATA, np.uint8, "r") if (folder / _DATA).exists() else np.zeros(0, np.uint8)
    for name in (TENSORS, _UNSHARED):
        (folder / name).mkdir()
    kept: list[Kept] = []
    with (folder / _TOGETHER).open("wb") as together:
        for tensor, outer in _external(model.graph):
            fields = {entry.key: entry.value for entry in tensor.external_data}
            raw = data[int(fields["offset"]) :][: int(fields["length"])]
            packed = [key for key in fields if key.startswith("prepacked")]
            there = places.get(tensor.name) if outer and not packed else None
            if there is not None and _same(raw, there, source):
                name = digest(raw.data)
                shape = there.shape
                kept.append(
                    Kept(tensor.name, there.file, there.offset, there.length, tensor.data_type, shape, name)
                )
                fields |= {"location": GRAPH, "offset": "0"}  # never read, but it must exist
            elif len(raw) < _ALONE and not packed:
                fields |= {"location": _TOGETHER, "offset": str(together.tell())}
                together.write(raw.data)
            else:
                place = TENSORS if outer else _UNSHARED
                fields |= _alone(folder, place, raw, {key: fields[key] for key in packed}, data)
            del tensor.external_data[:]
            for key, value in fields.items():
                tensor.external_data.add(key=key, value=value)
    del data
    (folder / GRAPH).write_bytes(model.SerializeToString())
    (folder / _GRAPH).unlink()
    (folder / _DATA).unlink(missing_ok=True)
    return tuple(kept)


def _external(graph: onnx.GraphProto, outer: bool = True) -> Iterator[tuple[onnx.TensorProto, bool]]:
    """Initializers that lie outside of the model, and whether they are the outermost graph's.

    Constant nodes that onnxruntime wrote a second time, as initializers, are removed: it cannot load them.
    """
    names = {tensor.name for tensor in graph.initializer}
    for node in [n for n in graph.node if n.op_type == "Constant" and names.issuperset(n.output)]:
        graph.node.remove(node)
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor, outer
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                yield from _external(inner, False)


def _same(raw: _Bytes, place: _WeightLocation, source: Source) -> bool:
    there = source.bytes_of(place.file)[place.offset : place.offset + place.length]
    return np.array_equal(raw, np.frombuffer(there, np.uint8))


def _alone(folder: Path, place: str, raw: _Bytes, packed: Mapping[str, str], data: _Bytes) -> dict[str, str]:
    """Write a weight, and what kernels packed of it, into a file of the folder `place`, named by its content.

    Returns the fields of its `external_data`.
    """
    blocks = [raw]
    end = len(raw)
    fields = {"offset": "0"}
    for name, text in packed.items():
        key, *blobs = text.split("|")
        said = [key]
        for blob in blobs:
            offset, length, *rest = blob.split(";")
            start = math.ceil(end / _PAGE) * _PAGE
            blocks += [np.zeros(start - end, np.uint8), data[int(offset) :][: int(length)]]
            end = start + int(length)
            said.append(";".join((str(start), length, *rest)))
        fields[name] = "|".join(said)
    content = np.concatenate(blocks)
    name = digest(content.data)
    content.tofile(folder / place / name)
    return {**fields, "location": f"{place}/{name}"}
