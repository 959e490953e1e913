"""`benchmark`, with the flags, lines of output and exit codes of MindSpore Lite's command of that name."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, NoReturn

from pinnace.cli.benchmark_flags import FAILED, check, parser
from pinnace.errors import ArgumentValueError, DataMismatchError, PinnaceError
from pinnace.options.log_format import print_warnings

if TYPE_CHECKING:
    from pinnace import Context, Model, ModelParallelRunner, Tensor
    from pinnace.engines.steps import OperatorTime
    from pinnace.types import Array

_LINE = "=" * 55
_SHOWN, _SHOWN_INPUTS = 50, 20
_RATIO = 1e-7  # a mean bias up to this is shown as 0


class _FailedError(PinnaceError, RuntimeError):
    """A measurement whose lines say already that it failed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure a model, or compare it with expected outputs. The last line ends with "Success."."""
    print_warnings("benchmark")
    given = parser().parse_args(arguments)
    name = os.path.basename(given.modelFile)
    try:
        check(given)
    except PinnaceError as error:
        print(f"{error}\nBenchmark init Error : -1", file=sys.stderr)
        sys.exit(FAILED)
    print("start unified benchmark run")
    try:
        _run_clients(given) if given.enableParallelPredict else _run_one(given, name)
    except (PinnaceError, OSError, MemoryError) as error:
        reason = "" if isinstance(error, _FailedError) else f"benchmark: {error}\n"
        print(end="", flush=True)
        print(f"{reason}Run Benchmark {name} Failed : -1", file=sys.stderr)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"Run Benchmark {name} Success.")


def _context(given: argparse.Namespace) -> Context:
    from pinnace import Context

    context = Context()
    cpu = context.cpu
    cpu.thread_num, cpu.inter_op_parallel_num = given.numThreads, given.interOpParallelNum
    cpu.thread_affinity_mode = given.cpuBindMode
    if given.cpuCoreList:
        cpu.thread_affinity_core_list = [_whole("cpuCoreList", core) for core in given.cpuCoreList.split(",")]
    kind = given.device.lower()
    context.target = [kind]
    device = getattr(context, kind)
    if given.enableFp16 and kind != "ascend":  # which has modes of its own, in the configuration
        device.precision_mode = "preferred_fp16"
    if kind != "cpu":
        number = os.environ.get(f"{kind.upper()}_DEVICE_ID", "0")
        device.device_id = given.deviceId if given.deviceId >= 0 else _whole("DEVICE_ID", number)
        if given.rankId >= 0 and kind == "ascend":  # MPI or NCCL tells a GPU's
            device.rank_id = given.rankId
    if given.GroupInfoFile:
        context.group_info_file = given.GroupInfoFile
    return context


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentValueError(f"{name}: {text!r} is not a whole number") from None


def _resized(
    given: argparse.Namespace, model: Model | ModelParallelRunner
) -> tuple[list[Tensor], list[list[int]]]:
    """Set the shapes of the inputs by the flags, and print them; free dimensions become 1. Returns both."""
    from pinnace.shapes import named_shapes

    tensors = model.get_inputs()
    shapes = [
        [max(size, 1) for size in tensor.shape] if -1 in tensor.shape else tensor.shape for tensor in tensors
    ]
    names = [tensor.name for tensor in tensors]
    try:
        if given.inputShape:
            set_to = named_shapes(given.inputShape)
            if set(set_to) != set(names):
                raise ValueError(f"the inputs of the model are {', '.join(names)}")
            shapes = [list(set_to[name]) for name in names]
        elif given.inputShapes:
            shapes = [[int(size) for size in shape.split(",")] for shape in given.inputShapes.split(":")]
            if len(shapes) != len(names):
                raise ValueError(f"{len(shapes)} shapes for {len(names)} inputs")
    except ValueError as error:
        raise ArgumentValueError(f"inputShape: {error}") from None
    for shape in shapes if given.inputShape or given.inputShapes else ():
        print("Resize Dims: " + "".join(f"{size} " for size in shape))
    if [list(tensor.shape) for tensor in tensors] != shapes:
        model.resize(tensors, shapes)
    return tensors, shapes


def _data(
    given: argparse.Namespace, tensors: Sequence[Tensor], shapes: Sequence[Sequence[int]]
) -> list[Array]:
    from pinnace.cli.inputs import Pictures, feed

    files = [file for file in given.inDataFile.replace(",", " ").split() if file]
    if not files:
        made = feed(tensors, {}, {t.name: tuple(s) for t, s in zip(tensors, shapes, strict=True)}, Pictures())
        return [one.array for one in made]
    if len(files) != len(tensors):
        raise ArgumentValueError(f"inDataFile: {len(files)} files for {len(tensors)} inputs")
    return [
        _read(Path(file), tensor, shape) for file, tensor, shape in zip(files, tensors, shapes, strict=True)
    ]


def _read(file: Path, tensor: Tensor, shape: Sequence[int]) -> Array:
    import numpy as np

    from pinnace.types import DataType

    if tensor.dtype is DataType.STRING:
        return np.array([file.read_text(encoding="utf-8")], object)
    dtype = tensor.dtype.to_numpy()
    required, there = math.prod(shape) * dtype.itemsize, file.stat().st_size
    if required != there:
        raise ArgumentValueError(
            f"Input binary file size error, required: {required}, in fact: {there} ({file})"
        )
    return np.fromfile(file, dtype).reshape(shape)


def _run_one(given: argparse.Namespace, name: str) -> None:
    from pinnace import Model

    began = perf_counter_ns()
    with Model() as model:
        _build(given, model)
        tensors, shapes = _resized(given, model)
        print(f"PrepareTime = {(perf_counter_ns() - began) // 1000 / 1e3:g} ms")
        arrays = _data(given, tensors, shapes)
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor.set_data_from_numpy(array)
        if given.benchmarkDataFile:
            print("MarkAccuracy")
            _show_inputs(arrays)
            _Reference(given).compare(model.predict(tensors))
        else:
            _measure(given, model, tensors, name)


def _build(given: argparse.Namespace, model: Model) -> None:
    from pinnace import ModelType

    suffixes = {".ms": ModelType.MINDIR_LITE, ".onnx": ModelType.ONNX}
    kind = suffixes.get(Path(given.modelFile).suffix.lower(), ModelType.MINDIR)
    try:
        key = bytes.fromhex(given.decryptKey)
    except ValueError:
        raise ArgumentValueError("decryptKey must be hexadecimal digits") from None
    model.build_from_file(given.modelFile, kind, _context(given), given.configFile, dec_key=key)


def _measure(given: argparse.Namespace, model: Model, tensors: list[Tensor], name: str) -> None:
    from pinnace.bench.timing import RunLimit, collector_off, milliseconds, spans

    def call() -> object:
        return model.predict(tensors)

    print("Running warm up loops...")
    with collector_off():
        spans(call, RunLimit(0.0, given.warmUpLoopCount))
        print("Running benchmark loops...")
        taken = milliseconds(spans(call, RunLimit(0.0, given.loopCount)))
    if given.timeProfiling:
        profiled = model.profile(tensors, given.loopCount, given.warmUpLoopCount)
        for title, rows in (("opName", profiled), ("opType", profiled.by_operator())):
            _show_profile(title, rows, given.loopCount)
    print(
        f"Model = {name}, NumThreads = {given.numThreads}, MinRunTime = {taken.min():f} ms, "
        f"MaxRuntime = {taken.max():f} ms, AvgRunTime = {taken.mean():f} ms"
    )


def _show_profile(title: str, rows: Sequence[OperatorTime], runs: int) -> None:
    print("-" * 73)
    cells = [(title, "avg(ms)", "percent", "calledTimes", "opTotalTime")]
    for row in rows:
        cells.append((row.name, f"{row.total / runs:f}", f"{row.share:f}", str(row.calls), f"{row.total:f}"))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for cell in cells:
        print("\t".join(text.ljust(width) for text, width in zip(cell, widths, strict=True)))


def _show_inputs(arrays: Sequence[Array]) -> None:
    for number, array in enumerate(arrays):
        print(f"InData {number}: {_values(array, _SHOWN_INPUTS)}")


def _values(array: Array, most: int) -> str:
    return "".join(
        f"{value} " if array.dtype == object else f"{value:g} " for value in array.ravel()[:most].tolist()
    )


class _Reference:
    """The expected outputs of `benchmarkDataFile`, and the limits of the flags."""

    def __init__(self, given: argparse.Namespace) -> None:
        from pinnace.bench import references

        self._most, self._least = given.accuracyThreshold, given.cosineDistanceThreshold
        self._wanted = references.read(Path(given.benchmarkDataFile))

    def compare(self, outputs: Sequence[Tensor]) -> None:
        """Print the errors of the outputs. Raises if they are too large, or if outputs do not fit."""
        from pinnace.bench import references
        from pinnace.quantization import accuracy

        got = {output.name: output.get_data_to_numpy() for output in outputs}
        wanted = references.assign(self._wanted, list(got))
        same = {name: _in_shape(name, array, got[name].shape) for name, array in wanted.items()}
        close = accuracy.compare(got, same)
        print("================ Comparing Output data ================")
        for one in close:
            print(f"Data of node {one.name} : {_values(got[one.name], _SHOWN)}")
            if not math.isfinite(one.relative_error):
                self._fail("Output tensor has nan or inf data, compare fail\nError in CompareData")
            shown = f"{one.relative_error:g}" if one.relative_error > 100 * _RATIO else "0"
            print(f"Mean bias of node/tensor {one.name} : {shown}%")
        bias = accuracy.mean_relative_error(close)
        print(f"Mean bias of all nodes/tensors: {bias:g}%\n{_LINE}\n")
        if bias > self._most:
            self._fail(f"Mean bias of all nodes/tensors is too big: {bias:g}%")
        if self._least >= -1:
            print("================ Comparing Output data ================")
            for one in close:
                print(f"Data of node {one.name} : {_values(got[one.name], _SHOWN)}")
                print(f"Mean cosine distance of node/tensor {one.name} : {100 * one.cosine:g}%")
            cosine = accuracy.mean_cosine(close)
            print(f"Cosine distance of all nodes/tensors: {cosine:.15g}\n{_LINE}\n")
            if cosine < self._least:
                self._fail(f"Mean cosine distance of all nodes/tensors is too small: {cosine:.15g}")

    @staticmethod
    def _fail(message: str) -> NoReturn:
        print("Run MarkAccuracy error: -1", flush=True)
        print(f"{message}\nCompare output error -1", file=sys.stderr)
        raise _FailedError(message)


def _in_shape(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Return a reference in the shape of its output; trailing dimensions of 1 make no difference."""
    short, long = sorted((array.shape, shape), key=len)
    if long[: len(short)] != short or any(size != 1 for size in long[len(short) :]):
        raise DataMismatchError(
            f"Shape of mslite output({_dims(shape)}) and shape source model output({_dims(array.shape)}) are "
            f"different: {name}"
        )
    return array.reshape(shape)


