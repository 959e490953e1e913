"""LoRA adapters: what they add, against the same sum in numpy, and their removal to the last bit."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace import Context, Model, ModelType, PinnaceWarning, Tensor
from pinnace.errors import ArgumentValueError, DataMismatchError, ModelFormatError, ModelStateError

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is missing")

UPDATE = Path(__file__).parent / "data" / "update"
RANDOM = np.random.default_rng(0)
RANK = 4


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32) / 4


WEIGHTS = {
    "block.0.to_q.weight": normal(32, 32),  # of x @ w: [inputs, outputs]
    "block.0.to_out.0.weight": normal(32, 32),  # of Gemm with transB: [outputs, inputs]
    "block.0.wide.weight": normal(8, 4, 3, 3),
    "block.0.narrow.weight": normal(4, 8, 1, 1),
}
MODULES = [name.removesuffix(".weight") for name in WEIGHTS]
X = normal(2, 32)


def network(path: Path, weights: dict[str, np.ndarray]) -> Path:
    """Two linear layers that hold their weights in opposite ways, and two convolutions of 4 by 8 images."""
    q, out, wide, narrow = weights
    reshape = numpy_helper.from_array(np.array([2, 4, 2, 4]), "image")
    nodes = [
        helper.make_node("MatMul", ["x", q], ["a"]),
        helper.make_node("Gemm", ["a", out], ["b"], transB=1),
        helper.make_node("Reshape", ["b", "image"], ["c"]),
        helper.make_node("Conv", ["c", wide], ["d"], pads=[1] * 4),
        helper.make_node("Conv", ["d", narrow], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4, 2, 4])
    initializers = [reshape, *(numpy_helper.from_array(w, n) for n, w in weights.items())]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def by_onnxruntime(folder: Path, weights: dict[str, np.ndarray]) -> np.ndarray:
    return onnxruntime.InferenceSession(network(folder / "merged.onnx", weights)).run(None, {"x": X})[0]


def opened(path: Path, kind: ModelType = ModelType.ONNX) -> Model:
    model = Model()
    model.build_from_file(str(path), kind, Context(thread_num=1))
    return model


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return opened(network(tmp_path / "model.onnx", WEIGHTS))


def first(model: Model) -> np.ndarray:
    return model.predict([X])[0].get_data_to_numpy()


def pairs(rank: int = RANK) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Down and up for each module; the window is the down's, as in all three families."""
    return {
        "block.0.to_q": (normal(rank, 32), normal(32, rank)),
        "block.0.to_out.0": (normal(rank, 32), normal(32, rank)),
        "block.0.wide": (normal(rank, 4, 3, 3), normal(8, rank, 1, 1)),
        "block.0.narrow": (normal(rank, 8, 1, 1), normal(4, rank, 1, 1)),
    }


def merged(given: dict[str, tuple[np.ndarray, np.ndarray]], factor: float) -> dict[str, np.ndarray]:
    """W + factor * up @ down, each weight in its own order of dimensions; in float64."""
    weights = dict(WEIGHTS)
    for module, (down, up) in given.items():
        name = f"{module}.weight"
        delta = np.einsum("or,ri...->oi...", up.reshape(len(up), -1).astype(np.float64), down)
        delta = delta.T if module.endswith("to_q") else delta
        weights[name] = (weights[name] + factor * delta).astype(np.float32)
    return weights


def peft(module: str) -> tuple[str, str]:
    return f"base_model.model.{module}.lora_A.weight", f"base_model.model.{module}.lora_B.weight"


def peft_named(module: str) -> tuple[str, str]:
    return f"base_model.model.{module}.lora_A.mine.weight", f"base_model.model.{module}.lora_B.mine.weight"


def diffusers(module: str) -> tuple[str, str]:
    return f"unet.{module}.lora_A.weight", f"unet.{module}.lora_B.weight"


def diffusers_old(module: str) -> tuple[str, str]:
    return f"unet.{module}.lora.down.weight", f"unet.{module}.lora.up.weight"


def diffusers_layer(module: str) -> tuple[str, str]:
    return f"{module}.lora_linear_layer.down.weight", f"{module}.lora_linear_layer.up.weight"


