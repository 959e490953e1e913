from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

from pinnace import Context, Model, ModelGroup, ModelGroupFlag, ModelType
from pinnace.errors import ModelFormatError, ModelStateError, PinnaceWarning

API = Path(__file__).parents[1] / "data" / "api"
ADD, DENSE = str(API / "add.onnx"), str(API / "dense.onnx")


def test_models_of_a_group_build_and_run() -> None:
    group = ModelGroup(ModelGroupFlag.SHARE_WEIGHT)
    models = [Model(), Model()]
    group.add_model(models)
    for model in models:
        model.build_from_file(DENSE, ModelType.ONNX)
        assert np.asarray(model.predict([np.ones((1, 3), np.float32)])[0]).tolist() == [[6, 9]]


def test_paths_of_a_group() -> None:
    group = ModelGroup()
    group.add_model((ADD, DENSE))
    group.cal_max_size_of_workspace(ModelType.ONNX, Context())
    with pytest.raises(ModelFormatError, match=r"add model failed\. no such file does not exist"):
        group.add_model(["no such file"])


@pytest.mark.parametrize(
    ("models", "kind", "message"),
    [
        (1, TypeError, "models must be list/tuple, but got <class 'int'>"),
        (ADD, TypeError, "models must be list/tuple, but got <class 'str'>"),
        ([], RuntimeError, "models cannot be empty"),
        ([1], TypeError, "models element must be all str or Model, but got <class 'int'> at index 0."),
        ([ADD, Model()], TypeError, "but got <class 'pinnace.api.model.Model'> at index 1."),
        ([Model(), ADD], TypeError, "but got <class 'str'> at index 1."),
        (["no such file", Model()], TypeError, "but got <class 'pinnace.api.model.Model'> at index 1."),
    ],
)
def test_wrong_models(models: object, kind: type, message: str) -> None:
    with pytest.raises(kind) as caught:
        ModelGroup().add_model(models)
    assert str(caught.value).endswith(message)


def test_wrong_flags_and_arguments() -> None:
    with pytest.raises(RuntimeError, match=r"flags should be ModelGroupFlag\.SHARE_WORKSPACE or .* got 1\."):
        ModelGroup(1)
    group = ModelGroup(ModelGroupFlag.SHARE_WEIGHT_WORKSPACE)
    with pytest.raises(TypeError, match="context must be Context"):
        group.cal_max_size_of_workspace(ModelType.ONNX, 1)
    with pytest.raises(TypeError, match="model_type must be ModelType"):
        group.cal_max_size_of_workspace(1, Context())
    with pytest.raises(ModelStateError, match="add the paths of the models first"):
        group.cal_max_size_of_workspace(ModelType.ONNX, Context())
    with pytest.raises(ModelStateError, match="share weights only"):
        ModelGroup(ModelGroupFlag.SHARE_WEIGHT).cal_max_size_of_workspace(ModelType.ONNX, Context())


def test_a_built_model_keeps_its_work_space_and_says_so() -> None:
    model = Model()
    model.build_from_file(DENSE, ModelType.ONNX)
    with pytest.warns(PinnaceWarning, match="a model that is built keeps its own work space"):
        ModelGroup(ModelGroupFlag.SHARE_WEIGHT_WORKSPACE).add_model([model])
    assert np.asarray(model.predict([np.ones((1, 3), np.float32)])[0]).tolist() == [[6, 9]]


@pytest.mark.parametrize("added", ["before", "after"])
def test_models_on_an_engine_that_copies_weights_say_so(added: str) -> None:
    group, models, context = ModelGroup(ModelGroupFlag.SHARE_WEIGHT), [Model(), Model()], Context()
    context.cpu.provider = "openvino"
    if added == "before":
        group.add_model(models)
    with warnings.catch_warnings(record=True, action="always") as caught:
        for model in models:
            model.build_from_file(ADD, ModelType.ONNX, context)
        if added == "after":
            group.add_model(models)
    texts = [str(one.message) for one in caught]
    assert [text.startswith(f"{ADD} shares no weights: openvino") for text in texts] == [True, True], texts
    assert models[0].get_model_info("engine").startswith("openvino")


def test_a_group_for_work_space_alone_takes_no_objects() -> None:
    """As in mindspore_lite, which shares weights of objects, and work space of paths."""
    with pytest.raises(ModelStateError, match=r"add model failed\..* use ModelGroupFlag.SHARE_WEIGHT"):
        ModelGroup().add_model([Model()])


