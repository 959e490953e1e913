"""Which engine runs a model where nobody has chosen one."""

import pytest

from pinnace.engines import rule
from pinnace.machine import processor as precision_
from pinnace.options.target import Target

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
    monkeypatch.setattr(precision_, "features", lambda: frozenset(features))
    monkeypatch.setattr(rule, "find_spec", lambda name: name in installed or None)
    assert rule.by_rule(Target(precision=precision)) == engine
    assert rule.by_rule(Target(precision=precision, prefer="memory")) == "onnxruntime"
