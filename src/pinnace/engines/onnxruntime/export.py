"""Compiled models for the compile cache.

onnxruntime writes the optimized graph, and all larger weights into one file beside it: unchanged ones, those
that optimizers changed, and behind each its packed forms of kernels. Of these the cache entry contains

* no unchanged weights that no kernel packs: they are read from the model's own file;
* each other large weight in a file that is named by its content, so that models share these files; those of
  nested graphs in a folder of their own, as onnxruntime refuses files with several hard links there (1.31);
* the small ones together in one file.

The settings are onnxruntime's own: `session.save_external_prepacked_constant_initializers` and
`session.optimized_model_external_initializers_*` in its onnxruntime_session_options_config_keys.h. An
initializer's `external_data` then has, beside location, offset and length, entries
"prepacked_N": "KEY|offset;length;0|...". When a session starts, it packs weight by weight again, and replaces
the packed weight by the file's if both are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from pinnace.engines.onnxruntime import session
from pinnace.engines.onnxruntime.compilation import optimized
from pinnace.engines.onnxruntime.loading import GRAPH
from pinnace.engines.protocol import TENSORS, Compiled, FileWeight
from pinnace.formats.protos import inner_graphs
from pinnace.lowering.graph import Compilable
from pinnace.options.target import Target
from pinnace.weights.digest import digest
from pinnace.weights.source import SMALL, Source, size_of

_Bytes = np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]
_TOGETHER, _UNSHARED = "weights", "unshared"
_SEPARATE = 1 << 16  # bytes from which a weight gets its own file
_PAGE = 4096  # alignment of packed weights
_GRAPH, _DATA = "optimized.onnx", "optimized.data"


def compile_into(folder: Path, graph: Compilable, source: Source, target: Target) -> Compiled:
    locations = _locations(graph.model, source)
    first_state = tuple(np.array(value.numpy()) for value in graph.first_state)
    chosen = session.options(target, graph.folder)
    chosen.optimized_model_filepath = str(folder / _GRAPH)
    for key, value in {
        "session.optimized_model_external_initializers_file_name": _DATA,
        "session.optimized_model_external_initializers_min_size_in_bytes": str(SMALL),
        "session.save_external_prepacked_constant_initializers": "1",
    }.items():
        chosen.add_session_config_entry(key, value)
    optimized(graph, chosen)
    return Compiled(graph.interface, first_state, _store(folder, locations, source))


def _locations(model: ir.Model, source: Source) -> dict[str, FileWeight]:
    """Return the larger weights that an engine can read from the model's files, by name, without digests."""
    locations = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or size_of(tensor) <= SMALL or tensor.dtype.bitwidth % 8:
            continue
        start = _start(tensor, source)
        if start is not None:
            shape = tuple(tensor.shape.numpy())
            locations[name] = FileWeight(name, *start, tensor.nbytes, tensor.dtype.value, shape, "")
    return locations


def _start(tensor: ir.TensorProtocol, source: Source) -> tuple[str, int] | None:
    """Return file and offset of a tensor; None if it is not in a file of the model."""
    if isinstance(tensor, ir.ExternalTensor):
        location = str(tensor.location)
        own = source.path is not None and location == source.path.name
        return "" if own else location, tensor.offset or 0
    array = tensor.numpy()
    begin = np.frombuffer(source.data, np.uint8).ctypes.data
    offset = int(array.ctypes.data) - begin
    inside = 0 <= offset <= len(source.data) - array.nbytes and array.flags.c_contiguous
    return ("", offset) if inside else None


