"""Options do something, or one warning of the build says that they do not, and why."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pinnace
from pinnace.errors import ConfigError, DataMismatchError, PinnaceWarning
from pinnace.options.effects import with_settings
from pinnace.options.settings import Settings
from pinnace.options.table import CONTEXT, PLACES, SECTIONS, Option
from pinnace.options.values import Number, TextFormat, Words
from pinnace.shapes import flattened, written
from pinnace.tensors.gears import limited
from pinnace.types import DataType, Port

MODEL = str(Path(pinnace.__file__).parent / "data" / "efficientnet_lite0.mindir")


def on(place: str) -> pinnace.Context:
    context = pinnace.Context()
    context.target = [{"cuda": "gpu", "tensorrt": "gpu"}.get(place, place.split()[-1])]
    if place == "tensorrt":
        context.gpu.provider = place
    return context


def report(context: pinnace.Context, options: dict | None = None, *facts: str) -> str:
    """What is warned of, "" is nothing; one line at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with_settings(context, Settings.load(options=options), *facts)
    assert len(caught) <= 1
    return str(caught[0].message) if caught else ""


def some(option: Option) -> str:
    """A value that the option may hold."""
    match option.values:
        case Words(words):
            return words[-1]
        case Number():
            return "0"
        case TextFormat(example):
            return example
    return "x"


@pytest.mark.parametrize("place", PLACES)
def test_every_key_without_an_effect_is_named_once(monkeypatch, place: str) -> None:
    if place.startswith("simulated"):
        monkeypatch.setenv("PINNACE_SIMULATE", "gpu:2,ascend:2")
    for name, section in SECTIONS.items():
        for key, option in {**section.keys, **({"junk": section.others} if section.others else {})}.items():
            if name == "execution_plan":
                continue
            text = report(on(place), {name: {key: some(option)}}, *option.needs)
            assert (place in option.on) == (text == ""), (name, key, text)
            assert not text or f"[{name}] {key} (" in text


@pytest.mark.parametrize(
    ("options", "facts", "wanted"),
    [
        (
            {"gpu_context": {"precision_mode": "preferred_fp16"}, "ascend_context": {"device_id": "1"}},
            (),
            r"[ascend_context] device_id, [gpu_context] precision_mode (the target is the CPU)",
        ),
        (
            {"ge_session_options": {"no.such": "1"}},
            (),
            "[ge_session_options] no.such (the target is the CPU)",
        ),
        ({"runner": {"max_queue": "3"}}, (), "[runner] max_queue (for ModelParallelRunner only)"),
        ({"runner": {"max_queue": "3"}}, ("ModelParallelRunner",), ""),
        (
            {"weight": {"weight_path": "x"}},
            (),
            "[weight] weight_path (a model file has its weights beside it)",
        ),
    ],
)
def test_reasons_of_options_without_effect(options: dict, facts: tuple[str, ...], wanted: str) -> None:
    text = report(pinnace.Context(), options, *facts)
    assert wanted in text
    assert bool(text) == bool(wanted)


@pytest.mark.parametrize(
    ("place", "name", "value", "wanted"),
    [
        ("cpu", "gpu.device_id", 1, "context.gpu.device_id (the target is the CPU)"),
        (
            "cpu",
            "ascend.precision_mode",
            "enforce_fp16",
            "context.ascend.precision_mode (the target is the CPU)",
        ),
        ("cpu", "gpu.device_id", 0, ""),  # as the seed documents set it, whatever the target
        ("cpu", "ascend.rank_id", 1, ""),
        ("cpu", "enable_parallel", True, "context.enable_parallel (ModelParallelRunner runs requests"),
        ("cpu", "parallel.workers_num", 2, "context.parallel.workers_num (for ModelParallelRunner only)"),
        (
            "cpu",
            "parallel.config_info",
            {"runner": {}},
            "config_info (for ModelParallelRunner only; other classes",
        ),
        ("cuda", "cpu.precision_mode", "preferred_fp16", "precision_mode (devices have their own option)"),
        ("cuda", "cpu.thread_num", 2, ""),
        ("simulated ascend", "cpu.thread_num", 2, ""),
        (
            "simulated ascend",
            "cpu.thread_affinity_core_list",
            [0],
            "core_list (threads of a simulated device",
        ),
        ("simulated ascend", "cpu.thread_affinity_mode", 1, "affinity_mode (threads of a simulated device"),
        ("simulated ascend", "gpu.provider", "cuda", "context.gpu.provider (the target is an Ascend device)"),
        (
            "simulated ascend",
            "target",
            ["ascend", "gpu"],
            "'gpu' in context.target (the first device, 'ascend'",
        ),
        ("simulated ascend", "target", ["Ascend", "cpu"], ""),
    ],
)
def test_attributes_of_a_context(monkeypatch, place: str, name: str, value: object, wanted: str) -> None:
    if place.startswith("simulated"):
        monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    context = on(place)
    group, _, attribute = name.rpartition(".")
    setattr(getattr(context, group) if group else context, attribute, value)
    text = report(context)
    assert wanted in text
    assert bool(text) == bool(wanted)


