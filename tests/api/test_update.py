"""update_weights: all new or nothing, for every worker, and what MindSpore and MindSpore Lite make of it.

Goldens are made by `tools/with_mindspore/make_update_goldens.py`: the same networks with two sets of
weights, a and b.
"""

from __future__ import annotations

import gc
import os
import shutil
import threading
import weakref
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace import Context, Model, ModelParallelRunner, ModelType, Tensor
from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.building.weights import refitter as refitter_of
from pinnace.errors import (
    ArgumentValueError,
    ConfigError,
    DataMismatchError,
    EngineError,
    ModelFormatError,
    ModelStateError,
    UnsupportedModelError,
)
from pinnace.lowering.graph import compilable
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.program import Dialect, Function, Input, Node, Program, TypeInfo

DATA = Path(__file__).parents[1] / "data" / "update"
KINDS = {".mindir": ModelType.MINDIR, ".ms": ModelType.MINDIR_LITE, ".onnx": ModelType.ONNX}
WEIGHTS = ("table", "batched", "dense.weight", "wide.weight", "narrow.weight", "norm.gamma")
FILES = ("mixed_a.mindir", "lite_a.ms", "lite_a.onnx")


def configuration(folder: Path, names: list[str]) -> str:
    """A configuration file beside the list of names that it refers to."""
    (folder / "names.txt").write_text("\n".join(names), encoding="utf-8")
    path = folder / "config.ini"
    path.write_text('[ascend_context]\nvariable_weights_file="names.txt"\n', encoding="utf-8")
    return str(path)


def opened(path: Path, names: list[str] | None = None, folder: Path | None = None) -> Model:
    model = Model()
    config = "" if names is None else configuration(folder or path.parent, names)
    model.build_from_file(str(path), KINDS[path.suffix], Context(thread_num=1), config)
    return model


def golden(path: Path) -> dict[str, np.ndarray]:
    return dict(np.load(path.with_suffix(".npz")))


def inputs_of(path: Path) -> list[np.ndarray]:
    """The input as the file has it: images in .ms have their channels last."""
    x = golden(path)["x0"]
    return [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if path.suffix == ".ms" else x]


def weights_of(path: Path) -> dict[str, np.ndarray]:
    """Weights by name as the file has them: kernels in .ms are outputs, height, width, inputs."""
    found = {key[2:]: value for key, value in golden(path).items() if key.startswith("w:")}
    if path.suffix == ".ms":
        found = {k: w.transpose(0, 2, 3, 1) if w.ndim == 4 else w for k, w in found.items()}
    return found


def tensors(weights: dict[str, np.ndarray]) -> list[Tensor]:
    made = []
    for name, array in weights.items():
        tensor = Tensor(array)
        tensor.name = name
        made.append(tensor)
    return made


def first(model: Model, inputs: list[np.ndarray]) -> np.ndarray:
    return model.predict(inputs)[0].get_data_to_numpy()


