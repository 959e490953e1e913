"""A choice of an engine, and the default where the model does not decide."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

from pinnace.machine.processor import sixteen_bit_type
from pinnace.options.table import MEMORY
from pinnace.options.target import Target

FP32, HALF = "enforce_fp32", "preferred_fp16"


class Choice(NamedTuple):
    """Engine, precision, number of threads and form for a model, and why.

    The form is "" for the model as it is.
    """

    provider: str
    precision: str
    threads: int
    why: str
    form: str = ""


def by_default(target: Target) -> str:
    """Return the engine for simulated devices, parts of ranks, and models that share memory.

    onnxruntime is as fast in fp32 and keeps weights where all processes share them. OpenVINO is chosen if
    16 bits are preferred and the CPU computes in them; onnxruntime would stay in fp32.
    """
    half = target.precision == HALF and target.prefer != MEMORY and sixteen_bit_type()
    return "openvino" if half and find_spec("openvino") else "onnxruntime"