def kohya(module: str) -> tuple[str, str]:
    flat = f"lora_unet_{module.replace('.', '_')}"
    return f"{flat}.lora_down.weight", f"{flat}.lora_up.weight"


def processor(module: str) -> tuple[str, str]:
    """Names of attention processors; what is no attention is named as by diffusers."""
    block, _, last = module.removesuffix(".0").rpartition(".")
    if not last.startswith("to_"):
        return diffusers_old(module)
    name = f"unet.{block}.processor.{last}_lora"
    return f"{name}.down.weight", f"{name}.up.weight"


STYLES = (peft, peft_named, diffusers, diffusers_old, diffusers_layer, kohya, processor)


def written(path: Path, given: dict, style=peft, **more: np.ndarray) -> Path:
    tensors = {}
    for module, (down, up) in given.items():
        names = style(module)
        tensors |= {names[0]: down, names[1]: up}
    safetensors.save_file({**tensors, **more}, path)
    return path


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_each_family_of_names(model: Model, tmp_path: Path, style, scale: float) -> None:
    given = pairs()
    before = first(model)
    model.apply_lora(written(tmp_path / "adapter.safetensors", given, style), scale)
    # Sums of float32 against sums of float64 that were rounded.
    np.testing.assert_allclose(
        first(model), by_onnxruntime(tmp_path, merged(given, scale)), rtol=1e-4, atol=1e-4
    )
    model.remove_lora()
    np.testing.assert_array_equal(first(model), before)