@pytest.fixture(params=["kept", "cache off"])
def cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the compile cache the optimized graph is used again, without it is optimized again."""
    if request.param == "cache off":
        monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    return request.param


@pytest.mark.parametrize("name", FILES)
def test_with_the_weights_of_b_a_computes_what_b_does(name: str, tmp_path: Path, cache: str) -> None:
    a, b = DATA / name, DATA / name.replace("_a", "_b")
    inputs = inputs_of(a)
    model = opened(a, list(weights_of(a)), tmp_path)
    # Another library's order of additions: of numbers around 1, sums of up to 64 products.
    np.testing.assert_allclose(first(model, inputs), golden(a)["y0"], rtol=1e-4, atol=1e-4)
    before = first(model, inputs)
    model.update_weights([tensors(weights_of(b))])
    after = first(model, inputs)
    np.testing.assert_allclose(after, golden(b)["y0"], rtol=1e-4, atol=1e-4)
    # ...and to the last bit what the file with these weights computes, and what it computed before.
    np.testing.assert_array_equal(after, first(opened(b, list(weights_of(b)), tmp_path), inputs))
    model.update_weights([tensors(weights_of(a))])
    np.testing.assert_array_equal(first(model, inputs), before)


@pytest.mark.parametrize(
    ("name", "weight"), [(n, w) for n in FILES for w in WEIGHTS if w in weights_of(DATA / n)]
)
def test_each_kind_of_weight_alone(name: str, weight: str, tmp_path: Path) -> None:
    """Gathered and tied, batched, dense, convolved, small: as a file that was written with it."""
    a, b = DATA / name, DATA / name.replace("_a", "_b")
    inputs = inputs_of(a)
    model = opened(a, [weight], tmp_path)
    before = first(model, inputs)
    model.update_weights([tensors({weight: weights_of(b)[weight]})])
    changed = first(model, inputs)
    assert not np.array_equal(changed, before)
    everything = opened(a, list(weights_of(a)), tmp_path)
    mixed = {**weights_of(a), weight: weights_of(b)[weight]}
    everything.update_weights([tensors(mixed)])
    np.testing.assert_allclose(first(everything, inputs), changed, rtol=1e-5, atol=1e-5)  # may fold otherwise
    if name.endswith(".onnx"):
        proto = onnx.load(a)
        for tensor in proto.graph.initializer:
            if tensor.name == weight:
                tensor.CopyFrom(numpy_helper.from_array(mixed[weight], weight))
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        expected = session.run(None, {"x": inputs[0]})[0]
        np.testing.assert_allclose(changed, expected, rtol=1e-5, atol=1e-5)


def test_state_survives(tmp_path: Path) -> None:
    a, b = DATA / "mixed_a.mindir", DATA / "mixed_b.mindir"
    model = opened(a, list(weights_of(a)), tmp_path)
    counts = [model.predict(inputs_of(a))[1].get_data_to_numpy().item() for _ in range(2)]
    model.update_weights([tensors(weights_of(b))])
    counts.append(model.predict(inputs_of(a))[1].get_data_to_numpy().item())
    assert counts == [1, 2, 3]


def two_products(path: Path, scale: float = 1.0, tied: bool = False) -> dict[str, np.ndarray]:
    """A model of two products with matrices of 16 KB; `tied`: the second is by the first's transpose."""
    random = np.random.default_rng(0)
    weights = {
        n: (scale * random.standard_normal((64, 64))).astype(np.float32) / 8 for n in ("first", "second")
    }
    nodes = [helper.make_node("MatMul", ["x", "first"], ["h"]), helper.make_node("Tanh", ["h"], ["t"])]
    if tied:
        del weights["second"]
        nodes += [helper.make_node("Transpose", ["first"], ["second"], perm=[1, 0])]
    nodes += [helper.make_node("MatMul", ["t", "second"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 64]) for n in "xy")
    initializers = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return weights


X = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)


def by_onnxruntime(path: Path) -> np.ndarray:
    return onnxruntime.InferenceSession(path).run(None, {"x": X})[0]


def test_both_ways_give_the_same_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_weights = two_products(tmp_path / "a.onnx")
    new = two_products(tmp_path / "b.onnx", 2)
    expected = by_onnxruntime(tmp_path / "b.onnx")
    settings = Settings.load(configuration(tmp_path, list(first_weights)))
    for folder, quick in ((str(tmp_path / "cache"), True), ("off", False)):
        monkeypatch.setenv("PINNACE_CACHE_DIR", folder)
        built = build(open_model(str(tmp_path / "a.onnx"), None, Target(threads=1), settings))
        built.executable.close()
        refitter, _ = refitter_of(built.spec, built.spec.variable)
        assert (refitter._optimized is not None and refitter._optimized.unchanged == set(new)) is quick
        executable = refitter.refit(new)
        np.testing.assert_array_equal(executable.execution().run([X])[0], expected)


