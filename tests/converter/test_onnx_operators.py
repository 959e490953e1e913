"""ONNX's own operator tests, converted to each format and run from there, give what ONNX expects."""

from __future__ import annotations

import warnings
from collections import defaultdict
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from tests.converted import run

from pinnace.converter.convert import Conversion, convert
from pinnace.errors import EngineError, UnsupportedModelError
from pinnace.types import ModelType
from pinnace.weights.source import Source

_MOST = 6
"""Cases of an operator; `tools/conformance/converter_table.py` runs all of them."""

_LEFT_OUT = {
    "without tests of tensors": """
        CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder LinearClassifier
        LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsembleClassifier
        TreeEnsembleRegressor ZipMap ConcatFromSequence Optional OptionalGetElement SequenceAt
        SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap
        SplitToSequence GlobalLpPool
    """,
    "tests whose arguments the graph computes": "Col2Im",
    "random": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "without a rule": """
        DFT ImageDecoder MaxRoiPool MelWeightMatrix STFT StringConcat StringNormalizer
        StringSplit TfIdfVectorizer TreeEnsemble
    """,
}
_NOT_IN_MS = {"DeformConv", "Det", "RegexFullMatch", "RoiAlign", "Unique"}

_SCHEMAS = {s.name for s in onnx.defs.get_all_schemas() if s.domain in ("", "ai.onnx.ml")}
OPERATORS = sorted(_SCHEMAS.difference(*map(str.split, _LEFT_OUT.values())))


@cache
def _cases() -> dict[str, list[TestCase]]:
    """Return the cases of tensors by operator, as many as are run, from all over its list."""
    every: dict[str, list[TestCase]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests overflow and divide by zero on purpose
        for case in load_model_tests(kind="node"):
            nodes = case.model.graph.node
            if len(nodes) == 1 and "_expanded" not in case.name and _of_tensors(case):
                every[nodes[0].op_type].append(case)
    return {operator: cases[:: -(-len(cases) // _MOST)] for operator, cases in every.items()}


def _of_tensors(case: TestCase) -> bool:
    return all(
        isinstance(x, np.ndarray | np.generic | TensorProto) for part in case.data_sets[0] for x in part
    )


def _arrays(values) -> list[np.ndarray]:
    return [numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x) for x in values]


@pytest.mark.filterwarnings("ignore")  # of types that the engine has no kernels for
@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE], ids=["mindir", "ms"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_converted_operator_gives_what_onnx_expects(operator, kind, tmp_path):
    right = 0
    for case in _cases().get(operator, ()):
        given, expected = map(_arrays, case.data_sets[0])
        model = case.model.SerializeToString()
        options = Conversion(save_type=kind)
        try:
            file = convert(Source.of_buffer(model), None, tmp_path / case.name, options).files[0]
        except UnsupportedModelError:
            continue
        try:
            _check(run(file, *given), expected, case)
            right += 1
        except (AssertionError, EngineError):
            if _is_right(model, given, expected, case):
                raise
    assert right or (kind is ModelType.MINDIR_LITE and operator in _NOT_IN_MS)


def _is_right(model: bytes, given, expected, case: TestCase) -> bool:
    """Return True if the ONNX model itself gives what ONNX expects."""
    try:
        _check(run(model, *given), expected, case)
    except (AssertionError, EngineError, UnsupportedModelError):
        return False
    return True


def _check(given, expected, case: TestCase) -> None:
    assert [(x.dtype, x.shape) for x in given] == [(y.dtype, y.shape) for y in expected], case.name
    for x, y in zip(given, expected, strict=True):
        if y.dtype == object:
            assert x.tolist() == y.tolist(), case.name
        else:
            # Sums of float32 that cancel, as in a spectrum, are off by some steps of what they add.
            step = 1e-6 * float(np.max(np.abs(y), initial=0)) if y.dtype.kind == "f" else 0
            atol = max(case.atol, step) if np.isfinite(step) else case.atol
            np.testing.assert_allclose(x, y, rtol=case.rtol, atol=atol, err_msg=case.name)


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE], ids=["mindir", "ms"])
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_a_convolution_whose_weight_has_free_sizes_is_refused(operator, kind, tmp_path):
    node = onnx.helper.make_node(operator, ["x", "w"], ["y"])
    x, w, y = (onnx.helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * 4) for n in "xwy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x, w], [y]))
    with pytest.raises(UnsupportedModelError, match=r"(?s)fix them by shapes.*Give the inputs fixed shapes"):
        convert(Source.of_buffer(model.SerializeToString()), None, tmp_path / "m", Conversion(save_type=kind))
