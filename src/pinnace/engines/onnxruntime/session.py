"""Sessions of onnxruntime: their options, weights and start."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import onnxruntime as ort

from pinnace.engines.forks import never_freed_by_forks
from pinnace.engines.onnxruntime import providers
from pinnace.engines.onnxruntime.device_memory import FAILURES as FAILURES
from pinnace.errors import EngineError
from pinnace.machine.processor import sixteen_bit_types, sums_of_bytes_overflow
from pinnace.options.target import Target
from pinnace.types import Array

NAME = f"onnxruntime {ort.__version__}"
NO_OPTIMIZATION = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

_OLDEST = (1, 31)
"""The first release whose kernels pass the tests: 1.30 fails some, 1.24 gave numbers of other requests."""

_BFLOAT16_PRODUCTS = "mlas.enable_gemm_fastmath_arm64_bfloat16"
"""Matrix products in bfloat16, with sums in float32, on Arm: onnxruntime's only 16-bit computation for models
in float32."""
_INPUTS_OF_4_BITS = "session.qdq_matmulnbits_accuracy_level"
"""The rounding of a product's input where its weight has 4 bits: 1 is float32, the default 8 bits."""
_FATAL = 4  # log severity: errors are raised, and need not be printed too
_IN_AN_ERROR = re.compile(r", guard of (\S+) (.+?)['\)]")
"""The name of a node of `guards`."""


def options(target: Target, folder: str | None = None) -> ort.SessionOptions:
    """Return the options of a session whose external weights are in `folder`.

    The threads of a session serve all its requests, each together with the thread of its caller.
    """
    pool = target.parallel_requests * (target.threads_of_request - 1) + 1
    chosen = ort.SessionOptions()
    if sums_of_bytes_overflow():  # the slower kernels are exact; with VNNI all are
        chosen.add_session_config_entry("session.x64quantprecision", "1")
    chosen.add_session_config_entry(_INPUTS_OF_4_BITS, "1")
    if target.precision == "preferred_fp16" and _has_bfloat16_products():
        chosen.add_session_config_entry(_BFLOAT16_PRODUCTS, "1")
    chosen.log_severity_level = _FATAL
    chosen.intra_op_num_threads = pool
    if target.inter_op_threads > 1:
        chosen.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        chosen.inter_op_num_threads = target.inter_op_threads
    if target.parallel_requests > 1:
        # A thread that spins while it waits for work takes the core from the threads of other requests.
        chosen.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if target.cores and pool > 1:
        # One entry for each thread except the caller's; processors are counted from 1 here.
        rest = target.cores[target.parallel_requests :] or target.cores
        bound = [str(rest[i % len(rest)] + 1) for i in range(pool - 1)]
        chosen.add_session_config_entry("session.intra_op_thread_affinities", ";".join(bound))
    if target.shared_workspace:
        _make_workspace()
        chosen.add_session_config_entry("session.use_env_allocators", "1")
    if folder is not None:
        chosen.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    return chosen


def _has_bfloat16_products() -> bool:
    return platform.machine() == "aarch64" and "bfloat16" in sixteen_bit_types()


def precision(session: ort.InferenceSession) -> str:
    """Return the type in which a session on the CPU computes float32."""
    try:
        session.get_session_options().get_session_config_entry(_BFLOAT16_PRODUCTS)
    except RuntimeError:  # it was not set
        return "float32"
    return "bfloat16"


@cache
def _make_workspace() -> None:
    """Create an arena of the whole process, in which sessions reuse each other's memory."""
    kind = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(kind, None)


Weights = Mapping[str, tuple[Array, int]]
"""Weights in memory by name, each with the number of its ONNX element type."""


def copy_weights(weights: Weights, chosen: ort.SessionOptions) -> list[object]:
    """Give weights in memory to a session that optimizes, which copies them.

    Returns the objects to which the options refer.
    """
    values = _as_values(weights)
    if values:
        chosen.add_external_initializers(list(weights), values)
    return [values]


def lend_weights(weights: Weights, chosen: ort.SessionOptions) -> list[object]:
    """Lend weights in memory to a session, and return the objects that must live as long.

    The session must not optimize, else it would compute with the place holders in the model.
    """
    values = _as_values(weights)
    for name, value in zip(weights, values, strict=True):
        chosen.add_initializer(name, value)
    return [values, [array for array, _ in weights.values()]]


def _as_values(weights: Weights) -> list[ort.OrtValue]:
    return [
        ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(array), kind)
        for array, kind in weights.values()
    ]


def start(
    model: bytes,
    chosen: ort.SessionOptions,
    disabled_optimizers: Sequence[str] = (),
    chain: providers.Chain = providers.ON_CPU,
) -> ort.InferenceSession:
    """Start a session on the CPU, or on the providers of `chain`.

    Raises `DeviceUnavailableError` if the first of them cannot start, for example because a library is
    missing, and `EngineError` on the CPU if onnxruntime is too old.
    """
    first = chain[0][0]
    if first == providers.CPU:
        _check_release()
    if first in (providers.CUDA, providers.TENSORRT):
        from pinnace.engines.onnxruntime.device_errors import preload

        preload()
    try:
        started = ort.InferenceSession(
            model,
            chosen,
            providers=chain,
            disabled_optimizers=disabled_optimizers,
            enable_fallback=0,  # it would print the error, and try the same again
        )
    except FAILURES as error:
        if first == providers.CPU:
            raise
        from pinnace.engines.onnxruntime.device_errors import explained

        raise explained(error, first) from None
    if first not in started.get_providers():
        from pinnace.engines.onnxruntime.device_errors import left_out

        raise left_out(first)
    never_freed_by_forks(started._sess)
    return started


def _check_release() -> None:
    if tuple(map(int, ort.__version__.split(".")[:2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise EngineError(
            f"{NAME} is not known to compute right on the CPU: install {oldest} or newer "
            f"(pip install 'onnxruntime>={oldest}')"
        )


def message_of(error: Exception) -> str:
    """Return the message of an error of onnxruntime; if a guard raised it, what the guard found."""
    found = _IN_AN_ERROR.search(str(error))
    if found is None:
        return str(error)
    return (
        f"node {found[2]!r} ({found[1]}) is not run: an input has no elements, or sizes that do not belong "
        "together, and it is not known to compute that right"
    )