def test_the_table_has_all_attributes_of_a_context() -> None:
    """But for those that are read only or another name of one, and those that say the same in another way."""
    context = pinnace.Context()
    groups = {"cpu.": context.cpu, "gpu.": context.gpu, "ascend.": context.ascend, "": context}
    groups["parallel."] = context.parallel
    found = {
        prefix + name
        for prefix, options in groups.items()
        for name in dir(type(options))
        if isinstance(value := getattr(type(options), name), property) and value.fset
    }
    again = {f"{kind}.enable_fp16" for kind in ("cpu", "gpu", "ascend")}
    assert (found | {"enable_parallel"}) - again == set(CONTEXT)


def test_the_manual_has_all_options_with_their_values_and_places() -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    told, section = {}, ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").strip("[]")
        elif line.startswith("| ") and not line.startswith(("| option", "| ---")):
            name, _, values, *marks, _ = line[2:-2].split(" | ")
            told[section, name.strip("`")] = values, [mark == "✓" for mark in marks]

    def known(option: Option) -> tuple[str, list[bool]]:
        return str(option.values or ""), [place in option.on for place in PLACES]

    wanted = {("Attributes of `Context`", name): known(option) for name, option in CONTEXT.items()}
    for name, table in SECTIONS.items():
        wanted |= {(name, key): known(table.option(key)) for key in table.keys}
        if table.others is not None:
            others = "any other" if table.keys else "any"
            key = "the name of a node" if name == "execution_plan" else others
            wanted[name, key] = known(table.others)
    assert told == wanted


def test_build_warns_in_one_line() -> None:
    options = {"gpu_context": {"dump_ops": "x"}, "ms_cache": {"vocab_size": "3"}}
    context = on("cpu")
    context.gpu.device_id = 1
    for build in (
        lambda: pinnace.Model().build_from_file(MODEL, pinnace.ModelType.MINDIR, context, "", options),
        lambda: pinnace.DataParallel(MODEL, context, config_dict=options).close(),
    ):
        with pytest.warns(PinnaceWarning, match="these options have no effect") as caught:
            build()
        assert len(caught) == 1
        assert caught[0].filename == __file__
    context.parallel.config_info = options
    with pytest.warns(PinnaceWarning, match=r"context.gpu.device_id, \[gpu_context\] dump_ops") as caught:
        pinnace.ModelParallelRunner().build_from_file(MODEL, context)
    assert len(caught) == 1
    config = pinnace.RunnerConfig(workers_num=1)
    config.device_ids = [0]
    with pytest.warns(PinnaceWarning, match=r"parallel.device_ids \(the CPU is one device\)") as caught:
        pinnace.ModelParallelRunner().init(MODEL, config)
    assert len(caught) == 1


def test_device_ids_are_for_a_runner(monkeypatch) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    context = on("ascend")
    context.parallel.device_ids = [0, 1]
    with pytest.warns(PinnaceWarning, match=r"parallel.device_ids \(for ModelParallelRunner only\)"):
        pinnace.Model(MODEL, context)


