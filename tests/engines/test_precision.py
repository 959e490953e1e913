"""Which 16-bit type a model runs in, and that it is said."""

from __future__ import annotations

import os
import warnings

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from pinnace.building.build import build_model as build
from pinnace.engines.onnxruntime import session
from pinnace.errors import PinnaceWarning
from pinnace.machine import processor as precision
from pinnace.machine.processor import (
    sixteen_bit_type,
    sixteen_bit_types,
    sums_of_bytes_overflow,
)
from pinnace.options.settings import Settings
from pinnace.options.target import Target

W = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)

# Lines as in /proc/cpuinfo of Xeons of 2023, EPYCs of 2022 and 2020, and of Arm Neoverse V1, N1, Cortex-A72.
SAPPHIRE = "flags\t\t: fpu avx2 avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_bf16 amx_tile amx_int8"
GENOA = "flags\t\t: fpu avx2 avx512f avx512_bf16 avx512_vnni"
MILAN = "flags\t\t: fpu sse4_2 avx2 f16c"
NEOVERSE_V1 = "Features\t: fp asimd fphp asimdhp sve svebf16 i8mm bf16"
NEOVERSE_N1 = "Features\t: fp asimd fphp asimdhp asimddp"
CORTEX_A72 = "Features\t: fp asimd evtstrm aes"


@pytest.fixture
def processor(monkeypatch, tmp_path):
    """Lets a test be on a processor whose /proc/cpuinfo has a line."""

    def be_on(line):
        text = f"processor\t: 0\n{line}\nbugs\t: none\n\nprocessor\t: 1\nflags\t\t: other\n"
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)  # it takes from what the line has
        monkeypatch.setattr(precision, "_CPUINFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(precision, "_facts", precision._facts.__wrapped__)
        monkeypatch.setattr(precision, "features", precision.features.__wrapped__)

    return be_on


def product(rows, weight):
    shape = [rows, len(weight)]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return proto.SerializeToString()


@pytest.fixture
def model():
    return product(3, W)


@pytest.mark.parametrize(
    ("line", "types"),
    [
        (SAPPHIRE, ("bfloat16", "float16")),
        (GENOA, ("bfloat16",)),
        (MILAN, ()),
        (NEOVERSE_V1, ("float16", "bfloat16")),
        (NEOVERSE_N1, ("float16",)),
        (CORTEX_A72, ()),
    ],
)
def test_types_of_processors(processor, line, types):
    processor(line)
    assert sixteen_bit_types() == types
    assert sixteen_bit_type() == (types[0] if types else None)


@pytest.mark.parametrize(
    ("line", "machine", "overflow"),
    [
        (MILAN, "x86_64", True),
        (GENOA, "x86_64", False),
        (SAPPHIRE, "x86_64", False),
        (CORTEX_A72, "aarch64", False),
    ],
)
def test_where_sums_of_bytes_overflow(processor, monkeypatch, line, machine, overflow):
    processor(line)
    monkeypatch.setattr(precision.platform, "machine", lambda: machine)
    assert sums_of_bytes_overflow() is overflow


def test_no_features_where_the_kernel_tells_none(monkeypatch, tmp_path):
    monkeypatch.setattr(precision, "_CPUINFO", tmp_path / "missing")
    monkeypatch.setattr(precision, "_facts", precision._facts.__wrapped__)
    assert precision.features.__wrapped__() == frozenset()
    assert precision.identity.__wrapped__().startswith(precision.platform.machine())


@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_fp32_is_fp32_and_says_nothing(model, provider):
    if provider == "openvino":
        pytest.importorskip("openvino")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PinnaceWarning)
        executable = build(model, None, Target(threads=1, provider=provider), Settings())
    assert executable.info["precision"] == "float32"
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    # Sums of 64 products: with operands of bfloat16 they would be off by a hundred times as much.
    np.testing.assert_allclose(executable.execution().run([x])[0], x @ W, rtol=1e-5, atol=1e-5)


def test_a_processor_without_stays_in_fp32_and_says_so(processor, model):
    processor(MILAN)
    target = Target(threads=1, precision="preferred_fp16")
    with pytest.warns(PinnaceWarning, match="float32.*this CPU computes in no 16-bit type") as caught:
        executable = build(model, None, target, Settings())
    assert len(caught) == 1
    assert executable.info["precision"] == "float32"
    assert executable.info["engine"].startswith("onnxruntime")


def test_an_engine_that_does_not_use_what_the_processor_has_says_so(processor, monkeypatch, model):
    processor(GENOA)
    monkeypatch.setattr(precision.platform, "machine", lambda: "x86_64")
    target = Target(threads=1, precision="preferred_fp16", provider="onnxruntime")
    with pytest.warns(PinnaceWarning, match=r"onnxruntime [\d.]+ does not use the bfloat16.*openvino"):
        executable = build(model, None, target, Settings())
    assert executable.info["precision"] == "float32"


def test_openvino_runs_where_the_processor_has_sixteen_bits(processor, monkeypatch):
    model = product(512, np.tile(W, (16, 16)))  # with few rows fp32 may be as fast
    openvino = pytest.importorskip("openvino")
    kinds = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    # OpenVINO lists what the processor has, also where oneDNN may not use it.
    if not {"BF16", "FP16"} & set(kinds) or "ONEDNN_MAX_CPU_ISA" in os.environ:
        pytest.skip(f"OpenVINO computes in {kinds}, oneDNN up to {os.environ.get('ONEDNN_MAX_CPU_ISA')}")
    processor(GENOA)
    monkeypatch.setattr(precision.platform, "machine", lambda: "x86_64")
    executable = build(model, None, Target(threads=1, precision="preferred_fp16"), Settings())
    assert executable.info["engine"].startswith("openvino")
    assert executable.info["precision"] == ("bfloat16" if "BF16" in kinds else "float16")


@pytest.mark.parametrize(
    ("line", "machine", "mode", "kind"),
    [
        (NEOVERSE_V1, "aarch64", "preferred_fp16", "bfloat16"),
        (NEOVERSE_V1, "aarch64", "enforce_fp32", "float32"),
        (NEOVERSE_N1, "aarch64", "preferred_fp16", "float32"),
        (GENOA, "x86_64", "preferred_fp16", "float32"),
    ],
)
def test_onnxruntime_has_bfloat16_products_on_arm(processor, monkeypatch, model, line, machine, mode, kind):
    processor(line)
    monkeypatch.setattr(session.platform, "machine", lambda: machine)
    target = Target(threads=1, precision=mode, provider="onnxruntime")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PinnaceWarning)
        executable = build(model, None, target, Settings())
    assert executable.info["precision"] == kind