def test_alpha_of_kohya_is_in_the_file(model: Model, tmp_path: Path) -> None:
    given = pairs()
    alphas = {f"lora_unet_{m.replace('.', '_')}.alpha": np.array(2, np.float32) for m in given}
    model.apply_lora(written(tmp_path / "adapter.safetensors", given, kohya, **alphas))
    np.testing.assert_allclose(
        first(model), by_onnxruntime(tmp_path, merged(given, 2 / RANK)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("stabilized", "factor"), [(False, 16 / RANK), (True, 16 / RANK**0.5)])
def test_alpha_of_peft_is_beside_it(model: Model, tmp_path: Path, stabilized: bool, factor: float) -> None:
    given = {"block.0.to_q": pairs()["block.0.to_q"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps({"lora_alpha": 16, "use_rslora": stabilized}))
    model.apply_lora(written(tmp_path / "adapter.safetensors", given))
    np.testing.assert_allclose(
        first(model), by_onnxruntime(tmp_path, merged(given, factor)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("to_q", True),
        ("block.0.to_q", True),
        ("o_q", False),
        (r"block\.\d\.to_[kqv]", True),
        ("to_.", True),
        ("block|to", False),
    ],
)
def test_alpha_of_peft_may_be_another_for_modules_with_a_pattern(
    model: Model, tmp_path: Path, pattern: str, matches: bool
) -> None:
    given = {"block.0.to_q": pairs()["block.0.to_q"]}
    config = {"lora_alpha": 16, "alpha_pattern": {pattern: 2}}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    model.apply_lora(written(tmp_path / "adapter.safetensors", given))
    factor = (2 if matches else 16) / RANK
    np.testing.assert_allclose(
        first(model), by_onnxruntime(tmp_path, merged(given, factor)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_read(model: Model, tmp_path: Path, dtype: type) -> None:
    down, up = (a.astype(dtype) for a in pairs()["block.0.to_q"])
    keys = peft("block.0.to_q")
    blob = down.tobytes() + up.tobytes()
    name = {np.float16: "F16"}.get(dtype, "BF16")  # safetensors' own writer for numpy has no bfloat16
    ends = [0, down.nbytes, len(blob)]
    header = json.dumps(
        {
            key: {"dtype": name, "shape": array.shape, "data_offsets": ends[i : i + 2]}
            for i, (key, array) in enumerate(zip(keys, (down, up), strict=True))
        }
    ).encode()
    path = tmp_path / "adapter.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + blob)
    model.apply_lora(tmp_path / "adapter.safetensors")
    given = {"block.0.to_q": (down.astype(np.float32), up.astype(np.float32))}
    np.testing.assert_allclose(first(model), by_onnxruntime(tmp_path, merged(given, 1)), rtol=1e-4, atol=1e-4)


def test_several_stack_and_each_can_be_taken_out(model: Model, tmp_path: Path) -> None:
    before = first(model)
    one = written(tmp_path / "one.safetensors", pairs())
    two = written(tmp_path / "two.safetensors", {"block.0.to_q": pairs(2)["block.0.to_q"]})
    model.apply_lora(one)
    only_one = first(model)
    model.apply_lora(two, -2)
    assert not np.array_equal(first(model), only_one)
    model.remove_lora(two)
    np.testing.assert_array_equal(first(model), only_one)
    model.apply_lora(two)
    model.remove_lora(one)
    only_two = first(model)
    model.remove_lora(two)
    np.testing.assert_array_equal(first(model), before)
    model.apply_lora(two)
    np.testing.assert_array_equal(first(model), only_two)
    with pytest.raises(ArgumentValueError, match=r"one.safetensors was not applied; there are: .*two"):
        model.remove_lora(one)


def test_over_updated_weights(tmp_path: Path) -> None:
    """What is restored is what update_weights has set; an update leaves the adapter where it is."""
    (tmp_path / "names.txt").write_text("block.0.to_q.weight")
    config = {"common_context": {"variable_weights_file": str(tmp_path / "names.txt")}}
    model = Model()
    path = network(tmp_path / "model.onnx", WEIGHTS)
    model.build_from_file(str(path), ModelType.ONNX, Context(thread_num=1), "", config)
    given = pairs()
    model.apply_lora(written(tmp_path / "adapter.safetensors", given))
    name = "block.0.to_q.weight"
    new = {**WEIGHTS, name: 2 * WEIGHTS[name]}
    tensor = Tensor(new[name])
    tensor.name = name
    model.update_weights([[tensor]])
    both = merged(given, 1)
    both[name] = both[name] + WEIGHTS[name]
    np.testing.assert_allclose(first(model), by_onnxruntime(tmp_path, both), rtol=1e-4, atol=1e-4)
    model.remove_lora()
    # Another engine may run the model, which adds in another order.
    np.testing.assert_allclose(first(model), by_onnxruntime(tmp_path, new), rtol=1e-5, atol=1e-5)


def test_dense_layers_of_mindspore(tmp_path: Path) -> None:
    """MindSpore holds them as outputs by inputs; a weight that is used in two ways counts once."""
    model = opened(UPDATE / "mixed_a.mindir", ModelType.MINDIR)
    golden, x = np.load(UPDATE / "mixed_a.npz"), np.load(UPDATE / "mixed_a.npz")["x0"]
    before = model.predict([x])[0].get_data_to_numpy()
    down, up = normal(2, 24), normal(24, 2)
    delta = (up.astype(np.float64) @ down).astype(np.float32)
    model.apply_lora(written(tmp_path / "adapter.safetensors", {"dense": (down, up)}))
    changed = model.predict([x])[0].get_data_to_numpy()
    (tmp_path / "names.txt").write_text("dense.weight")
    config = {"common_context": {"variable_weights_file": str(tmp_path / "names.txt")}}
    other = Model()
    other.build_from_file(str(UPDATE / "mixed_a.mindir"), ModelType.MINDIR, None, "", config)
    other.update_weights([[Tensor(golden["w:dense.weight"] + delta)]])
    np.testing.assert_allclose(changed, other.predict([x])[0].get_data_to_numpy(), rtol=1e-4, atol=1e-4)
    model.remove_lora()
    np.testing.assert_array_equal(model.predict([x])[0].get_data_to_numpy(), before)


def test_weights_without_names_are_found_by_their_nodes(tmp_path: Path) -> None:
    """PyTorch's exporter calls weights of linear layers onnx::MatMul_7, and their nodes by the modules."""
    path = network(
        tmp_path / "model.onnx",
        {name.replace("block.0.to_q.weight", "onnx::MatMul_7"): w for name, w in WEIGHTS.items()},
    )
    proto = onnx.load(path)
    module, (product, *rest) = "/block.0/to_q", proto.graph.node
    product.name, product.input[0] = f"{module}/MatMul_1", "turned"
    before = [
        helper.make_node("Reshape", ["x", "sizes"], ["same"], name=f"{module}/Reshape"),
        helper.make_node("Identity", ["eye"], ["computed"], name=f"{module}/Identity"),
        helper.make_node("MatMul", ["same", "computed"], ["turned"], name=f"{module}/MatMul"),
    ]
    del proto.graph.node[:]
    proto.graph.node.extend([*before, product, *rest])
    arrays = {"sizes": np.array([2, 32]), "eye": np.eye(32, dtype=np.float32)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(proto, path)
    model = opened(path)
    given = {"block.0.to_q": pairs()["block.0.to_q"]}
    model.apply_lora(written(tmp_path / "adapter.safetensors", given))
    np.testing.assert_allclose(first(model), by_onnxruntime(tmp_path, merged(given, 1)), rtol=1e-4, atol=1e-4)


def test_linear_adapters_of_convolutions_by_one(model: Model, tmp_path: Path) -> None:
    given = {"block.0.narrow": (normal(RANK, 8), normal(4, RANK))}
    model.apply_lora(written(tmp_path / "adapter.safetensors", given))
    whole = {"block.0.narrow": tuple(a.reshape(*a.shape, 1, 1) for a in given["block.0.narrow"])}
    np.testing.assert_allclose(first(model), by_onnxruntime(tmp_path, merged(whole, 1)), rtol=1e-4, atol=1e-4)


def test_parts_for_other_networks_are_left_out(model: Model, tmp_path: Path) -> None:
    given = pairs()
    text = {
        "lora_te_text_model_layers_0.lora_down.weight": normal(2, 8),
        "lora_te_text_model_layers_0.lora_up.weight": normal(8, 2),
    }
    path = written(tmp_path / "adapter.safetensors", given, kohya, **text)
    with pytest.warns(PinnaceWarning, match="its part 'lora_te' is for another network"):
        model.apply_lora(path)
    np.testing.assert_allclose(first(model), by_onnxruntime(tmp_path, merged(given, 1)), rtol=1e-4, atol=1e-4)


def test_what_does_not_fit_changes_nothing(model: Model, tmp_path: Path) -> None:
    before = first(model)
    path = tmp_path / "adapter.safetensors"
    good = pairs()

    def refused(error: type[Exception], match: str, given: dict, style=peft, **more: np.ndarray) -> None:
        written(path, given, style, **more)
        with pytest.raises(error, match=match):
            model.apply_lora(path)
        np.testing.assert_array_equal(first(model), before)

    square = (normal(RANK, 32), normal(32, RANK))
    near = (
        r"'base_model.model.block.0.to_k' fits no weight of the model; the nearest are 'block.0.to_q.weight'"
    )
    refused(ArgumentValueError, near, {**good, "block.0.to_k": square})
    wrong = {**good, "block.0.to_q": (normal(RANK, 16), normal(32, RANK))}
    refused(DataMismatchError, r"changes a weight of \[32, 16\].*'block.0.to_q.weight' has the shape", wrong)
    odd = {**good, "block.0.to_q": (normal(RANK, 32), normal(32, 3))}
    refused(DataMismatchError, r"down \[4, 32\] and up \[32, 3\] do not match", odd)
    number, vector = np.array(1, np.float32), normal(1)
    flat = ((vector, normal(32, 1)), (normal(1, 32), vector))
    for down, up in ((normal(0, 32), normal(32, 0)), (number, number), *flat):
        refused(DataMismatchError, "do not match", {**good, "block.0.to_q": (down, up)})
    # The product would have 64 GB.
    vast = {**good, "block.0.to_q": (normal(1, 1 << 16), normal(1 << 18, 1))}
    refused(DataMismatchError, r"changes a weight of \[262144, 65536\]", vast)
    more = {"block.0.to_q.dora_scale": normal(32)}
    refused(ArgumentValueError, "'block.0.to_q.dora_scale' is not a known name in a LoRA", good, **more)
    lonely = {"block.0.to_k.lora_A.weight": normal(2, 32)}
    refused(ModelFormatError, "'block.0.to_k' has only one of its two matrices", good, **lonely)
    refused(ModelFormatError, "it has no matrices", {})
    stray = {"lora_unet_block_0_to_k.alpha": np.array(1, np.float32)}
    refused(ArgumentValueError, "has an alpha and no matrices", good, kohya, **stray)
    whole = {"block.0.to_q.lora_A.weight": np.ones((2, 32), np.int32)}
    refused(ModelFormatError, "elements of type I32", good, **whole)


def test_a_module_that_may_be_several(tmp_path: Path) -> None:
    names = ["a.q.weight", "b.q.weight", "c.wide.weight", "c.narrow.weight"]
    weights = dict(zip(names, WEIGHTS.values(), strict=True))
    model = opened(network(tmp_path / "model.onnx", weights))
    path = written(tmp_path / "adapter.safetensors", {"q": (normal(2, 32), normal(32, 2))})
    with pytest.raises(ArgumentValueError, match=r"may mean any of the weights 'a.q.weight', 'b.q.weight'"):
        model.apply_lora(path)


def test_file_with_two_adapters_is_refused(model: Model, tmp_path: Path) -> None:
    module, (down, up) = next(iter(pairs().items()))
    sides = {"lora_A": down, "lora_B": up}
    tensors = {
        f"base_model.model.{module}.{s}.{n}.weight": x for n in ("one", "two") for s, x in sides.items()
    }
    safetensors.save_file(tensors, tmp_path / "two.safetensors")
    with pytest.raises(ArgumentValueError, match=f"repeats '.*{module}': the file has two adapters"):
        model.apply_lora(tmp_path / "two.safetensors")


def test_damaged_adapters_are_refused(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="No such file"):
        model.apply_lora(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(ModelFormatError, match="is not a safetensors file"):
        model.apply_lora(tmp_path / "bad.safetensors")
    header = b'{"x":{"dtype":"F32","shape":[%s],"data_offsets":[0,4]}}' % b",".join([b"1"] * 65)
    (tmp_path / "bad.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ModelFormatError, match="'x' cannot have the shape"):
        model.apply_lora(tmp_path / "bad.safetensors")
    with pytest.raises(ModelFormatError, match="null byte"):
        model.apply_lora("bad\0.safetensors")
    with pytest.raises(TypeError, match="scale must be float"):
        model.apply_lora(tmp_path / "bad.safetensors", "1")
    for scale in (float("nan"), float("inf"), 10**400):
        with pytest.raises(ArgumentValueError, match="scale must be a finite number"):
            model.apply_lora(tmp_path / "bad.safetensors", scale)
    with pytest.raises(TypeError, match="path must be str"):
        model.apply_lora(1)
    with pytest.raises(ModelStateError, match="not built"):
        Model().apply_lora(tmp_path / "bad.safetensors")
    with pytest.raises(ArgumentValueError, match="no adapter was applied"):
        model.remove_lora()


@pytest.mark.parametrize(
    "config",
    [
        '{"lora_alpha": null}',
        '{"lora_alpha": "eight"}',
        '{"lora_alpha": 1%s}' % ("0" * 400),
        '{"lora_alpha": 8, "alpha_pattern": ["to_q"]}',
        '{"lora_alpha": 8, "alpha_pattern": {"(": 4}}',
        "[" * 100_000,
    ],
)
def test_damaged_adapter_configurations_are_refused(model: Model, tmp_path: Path, config: str) -> None:
    path = written(tmp_path / "adapter.safetensors", pairs())
    (tmp_path / "adapter_config.json").write_text(config)
    with pytest.raises(ModelFormatError, match=r"adapter_config\.json: "):
        model.apply_lora(path)


def test_missing_safetensors_is_an_import_error(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install safetensors"):
        model.apply_lora(tmp_path / "adapter.safetensors")


def test_a_model_of_a_buffer_takes_adapters_too(tmp_path: Path) -> None:
    model = Model()
    model.build_from_buffer(network(tmp_path / "model.onnx", WEIGHTS).read_bytes(), ModelType.ONNX)
    given = pairs()
    model.apply_lora(written(tmp_path / "adapter.safetensors", given))
    np.testing.assert_allclose(first(model), by_onnxruntime(tmp_path, merged(given, 1)), rtol=1e-4, atol=1e-4)