def test_a_delay_for_requests_that_do_not_join() -> None:
    context = on("cpu")
    context.parallel.config_info = {"runner": {"max_queue_delay_us": "5"}}
    with pytest.warns(PinnaceWarning, match="max_queue_delay_us has no effect without max_batch_size"):
        pinnace.ModelParallelRunner().build_from_file(MODEL, context)


def test_device_ids_take_precedence_over_device_id(monkeypatch) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    context = on("ascend")
    context.ascend.device_id = 1
    with (
        pytest.warns(PinnaceWarning, match=r"context.ascend.device_id \(the devices are those of device_ids"),
        pinnace.DataParallel(MODEL, context, device_ids=[0]),
    ):
        pass


@pytest.mark.parametrize("key", ["precision_mode", "provider", "device_id"])
def test_a_simulated_ascend_goes_by_its_configuration(monkeypatch, key: str) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    options = {"precision_mode": "enforce_fp16", "provider": "ge", "device_id": "1"}
    context = on("ascend")
    filled = with_settings(context, Settings.load(options={"ascend_context": {key: options[key]}}))
    assert str(getattr(filled.ascend, key)) == options[key]
    assert getattr(context.ascend, key) == getattr(pinnace.Context().ascend, key)
    setattr(context.ascend, key, {"device_id": 0}.get(key, "enforce_fp32"))
    text = report(context, {"ascend_context": {key: options[key]}})
    assert f"[ascend_context] {key} (the context says {getattr(context.ascend, key)})" in text


def test_the_device_of_a_configuration_is_the_one_that_computes(monkeypatch) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    model = pinnace.Model()
    options = {"ascend_context": {"device_id": "1"}}
    model.build_from_file(MODEL, pinnace.ModelType.MINDIR, on("ascend"), "", options)
    assert model.get_model_info("device").startswith("ascend:1 (simulated")
    with pytest.raises(RuntimeError, match="ascend:2 is not available"):
        pinnace.Model().build_from_file(
            MODEL, pinnace.ModelType.MINDIR, on("ascend"), "", {"ascend_context": {"device_id": "2"}}
        )


def test_later_sections_take_precedence(monkeypatch) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    options = {
        "ascend_context": {"precision_mode": "enforce_fp16"},
        "acl_init_options": {"ge.exec.precision_mode": "force_fp32"},
    }
    with pytest.warns(PinnaceWarning, match=r"\[acl_init_options\] ge.exec.precision_mode says force_fp32"):
        assert (
            with_settings(on("ascend"), Settings.load(options=options)).ascend.precision_mode == "force_fp32"
        )
    with pytest.raises(ConfigError, match="must be one of"):
        Settings.load(options={"ge_session_options": {"ge.exec.precision_mode": "enforce_fp16"}})