def test_a_weight_of_which_more_was_computed_ahead_is_replaced_everywhere(tmp_path: Path) -> None:
    names = list(two_products(tmp_path / "a.onnx", tied=True))
    new = two_products(tmp_path / "b.onnx", 2, tied=True)
    model = opened(tmp_path / "a.onnx", names)
    model.update_weights([tensors(new)])
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_square_zeros_that_onnxruntime_transposes_are_replaced(
    tmp_path: Path, dtype: type, cache: str
) -> None:
    """It transposes a weight under its name, and zeros look the same then."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[1, 0]),
        helper.make_node("Add", ["a", "w"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=[1, 0]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, kind, [64, 64]) for name in "xy")
    zeros = numpy_helper.from_array(np.zeros((64, 64), dtype), "w")
    graph = helper.make_graph(nodes, "g", [x], [y], [zeros])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "a.onnx")
    model = opened(tmp_path / "a.onnx", ["w"])
    new = np.arange(4096, dtype=dtype).reshape(64, 64)
    model.update_weights([tensors({"w": new})])
    np.testing.assert_array_equal(first(model, [np.ones_like(new)]), 1 + new.T)


def test_the_cache_may_be_cleared_between_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    names = list(two_products(tmp_path / "a.onnx"))
    new = two_products(tmp_path / "b.onnx", 2)
    model = opened(tmp_path / "a.onnx", names)
    model.update_weights([tensors({"first": new["first"]})])
    shutil.rmtree(tmp_path / "cache")
    model.update_weights([tensors({"second": new["second"]})])
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


def test_a_file_that_is_replaced_after_the_build_is_not_read(tmp_path: Path) -> None:
    names = list(two_products(tmp_path / "a.onnx"))
    new = two_products(tmp_path / "b.onnx", 2)
    two_products(tmp_path / "other.onnx", 3)
    model = opened(tmp_path / "a.onnx", names)
    os.replace(tmp_path / "other.onnx", tmp_path / "a.onnx")
    model.update_weights([tensors(new)])
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


@pytest.mark.parametrize("cache", ["cache", "off"])
def test_weights_beside_it_that_are_replaced_after_the_build_are_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setenv("PINNACE_CACHE_DIR", cache if cache == "off" else str(tmp_path / cache))
    for name, scale in (("a", 1), ("other", 3)):
        two_products(tmp_path / f"{name}.onnx", scale)
        whole = onnx.load(tmp_path / f"{name}.onnx")
        onnx.save(whole, tmp_path / f"{name}.onnx", save_as_external_data=True, location=f"{name}.bin")
    expected = by_onnxruntime(tmp_path / "a.onnx")
    new = two_products(tmp_path / "b.onnx", 2)
    model = opened(tmp_path / "a.onnx", list(new))
    os.replace(tmp_path / "other.bin", tmp_path / "a.bin")
    with pytest.raises(ModelFormatError, match=r"a\.bin: changed"):
        model.update_weights([tensors({"first": new["first"]})])
    np.testing.assert_array_equal(first(model, [X]), expected)


def test_tensors_without_names_go_by_the_order_of_the_list(tmp_path: Path) -> None:
    two_products(tmp_path / "a.onnx")
    new = two_products(tmp_path / "b.onnx", 2)
    model = opened(tmp_path / "a.onnx", ["second", "first"])
    model.update_weights([[Tensor(new["second"])], [Tensor(new["first"])]])
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


def test_what_is_set_is_a_copy(tmp_path: Path) -> None:
    names = list(two_products(tmp_path / "a.onnx"))
    new = two_products(tmp_path / "b.onnx", 2)
    model = opened(tmp_path / "a.onnx", names)
    given = {name: array.copy() for name, array in new.items()}
    model.update_weights([tensors(given)])
    for array in given.values():
        array[:] = 0
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


def test_a_model_of_a_buffer(tmp_path: Path) -> None:
    names = list(two_products(tmp_path / "a.onnx"))
    new = two_products(tmp_path / "b.onnx", 2)
    model = Model()
    config = configuration(tmp_path, names)
    model.build_from_buffer((tmp_path / "a.onnx").read_bytes(), ModelType.ONNX, None, config)
    model.update_weights([tensors(new)])
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    weights = two_products(tmp_path / "a.onnx")
    model = opened(tmp_path / "a.onnx", list(weights))
    new = {name: 2 * array for name, array in weights.items()}
    before = first(model, [X])

    def refused(error: type[Exception], match: str, given: list[Tensor]) -> None:
        with pytest.raises(error, match=match):
            model.update_weights([given])
        np.testing.assert_array_equal(first(model, [X]), before)

    good = tensors({"first": new["first"]})
    refused(
        ArgumentValueError,
        "tensor 1.*'secnd' is not named in .*nearest are 'second'",
        good + tensors({"secnd": X}),
    )
    refused(ArgumentValueError, "tensor 1 .*it has no name", [*good, Tensor(new["second"])])
    refused(ArgumentValueError, "two tensors for 'first'", good * 2)
    refused(ArgumentValueError, "3 tensors without names, .* names 2 weights", [Tensor(X)] * 3)
    wrong = tensors({"second": new["second"][:32]})
    refused(
        DataMismatchError,
        r"'second' is DataType.FLOAT32 \[64, 64\], but got .*FLOAT32 \[32, 64\]",
        good + wrong,
    )
    wrong = tensors({"second": new["second"].astype(np.float64)})
    refused(DataMismatchError, "'second' is DataType.FLOAT32 .* but got DataType.FLOAT64", good + wrong)
    empty = Tensor(shape=[64, 64])
    empty.name = "second"
    refused(DataMismatchError, "'second' has no data", [*good, empty])
    model.update_weights([[]])
    np.testing.assert_array_equal(first(model, [X]), before)


def test_where_building_fails_the_old_weights_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = two_products(tmp_path / "a.onnx")
    model = opened(tmp_path / "a.onnx", list(weights))
    before = first(model, [X])

    def fail(*_: object) -> None:
        raise EngineError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr("pinnace.engines.onnxruntime.refitting.OnnxruntimeRefitter.refit", fail)
        with pytest.raises(EngineError, match="no memory"):
            model.update_weights([tensors({"first": 2 * weights["first"]})])
    np.testing.assert_array_equal(first(model, [X]), before)
    # What failed is not remembered: of the next update only what it says is set.
    model.update_weights([tensors({"second": weights["second"]})])
    np.testing.assert_array_equal(first(model, [X]), before)


def test_only_what_was_named_can_be_updated(tmp_path: Path) -> None:
    weights = two_products(tmp_path / "a.onnx")
    model = opened(tmp_path / "a.onnx")
    with pytest.raises(ModelStateError, match="variable_weights_file"):
        model.update_weights([tensors(weights)])
    with pytest.raises(ModelStateError, match="update weight failed! the model is not built"):
        Model().update_weights([tensors(weights)])
    model.close()
    with pytest.raises(ModelStateError, match="closed"):
        model.update_weights([tensors(weights)])


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (["first", "secnd", "9"], r"of these names: 'secnd' \(the nearest are 'second'\), '9'$"),
        (["first", *"123456"], "names: '1', '2', '3', '4', '5', and 1 more$"),
        (["first", "", "first"], "names.txt:3: 'first' is in line 1 already"),
        (["", ""], "names no weights"),
    ],
)
def test_wrong_lists_are_told_at_the_build(tmp_path: Path, lines: list[str], match: str) -> None:
    two_products(tmp_path / "a.onnx")
    with pytest.raises(ConfigError, match=match):
        opened(tmp_path / "a.onnx", lines)


def test_the_list_that_is_not_there(tmp_path: Path) -> None:
    options = {"common_context": {"variable_weights_file": str(tmp_path / "none.txt")}}
    with pytest.raises(ConfigError, match=r"variable_weights_file .*none.txt: No such file"):
        Model().build_from_file(str(DATA / "lite_a.onnx"), ModelType.ONNX, None, "", options)


def test_state_is_no_weight(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'calls' cannot be exchanged: the model assigns to it"):
        opened(DATA / "mixed_a.mindir", ["calls"], tmp_path)


def of_program(primitive: str, weight: np.ndarray) -> None:
    """Lower a program of one node, whose second input is a weight that may be exchanged."""
    x = Input("x", TypeInfo(ir.DataType.FLOAT, (2, 3)))
    node = Node("node", primitive, ("x", "weight"), ("y",))
    main = Function("main", [x], ["y"], [node], {"weight": ir.tensor(weight, name="weight")})
    compilable(Program(main, {"main": main}, Dialect.MINDSPORE), "a model", None, ["weight"])


def test_a_weight_that_decides_what_the_graph_is() -> None:
    """What has to be known while a model is lowered is told, with the node that asks for it."""
    with pytest.raises(UnsupportedModelError, match=r"node.*must be known before the run"):
        of_program("HShrink", np.ones(1, np.float32))
    with pytest.raises(ConfigError, match="'weight' cannot be exchanged: so few integers may be a shape"):
        of_program("Reshape", np.array([3, 2]))
    of_program("Mul", np.ones(3, np.float32))


@pytest.mark.filterwarnings("ignore:.*workers x .* threads are more than")
@pytest.mark.parametrize("workers", [1, 3])
def test_eight_clients_while_weights_change(tmp_path: Path, workers: int) -> None:
    """Every output is that of one of the sets, none fails, and both sets are seen."""
    sets = [two_products(tmp_path / f"{scale}.onnx", scale) for scale in (1, 2, 3)]
    expected = [by_onnxruntime(tmp_path / f"{scale}.onnx") for scale in (1, 2, 3)]
    context = Context(thread_num=1)
    context.parallel.workers_num = workers
    context.parallel.config_path = configuration(tmp_path, list(sets[0]))
    runner = ModelParallelRunner()
    runner.build_from_file(str(tmp_path / "1.onnx"), context)
    stop, wrong, seen = threading.Event(), [], set()

    def client() -> None:
        try:
            while not stop.is_set():
                y = first(runner, [X])
                hits = [i for i, e in enumerate(expected) if np.array_equal(e, y)]
                seen.update(hits)
                if not hits:
                    raise AssertionError("an output of no set")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        runner.update_weights([tensors(sets[turn % 3])])
        assert np.array_equal(first(runner, [X]), expected[turn % 3])  # the next run has the new ones
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(seen) > 1


def test_updates_at_the_same_time_follow_each_other(tmp_path: Path) -> None:
    """Of updates of different weights none is lost."""
    names = list(two_products(tmp_path / "a.onnx"))
    new = two_products(tmp_path / "b.onnx", 2)
    model = opened(tmp_path / "a.onnx", names)
    threads = [threading.Thread(target=model.update_weights, args=[[tensors({n: new[n]})]]) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


def test_closing_while_an_update_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = two_products(tmp_path / "a.onnx")
    model = opened(tmp_path / "a.onnx", list(weights))
    from pinnace.engines.onnxruntime.refitting import OnnxruntimeRefitter

    refit = OnnxruntimeRefitter.refit

    def closing(self: OnnxruntimeRefitter, values: dict) -> object:
        model.close()
        return refit(self, values)

    monkeypatch.setattr(OnnxruntimeRefitter, "refit", closing)
    with pytest.raises(ModelStateError, match="closed while its weights or shapes were exchanged"):
        model.update_weights([tensors(weights)])


def test_what_was_exchanged_is_freed(tmp_path: Path) -> None:
    weights = two_products(tmp_path / "a.onnx")
    model = opened(tmp_path / "a.onnx", list(weights))
    model.update_weights([tensors(weights)])
    old = weakref.ref(model._live.workers.executable)
    model.update_weights([tensors(weights)])
    gc.collect()
    assert old() is None


def test_resize_keeps_the_weights(tmp_path: Path) -> None:
    names = list(two_products(tmp_path / "a.onnx"))
    new = two_products(tmp_path / "b.onnx", 2)
    model = opened(tmp_path / "a.onnx", names)
    model.update_weights([tensors(new)])
    model.resize(model.get_inputs(), [[3, 64]])
    model.update_weights([tensors({"first": new["first"]})])
    np.testing.assert_array_equal(first(model, [X]), by_onnxruntime(tmp_path / "b.onnx"))


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16", "DOUBLE", "INT64", "BOOL", "UINT8"])
@pytest.mark.parametrize("size", [40, 4096])
def test_weights_of_other_types(tmp_path: Path, dtype: str, size: int, cache: str) -> None:
    """Large and small ones, which the engine is given in different ways."""
    kind = ir.DataType[dtype].numpy()
    old, new = (np.random.default_rng(seed).integers(0, 2, (size,)).astype(kind) for seed in (1, 2))
    tensor = TensorProto(
        name="weight", dims=old.shape, data_type=TensorProto.DataType.Value(dtype), raw_data=old.tobytes()
    )
    x = helper.make_tensor_value_info("x", TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    nodes = [
        helper.make_node("Gather", ["weight", "x"], ["h"]),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [tensor])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    model = opened(path, ["weight"])
    places = np.arange(size)
    np.testing.assert_array_equal(first(model, [places]), old.astype(np.float32))
    model.update_weights([[Tensor(new)]])
    np.testing.assert_array_equal(first(model, [places]), new.astype(np.float32))


def test_weights_of_half_bytes_are_refused(tmp_path: Path) -> None:
    tensor = TensorProto(name="weight", dims=[4], data_type=TensorProto.INT4, raw_data=b"12")
    y = helper.make_tensor_value_info("y", TensorProto.INT8, [4])
    node = helper.make_node("Cast", ["weight"], ["y"], to=TensorProto.INT8)
    graph = helper.make_graph([node], "g", [], [y], [tensor])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    with pytest.raises(ConfigError, match=r"'weight' cannot be exchanged: it is INT4\[4\]"):
        opened(path, ["weight"])