def _store(folder: Path, locations: Mapping[str, FileWeight], source: Source) -> tuple[FileWeight, ...]:
    """Turn the files of onnxruntime into those of the entry; returns the weights in the model's files."""
    model = onnx.load(str(folder / _GRAPH), load_external_data=False)
    _unshadow(model.graph, frozenset(), {})
    data = np.memmap(folder / _DATA, np.uint8, "r") if (folder / _DATA).exists() else np.zeros(0, np.uint8)
    for name in (TENSORS, _UNSHARED):
        (folder / name).mkdir()
    kept: list[FileWeight] = []
    with (folder / _TOGETHER).open("wb") as together:
        for tensor, outer in _external(model.graph):
            entries = ((entry.key, entry.value) for entry in tensor.external_data)
            fields = {key: text for key, text in entries if not _has_empty_part(key, text)}
            raw = data[int(fields["offset"]) :][: int(fields["length"])]
            packed = [key for key in fields if key.startswith("prepacked")]
            there = locations.get(tensor.name) if outer and not packed else None
            if there is not None and _same(tensor, raw, there, source):
                kept.append(there._replace(digest=digest(raw.data)))
                fields |= {"location": GRAPH, "offset": "0"}  # never read, but it must exist
            elif len(raw) < _SEPARATE and not packed:
                fields |= {"location": _TOGETHER, "offset": str(together.tell())}
                together.write(raw.data)
            else:
                place = TENSORS if outer else _UNSHARED
                fields |= _write(folder, place, raw, {key: fields[key] for key in packed}, data)
            del tensor.external_data[:]
            for key, value in fields.items():
                tensor.external_data.add(key=key, value=value)
    del data
    (folder / GRAPH).write_bytes(model.SerializeToString())
    (folder / _GRAPH).unlink()
    (folder / _DATA).unlink(missing_ok=True)
    return tuple(kept)


def _has_empty_part(key: str, text: str) -> bool:
    """Return True for a packed form with a part of no bytes, which onnxruntime (1.32) does not read again.

    It writes them, "KEY|offset;length;0|...", for QLinearConv of int8 on processors without VNNI.
    """
    return key.startswith("prepacked") and any(part.split(";")[1] == "0" for part in text.split("|")[1:])


def _external(graph: onnx.GraphProto, outer: bool = True) -> Iterator[tuple[onnx.TensorProto, bool]]:
    """Yield initializers outside of the model, each with True if it belongs to the outermost graph.

    Constant nodes that onnxruntime also wrote as initializers are removed, as it cannot load them.
    """
    names = {tensor.name for tensor in graph.initializer}
    for node in [n for n in graph.node if n.op_type == "Constant" and names.issuperset(n.output)]:
        graph.node.remove(node)
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor, outer
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from _external(inner, False)


def _unshadow(graph: onnx.GraphProto, around: frozenset[str], renamed: Mapping[str, str]) -> None:
    """Rename results of nested graphs that are called like results of the graphs `around`.

    onnxruntime (1.32) makes such casts for float16, and refuses them in a file. `renamed` are those of the
    graphs around.
    """
    made = frozenset(name for node in graph.node for name in node.output)
    names = {**renamed, **{name: f"{name}/{len(around)}" for name in made & around if name}}
    for node in graph.node:
        if names:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        for inner in inner_graphs(node):
            _unshadow(inner, around | made, names)
    for value in (*graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)


def _same(tensor: onnx.TensorProto, raw: _Bytes, place: FileWeight, source: Source) -> bool:
    """Return True if a weight has the type, shape and bytes that it has in the model's files.

    Optimizers transpose weights under their names, which moves no byte of a vector or of zeros.
    """
    if (tensor.data_type, tuple(tensor.dims)) != (place.dtype, place.shape):
        return False
    there = source.bytes_of(place.file)[place.offset : place.offset + place.length]
    return np.array_equal(raw, np.frombuffer(there, np.uint8))


def _write(folder: Path, place: str, raw: _Bytes, packed: Mapping[str, str], data: _Bytes) -> dict[str, str]:
    """Write a weight and its packed forms into a file of the folder `place`, named by its content.

    Returns the fields of its `external_data`.
    """
    blocks = [raw]
    end = len(raw)
    fields = {"offset": "0"}
    for name, text in packed.items():
        key, *blobs = text.split("|")
        moved = [key]
        for blob in blobs:
            offset, length, *rest = blob.split(";")
            start = math.ceil(end / _PAGE) * _PAGE
            blocks += [np.zeros(start - end, np.uint8), data[int(offset) :][: int(length)]]
            end = start + int(length)
            moved.append(";".join((str(start), length, *rest)))
        fields[name] = "|".join(moved)
    content = np.concatenate(blocks)
    name = digest(content.data)
    content.tofile(folder / place / name)
    return {**fields, "location": f"{place}/{name}"}
