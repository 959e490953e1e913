"""Nodes that are computed before the run, beside onnxruntime."""

import warnings
from collections import defaultdict
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.helper import make_node, np_dtype_to_tensor_dtype

from pinnace.graph.evaluate import EVALUATED, evaluated
from pinnace.graph.traits import Trait, having

_OLDEST, _NEWEST = 7, 25
"""Operator sets that onnxruntime 1.32 takes."""
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-6, 90.0, -90.0, 1e4, np.inf, -np.inf, np.nan]
_INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 8, 100, -100, 127, -128, 5, -5, 64]
_OF_TWO = having(Trait.BROADCASTING) - {"BitShift", "Where"}
_OF_ONE = (having(Trait.ELEMENTWISE) | having(Trait.REDUCING)) - {"Cast", "CastLike", "Clip"}
_WITHOUT_NAN = {"ArgMax", "ArgMin", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "Sign"}
"""Operators for which onnxruntime loses NaN of some types, or beside infinities."""
_TYPES = (np.float32, np.float64, np.float16, np.int64, np.int32, np.int8, np.uint8, np.bool_)


@cache
def _cases():
    """Return the nodes of ONNX's own tests by operator, with their values and operator sets."""
    found = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests overflow and divide by zero on purpose
        for case in load_model_tests(kind="node"):
            node = case.model.graph.node[0]
            if len(case.model.graph.node) > 1 or node.op_type not in EVALUATED:
                continue
            arrays = [
                numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in case.data_sets[0][0]
            ]
            by_name = dict(zip((i.name for i in case.model.graph.input), arrays, strict=True))
            values = [None if not name else np.asarray(by_name[name]) for name in node.input]
            found[node.op_type].append((node, values, case.model.opset_import[0].version))
    return found


def _sets(operator, newest):
    """Return the operator sets that changed an operator, up to that of a test."""
    history = onnx.defs.get_all_schemas_with_history()
    since = {s.since_version for s in history if s.name == operator and not s.domain}
    return {min(newest, _NEWEST), *(max(s, _OLDEST) for s in since if s <= newest)}


def is_right(node, values, opset):
    """Compare a node's results with those of onnxruntime; return False where one of the two refuses it."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node)
    feeds = {f"i{place}": value for place, value in enumerate(values) if value is not None}
    proto.input[:] = ["" if value is None else f"i{place}" for place, value in enumerate(values)]
    try:
        kinds = [np_dtype_to_tensor_dtype(x.dtype) for x in feeds.values()]
        ports = [
            onnx.helper.make_tensor_value_info(name, kind, x.shape)
            for (name, x), kind in zip(feeds.items(), kinds, strict=True)
        ]
        results = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
        graph = onnx.helper.make_graph([proto], "g", ports, results)
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        wanted = session.run(None, feeds)
    except Exception:  # onnxruntime has no kernel, or takes no such set or type
        return False
    made = evaluated(ir.serde.deserialize_node(proto), opset, values)
    if made is None:
        return False
    made = [np.asarray(y) for y, name in zip(made, proto.output, strict=False) if name]
    if any(y.dtype.kind == "V" for y in made):  # bytes, as onnxruntime gives floats of 8 bits
        return False
    assert [(y.dtype, y.shape) for y in made] == [(y.dtype, y.shape) for y in wanted], opset
    for y, want in zip(made, wanted, strict=True):
        digits = 8 * np.finfo(y.dtype).eps if y.dtype.kind == "f" else 0  # functions of numpy are as exact
        np.testing.assert_allclose(y, want, rtol=digits, atol=digits, err_msg=str(opset))
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", sorted(EVALUATED))
def test_an_operator_is_computed_as_onnxruntime_does(operator):
    tried = [
        is_right(node, values, opset)
        for node, values, newest in _cases()[operator]
        for opset in _sets(operator, newest)
    ]
    assert any(tried)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", sorted(EVALUATED & (_OF_ONE | _OF_TWO)))
def test_numbers_at_the_ends_of_a_type_are_computed_as_onnxruntime_does(operator):
    tried = []
    for dtype in _TYPES:
        x = np.array(_INTEGERS if dtype(0).dtype.kind in "iub" else _FLOATS).astype(dtype)
        x = x[~np.isnan(x.astype(np.float64))] if operator in _WITHOUT_NAN else x
        values = [np.tile(x, 16), np.repeat(x, 16)] if operator in _OF_TWO else [x]
        if dtype(0).dtype.kind in "iu" and operator in ("Div", "Mod", "Pow"):
            values[1] = np.where(values[1] == 0, dtype(1), np.abs(values[1]) % 3 + dtype(1)).astype(dtype)
        how = {"fmod": 1} if operator == "Mod" and x.dtype.kind == "f" else {}
        names = [f"x{i}" for i in range(len(values))]
        tried += [is_right(make_node(operator, names, ["y"], **how), values, n) for n in (13, 22, 24)]
    assert any(tried)
