"""The flags of `benchmark`, which are those of MindSpore Lite's command of that name."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import NoReturn

from pinnace.errors import ArgumentValueError

FAILED = 0xFF
"""The exit code of every failure (RET_ERROR)."""
_SWITCH = {"true": True, "false": False, "1": True, "0": False}
_DEVICES = ("CPU", "GPU", "Ascend")


@dataclass(frozen=True)
class _Flag:
    """A flag: its type is that of its default. `lost` says why another value has no effect, "" if it has."""

    name: str
    default: str | int | float | bool
    meaning: str
    lost: str = ""


_FLAGS = (
    _Flag("modelFile", "", "the model"),
    _Flag("modelType", "MindIR", "MindIR | MindIR_Lite; the content of the file decides"),
    _Flag("inDataFile", "", "binary files of the inputs in order, joined by commas; random data without"),
    _Flag("GroupInfoFile", "", "file of the groups of ranks"),
    _Flag("configFile", "", "configuration file"),
    _Flag("device", "CPU", "CPU | GPU | Ascend"),
    _Flag("provider", "litert", "provider of the device", "the engine is that of the context"),
    _Flag("cpuBindMode", 1, "0 binds no threads, 1 to fast cores first, 2 to middle ones first"),
    _Flag("loopCount", 10, "predictions that are measured"),
    _Flag("numThreads", 2, "threads"),
    _Flag("enableFp16", False, "prefer 16 bits"),
    _Flag("enableParallel", False, "parallel subgraphs", "interOpParallelNum runs operators in parallel"),
    _Flag("warmUpLoopCount", 3, "predictions before"),
    _Flag("timeProfiling", False, "print the time of each node and operator"),
    _Flag("perfProfiling", False, "counters of the processor", "no engine reads them"),
    _Flag("perfEvent", "CYCLE", "CYCLE | CACHE | STALL", "no engine reads the counters of the processor"),
    _Flag("benchmarkDataFile", "", "expected outputs, to compare with"),
    _Flag("benchmarkDataType", "FLOAT", "FLOAT | INT32 | INT8 | UINT8; the outputs decide"),
    _Flag("accuracyThreshold", 0.5, "the most that the mean bias may be, in percent"),
    _Flag("cosineDistanceThreshold", -1.1, "the least that the cosine may be; below -1 it is not looked at"),
    _Flag("inputShapes", "", "shapes of the inputs in order: 1,32,32,32:1,1,32,32,1"),
    _Flag("inputShape", "", "shapes by name: in1:1,32,32,32;in2:1,8"),
    _Flag("deviceId", -1, "number of the device"),
    _Flag("rankId", -1, "number of the rank on an Ascend"),
    _Flag("decryptKey", "", "key of an encrypted model, in hexadecimal digits"),
    _Flag("cryptoLibPath", "", "library that decrypts", "the package cryptography does"),
    _Flag("enableParallelPredict", False, "measure a ModelParallelRunner"),
    _Flag("parallelNum", 2, "clients of the runner"),
    _Flag("parallelTaskNum", 2, "predictions of a client, -1 for no end"),
    _Flag("workersNum", 2, "workers of the runner"),
    _Flag("cpuCoreList", "", "cores that threads are bound to: 0,1"),
    _Flag("interOpParallelNum", 1, "operators in parallel"),
    _Flag("enableGLTexture", False, "inputs and outputs in OpenGL's memory", "no engine uses OpenGL"),
    _Flag("delegateMode", "", "CoreML", "no engine uses CoreML"),
    _Flag("enableSharedThreadPool", False, "workers share threads", "workers always share their threads"),
    _Flag("threadNumLimitPerWorker", "", "threads of a worker", "workers share their threads"),
    _Flag("threadNumRemainingPerWorker", "", "threads left to a worker", "workers share their threads"),
)
_SHOWN = {
    "ModelPath": "modelFile", "ModelType": "modelType", "InDataPath": "inDataFile",
    "GroupInfoFile": "GroupInfoFile", "ConfigFilePath": "configFile", "LoopCount": "loopCount",
    "DeviceType": "device", "AccuracyThreshold": "accuracyThreshold",
    "CosineDistanceThreshold": "cosineDistanceThreshold", "WarmUpLoopCount": "warmUpLoopCount",
    "NumThreads": "numThreads", "InterOpParallelNum": "interOpParallelNum", "Fp16Priority": "enableFp16",
    "EnableParallel": "enableParallel", "calibDataPath": "benchmarkDataFile",
    "EnableGLTexture": "enableGLTexture", "CalibDataType": "benchmarkDataType",
}  # fmt: skip
"""Names of the flags in the first lines of the output."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{message}\n{self.format_usage()}", file=sys.stderr)
        sys.exit(FAILED)


def parser() -> argparse.ArgumentParser:
    made = _Parser(prog="benchmark", description="Measure a model.", allow_abbrev=False)
    for flag in _FLAGS:
        kind, text = type(flag.default), f"{flag.meaning}{' (no effect)' * bool(flag.lost)}"
        if kind is bool:
            switch = {"nargs": "?", "const": True, "type": _switch}
            made.add_argument(f"--{flag.name}", default=False, metavar="BOOL", help=text, **switch)  # type: ignore[arg-type]
            made.add_argument(
                f"--no-{flag.name}", dest=flag.name, action="store_false", help=argparse.SUPPRESS
            )
        else:
            made.add_argument(f"--{flag.name}", default=flag.default, type=kind, metavar="VALUE", help=text)
    return made


def _switch(text: str) -> bool:
    try:
        return _SWITCH[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError("true or false") from None


def check(given: argparse.Namespace) -> None:
    """Print the flags, and raise ArgumentValueError for wrong ones. Says which have no effect."""
    for title, name in _SHOWN.items():
        value = getattr(given, name)
        if name == "loopCount":
            print("InDataType = bin")
        print(f"{title} = {value:g}" if isinstance(value, float) else f"{title} = {_text(value)}")
    print(f"cpuBindMode = {('NO_BIND', 'HIGHER_CPU', 'MID_CPU')[given.cpuBindMode % 3]}")
    for flag in _FLAGS:
        if flag.lost and getattr(given, flag.name) != flag.default:
            print(f"benchmark: --{flag.name} has no effect: {flag.lost}", file=sys.stderr)
    wrong = {
        f"LoopCount:{given.loopCount} must be greater than 0": given.loopCount < 1,
        f"numThreads:{given.numThreads} must be greater than 0": given.numThreads < 1,
        f"cpuBindMode:{given.cpuBindMode} must be 0, 1 or 2": given.cpuBindMode not in (0, 1, 2),
        f"Device type:{given.device} is not supported; choose from {', '.join(_DEVICES)}": given.device
        not in _DEVICES,
        "modelPath is required": not given.modelFile,
        f"Invalid model type: {given.modelType}": given.modelType not in ("MindIR", "MindIR_Lite"),
        f"CalibDataType not supported: {given.benchmarkDataType}": given.benchmarkDataType
        not in ("FLOAT", "INT32", "INT8", "UINT8"),
        "parallelNum, workersNum and warmUpLoopCount must not be negative, the first two not 0": min(
            given.parallelNum - 1, given.workersNum - 1, given.warmUpLoopCount
        )
        < 0,
    }
    for message, holds in wrong.items():
        if holds:
            raise ArgumentValueError(message)


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
