"""Which engine runs a model where nobody has chosen one."""

import pytest

from pinnace.engines import rule
from pinnace.target import Target

BOTH = ("onnxruntime", "openvino")


@pytest.mark.parametrize(
    ("features", "precision", "installed", "engine"),
    [
        ({"avx2"}, "enforce_fp32", BOTH, "onnxruntime"),
        ({"avx2"}, "preferred_fp16", BOTH, "onnxruntime"),
        ({"avx512_bf16"}, "enforce_fp32", BOTH, "onnxruntime"),
        ({"avx512_bf16"}, "preferred_fp16", BOTH, "openvino"),
        ({"amx_bf16"}, "preferred_fp16", BOTH, "openvino"),
        ({"asimdhp"}, "preferred_fp16", BOTH, "openvino"),
        ({"avx512_bf16"}, "preferred_fp16", ("onnxruntime",), "onnxruntime"),
    ],
)
def test_openvino_only_where_it_computes_in_sixteen_bits(monkeypatch, features, precision, installed, engine):
    monkeypatch.setattr(rule, "_features", lambda: frozenset(features))
    monkeypatch.setattr(rule, "find_spec", lambda name: name in installed or None)
    assert rule.by_rule(Target(precision=precision)) == engine


@pytest.mark.parametrize("name", ["flags\t\t", "Features\t"])
def test_features_are_those_of_the_first_processor(monkeypatch, tmp_path, name):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        f"processor\t: 0\n{name}: fpu avx512_bf16\nbugs\t: x\n\nprocessor\t: 1\n{name}: other\n"
    )
    monkeypatch.setattr(rule, "Path", lambda _: cpuinfo)
    assert rule._features.__wrapped__() == {"fpu", "avx512_bf16"}
    cpuinfo.unlink()
    assert rule._features.__wrapped__() == frozenset()