def _dims(shape: Sequence[int]) -> str:
    return "".join(f"{size}," for size in shape)


def _run_clients(given: argparse.Namespace) -> None:
    from pinnace import ModelParallelRunner
    from pinnace.bench.throughput import served
    from pinnace.bench.timing import RunLimit, collector_off

    if not (given.inputShape or given.inputShapes):
        raise ArgumentValueError("enableParallelPredict needs the shapes of the inputs: --inputShape")
    if given.decryptKey:
        raise ArgumentValueError("decryptKey: a ModelParallelRunner opens no encrypted models")
    context = _context(given)
    context.parallel.workers_num, context.parallel.config_path = given.workersNum, given.configFile
    began = perf_counter_ns()
    with ModelParallelRunner() as runner:
        runner.build_from_file(given.modelFile, context)
        opened = perf_counter_ns()
        tensors, shapes = _resized(given, runner)
        reference = _Reference(given) if given.benchmarkDataFile else None
        arrays = _data(given, tensors, shapes)
        if reference:
            _show_inputs(arrays)

        def client(line: Callable[[int], str], reference: _Reference | None = None) -> Callable[[], object]:
            inputs = runner.get_inputs()
            for tensor, array in zip(inputs, arrays, strict=True):
                tensor.set_data_from_numpy(array)
            tasks = count()

            def call() -> None:
                start = perf_counter_ns()
                outputs = runner.predict(inputs)
                taken = f"{(perf_counter_ns() - start) // 1000 / 1e3:g} ms"
                print(f"{line(next(tasks))} time: {taken}\n", end="")  # one call: lines of clients stay apart
                if reference:
                    reference.compare(outputs)

            return call

        with collector_off():
            first = [client(lambda _, i=i: f"warm up index: {i} |") for i in range(given.warmUpLoopCount)]  # type: ignore[misc]
            if first:
                served(first, RunLimit(0.0, 1))
            print("=============== end warm up ===============")
            clients = [
                client(lambda task, i=i: f"parallel index: {i} | task index: {task} | predict", reference)  # type: ignore[misc]
                for i in range(given.parallelNum)
            ]
            ran = perf_counter_ns()
            served(
                clients, RunLimit(0.0, sys.maxsize if given.parallelTaskNum == -1 else given.parallelTaskNum)
            )
            ended = perf_counter_ns()
    print("=================================")
    print(f"parallel predict init time: {(opened - began) // 1000 / 1e3:g} ms")
    print(f"parallel predict all run time: {(ended - ran) // 1000 / 1e3:g} ms")
    print("=================================")