@pytest.fixture
def model(tmp_path: Path) -> str:
    """y = x @ w, where w is the unit matrix and the batch is free, and z is where y is largest."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    ports.append(helper.make_tensor_value_info("z", TensorProto.INT64, ["n"]))
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], np.eye(4, dtype=np.float32).ravel())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("ArgMax", ["y"], ["z"], axis=1)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    return str(tmp_path / "m.onnx")


def built(path: str, context: pinnace.Context, sections: dict) -> pinnace.Model:
    found = pinnace.Model()
    found.build_from_file(path, pinnace.ModelType.ONNX, context, "", sections)
    return found


X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({"ascend_context": {"output_type": "FP16"}}, np.float16),
        ({"acl_option_cfg_param": {"output_type": "FP32"}}, np.float32),
        ({"acl_build_options": {"ge.outputDataType": "UINT8"}}, np.uint8),
    ],
)
def test_outputs_of_another_type(monkeypatch, model: str, options: dict, dtype: type) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    for _ in range(2):  # the second is loaded from the compile cache
        found = built(model, on("ascend"), options)
        assert [(o.name, o.dtype.to_numpy()) for o in found.get_outputs()] == [("y", dtype), ("z", dtype)]
        y, z = (o.get_data_to_numpy() for o in found.predict([X]))
        np.testing.assert_array_equal(y, X.astype(dtype), strict=True)
        np.testing.assert_array_equal(z, np.array([[3], [3]], dtype), strict=True)
    plain = built(model, on("ascend"), {})
    assert [o.get_data_to_numpy().dtype for o in plain.predict([X])] == [np.float32, np.int64]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("ascend", {"ascend_context": {"input_shape": "x:[2,4]"}}),
        ("ascend", {"acl_option_cfg_param": {"input_shape": "x:2,4"}}),
        ("ascend", {"acl_build_options": {"input_shape": "x:[2,4]"}}),
        ("ascend", {"ge_graph_options": {"ge.inputShape": "x:2,4"}}),
        ("gpu", {"gpu_context": {"input_shape": "x:[2,4]"}}),
    ],
)
def test_a_model_is_built_for_an_input_shape(monkeypatch, model: str, target: str, options: dict) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1,gpu:1")
    for _ in range(2):  # the second is loaded from the compile cache
        found = built(model, on(target), options)
        assert [tensor.shape for tensor in (*found.get_inputs(), *found.get_outputs())] == [
            [2, 4],
            [2, 4],
            [2, 1],
        ]
        np.testing.assert_array_equal(found.predict([X])[0].get_data_to_numpy(), X)
    with pytest.raises(DataMismatchError):
        found.predict([X[:1]])
    found.resize(found.get_inputs(), [[1, 4]])
    np.testing.assert_array_equal(found.predict([X[:1]])[0].get_data_to_numpy(), X[:1])
    assert built(model, on(target), {}).get_inputs()[0].shape == [-1, 4]
    with pytest.raises(ConfigError, match="input_shape names 'X', and the model's inputs are 'x'"):
        built(model, on("ascend"), {"ascend_context": {"input_shape": "X:[2,4]"}})


@pytest.mark.parametrize("runner", [False, True])
def test_the_input_shape_of_a_model_of_mindspore(monkeypatch, runner: bool) -> None:
    """A batch that its file fixes to one, beside two predictions of one."""
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    plain, found = pinnace.Model(), pinnace.ModelParallelRunner() if runner else pinnace.Model()
    plain.build_from_file(MODEL, pinnace.ModelType.MINDIR)
    (tensor,) = plain.get_inputs()
    options = {"ascend_context": {"input_shape": f"{tensor.name}:[-1,3,224,224]", "dynamic_dims": "[1],[2]"}}
    context = on("ascend")
    if runner:
        context.parallel.config_info = options
        context.parallel.workers_num = 1
        found.build_from_file(MODEL, context)
    else:
        found.build_from_file(MODEL, pinnace.ModelType.MINDIR, context, "", options)
    assert found.get_inputs()[0].shape == [-1, 3, 224, 224]
    facts = [found.get_model_info(key) for key in ("input_shape", "dynamic_dims")]
    assert facts == [options["ascend_context"]["input_shape"], "1;2"]
    x = np.random.default_rng(0).standard_normal((2, 3, 224, 224)).astype(np.float32)
    alone = [plain.predict([one[None]])[0].get_data_to_numpy()[0] for one in x]
    # float32 on both sides, summed in another order
    np.testing.assert_allclose(found.predict([x])[0].get_data_to_numpy(), alone, rtol=1e-3, atol=1e-5)
    with pytest.raises(DataMismatchError, match="dynamic_dims allows"):
        found.predict([np.concatenate([x, x])])


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("ascend", {"ascend_context": {"dynamic_dims": "[1~2],[4]"}}),
        ("ascend", {"acl_option_cfg_param": {"dynamic_dims": "1~2;4"}}),
        ("ascend", {"ascend_context": {"dynamic_batch_size": "1,2,4"}}),
        ("ascend", {"acl_build_options": {"ge.dynamicBatchSize": "1,2,4"}}),
        ("ascend", {"ge_graph_options": {"ge.dynamicDims": "1;2;4"}}),
        ("gpu", {"gpu_context": {"dynamic_Dims": "[1~2],[4]"}}),
    ],
)
def test_sizes_that_dynamic_dims_does_not_have_are_refused(monkeypatch, model, target, options) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1,gpu:1")
    found = built(model, on(target), options)
    for size in range(1, 6):
        x = np.ones((size, 4), np.float32)
        if size in (1, 2, 4):
            assert found.predict([x])[0].shape == [size, 4]
            continue
        with pytest.raises(DataMismatchError, match=rf"dynamic_dims allows .*\[4\] .* but got \[{size}\]"):
            found.predict([x])
        with pytest.raises(DataMismatchError, match=rf"dynamic_dims allows .*\[4\] .* but got \[{size}\]"):
            found.resize(found.get_inputs(), [[size, 4]])
    with pytest.raises(ConfigError, match="sizes for 2 free dimensions, and the model's inputs have 1"):
        built(model, on("ascend"), {"ascend_context": {"dynamic_dims": "[1,2]"}})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("input_shape", "x", "'x' is not NAME:"),
        ("input_shape", "x:[1,0]", "a dimension is -1 or a positive number"),
        ("input_shape", "x:[1];x:[2]", "'x' is given twice"),
        ("input_shape", "x:[-1,999999999,999999999]", "it exceeds any memory"),
        ("dynamic_dims", "[19200,960],960", "is not .SIZE,SIZE"),
        ("dynamic_dims", "[1],[2];[3]", "the same number of brackets for each input"),
        ("dynamic_dims", "[4~2]", "'4~2' is neither a size nor"),
        ("dynamic_batch_size", "1,x", "'x' is neither a size nor"),
        ("dynamic_image_size", "64,64;96", "must have the same number of sizes in each part"),
        ("dynamic_image_size", ";", "must have the same number of sizes"),
        ("dynamic_dims", "[]", "the same number of brackets"),
    ],
)
def test_shapes_are_checked_on_every_target(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings.load(options={"ascend_context": {key: value}})


def test_sizes_of_several_inputs_are_those_of_their_names() -> None:
    ports = [
        Port(name, DataType.FLOAT32, shape) for name, shape in (("a", (-1, 3)), ("b", (2,)), ("c", (-1, -1)))
    ]
    text = flattened("[8~9,16],[1,2];[];[4],[5]")
    a, b, c = limited(ports, "c:[-1,-1];b:[2];a:[-1,3]", text)
    assert (written(a.sizes), b.sizes, written(c.sizes)) == ("[4],[5]", (), "[8~9,16],[1,2]")


def test_a_model_without_collectives_is_no_rank(model: str) -> None:
    context = on("cpu")
    context.ascend.rank_id, context.ascend.group_size = 1, 2
    options = {"ascend_context": {"rank_table_file": "ranks.json"}}
    wanted = (
        r"no effect: \[ascend_context\] rank_table_file, context.ascend.rank_id, context.ascend.group_size "
        r"\(.*has no collectives"
    )
    for _ in range(2):
        with pytest.warns(PinnaceWarning, match=wanted) as caught:
            built(model, context, options)
        assert len(caught) == 1


def test_openvino_runs_one_operator_at_a_time(model: str) -> None:
    pytest.importorskip("openvino")
    fixed = onnx.load(model)
    for port in (*fixed.graph.input, *fixed.graph.output):
        port.type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(fixed, model)
    context = on("cpu")
    context.cpu.provider, context.cpu.thread_num, context.cpu.inter_op_parallel_num = "openvino", 2, 2
    with pytest.warns(PinnaceWarning, match="inter_op_parallel_num has no effect: openvino"):
        built(model, context, {})


def test_names_of_variable_weights_in_a_list(model: str) -> None:
    options = {"ascend_context": {"variable_weights_list": "w"}}
    found = built(model, on("cpu"), options)
    new = pinnace.Tensor(2 * np.eye(4, dtype=np.float32))
    found.update_weights([[new]])
    np.testing.assert_array_equal(found.predict([X])[0].get_data_to_numpy(), 2 * X)


def test_runner_config_takes_precedence_over_the_context(data):
    context = pinnace.Context()
    context.parallel.workers_num = 2
    runner = pinnace.ModelParallelRunner()
    with pytest.warns(PinnaceWarning, match=r"no effect: context\.parallel\.workers_num \(the RunnerConfig"):
        runner.init(str(data / "api" / "picture.ms"), pinnace.RunnerConfig(context, workers_num=1))
    runner.close()