WORK = """
    import sys
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
    import pinnace

    def network(name):  # 64 MB of intermediate results, then one number
        nodes = [helper.make_node("Concat", ["x"] * 16, ["wide"], axis=0),
                 helper.make_node("Exp", ["wide"], [name]),
                 helper.make_node("ReduceSum", [name], ["y"], keepdims=0)]
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1024]),
                 helper.make_tensor_value_info("y", TensorProto.FLOAT, [])]
        graph = helper.make_graph(nodes, name, ports[:1], ports[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def used():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1024

    models = [pinnace.Model(), pinnace.Model()]
    paths = [f"{sys.argv[2]}/{name}.onnx" for name in "ab"]
    for path, name in zip(paths, "ab"):
        onnx.save(network(name), path)
    if sys.argv[1] != "alone":
        group = pinnace.ModelGroup(pinnace.ModelGroupFlag[sys.argv[1]])
        group.add_model(paths if sys.argv[1] == "SHARE_WORKSPACE" else models)
    for model, path in zip(models, paths):
        model.build_from_file(path, pinnace.ModelType.ONNX)
    x = np.zeros((1024, 1024), np.float32)
    sizes = [used()]
    for model in models:
        model.predict([x])
        sizes.append(used())
    print(sizes[1] - sizes[0], sizes[2] - sizes[1])
"""


@pytest.mark.parametrize(
    ("flags", "shared"),
    [("alone", False), ("SHARE_WEIGHT", False), ("SHARE_WORKSPACE", True), ("SHARE_WEIGHT_WORKSPACE", True)],
)
def test_models_of_a_group_take_turns_in_one_work_space(flags: str, shared: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(WORK), flags, str(tmp_path)]
    first, second = map(float, subprocess.check_output(command, text=True).split())
    assert first > 60  # MB: Concat or Exp at least
    assert (second < 0.2 * first) is shared


# In a process of its own: what it leaves in its allocator is not to be measured.
WRITE = """
    import sys
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    gather = sys.argv[1] == "Gather"
    weight = np.random.default_rng(0).normal(size=(4096, 4096)).astype(np.float32)  # 64 MB
    for after in ("Exp", "Tanh"):
        nodes = [helper.make_node(sys.argv[1], ["w", "x"] if gather else ["x", "w"], ["h"]),
                 helper.make_node(after, ["h"], ["y"])]
        kind, shape = (TensorProto.INT64, ["n"]) if gather else (TensorProto.FLOAT, ["n", 4096])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4096])
        graph = helper.make_graph(nodes, after, [helper.make_tensor_value_info("x", kind, shape)], [y],
                                  [numpy_helper.from_array(weight, "w")])
        path = f"{sys.argv[2]}/{after}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
"""

WEIGHTS = """
    import sys
    import numpy as np
    import pinnace

    def proportional():  # pages that are mapped twice count half each time
        with open("/proc/self/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024

    before = proportional()
    models = [pinnace.Model(), pinnace.Model()]
    group = pinnace.ModelGroup(pinnace.ModelGroupFlag.SHARE_WEIGHT)
    if sys.argv[3] == "before":
        group.add_model(models)
    sizes = []
    for model, after in zip(models, ("Exp", "Tanh")):
        model.build_from_file(f"{sys.argv[2]}/{after}.onnx", pinnace.ModelType.ONNX)
    if sys.argv[3] == "after":
        group.add_model(models)
    for model in models:
        for row in range(0, 4096, 64):  # so that all of the weight is read
            rows = np.arange(row, row + 64)
            model.predict([rows if sys.argv[1] == "Gather" else np.zeros((2, 4096), np.float32)])
        sizes.append(proportional() - before)
    print(*sizes)
"""


@pytest.mark.parametrize("added", ["before", "after"])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("primitive", ["MatMul", "Gather"])
def test_models_with_the_same_weights_hold_them_once(
    primitive: str, cached: bool, added: str, tmp_path: Path
) -> None:
    """Whether they are added to the group before they are built or after."""
    arguments = [primitive, str(tmp_path), added]
    subprocess.run([sys.executable, "-c", textwrap.dedent(WRITE), *arguments], check=True)
    command = [sys.executable, "-c", textwrap.dedent(WEIGHTS), *arguments]
    (tmp_path / "temporary").mkdir()
    environment = dict(os.environ, TMPDIR=str(tmp_path / "temporary"))
    environment |= {} if cached else {"PINNACE_CACHE_DIR": "off"}
    first, second = map(float, subprocess.check_output(command, env=environment, text=True).split())
    assert not list((tmp_path / "temporary").iterdir())
    assert first > 64  # MB
    assert second - first < 30  # without sharing, 64 more
