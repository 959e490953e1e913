"""The ways in for TFLite, TensorFlow and PyTorch."""

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pinnace import Converter, FmkType, Format, ModelType
from pinnace.cli import main as pinnace
from pinnace.cli.converter_lite import main as converter_lite
from pinnace.converter import frontends
from pinnace.converter.convert import Conversion
from pinnace.errors import ArgumentValueError, ModelFormatError, NotSupportedError, UnsupportedModelError

DATA = Path(__file__).parent.parent / "data"
FACES = DATA / "frontends" / "face_detection_short_range.tflite"
needs_tensorflow = pytest.mark.skipif(
    not (find_spec("tf2onnx") and find_spec("tensorflow")), reason="needs the extra tensorflow"
)
needs_torch = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("onnxscript")), reason="needs the extra pytorch"
)


def convert(framework, model, folder, save_type=ModelType.MINDIR, trust=True, **properties):
    converter = Converter(trust=trust)
    converter.save_type = save_type
    for name, value in properties.items():
        setattr(converter, name, value)
    converter.convert(FmkType[framework], str(model), str(folder / "made"))
    return converter.summary.files[0]


def pictures(*shape):
    """Those of tools/with_others/make_frontend_goldens.py."""
    return (np.arange(np.prod(shape)) * 7919 % 256).astype(np.float32).reshape(shape) / 255


@pytest.mark.parametrize("framework", frontends._SCRIPTS)
def test_a_missing_package_is_named(framework, monkeypatch, tmp_path):
    monkeypatch.setattr(frontends, "find_spec", lambda name: None)
    monkeypatch.setattr(frontends, "_checked", lambda framework, model: model)
    with pytest.raises(NotSupportedError, match=f"{framework} models need .*: pip install "):
        convert(framework, FACES, tmp_path)


@pytest.mark.parametrize(
    ("framework", "model", "message"),
    [
        ("TFLITE", DATA / "api" / "add.onnx", "is not a .tflite file: choose"),
        ("TFLITE", DATA, "is a folder without"),
        ("TF", DATA, r"is a folder without saved_model\.pb"),
        ("PYTORCH", FACES, "is neither TorchScript nor an ExportedProgram"),
        ("CAFFE", FACES, "needs its weights"),
    ],
)
def test_files_of_other_frameworks(framework, model, message, tmp_path):
    with pytest.raises(ModelFormatError, match=message):
        convert(framework, model, tmp_path)


@pytest.fixture
def programs(tmp_path):
    """Files of the outer form of programs; no library has to read them."""
    for name, member in (("exported.pt2", "archive/models/model.json"), ("scripted.pt", "x/constants.pkl")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(member, "{}")
    (tmp_path / "saved").mkdir()
    for name in ("frozen.pb", "saved/saved_model.pb"):
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("framework", "name", "safe"),
    [
        ("PYTORCH", "exported.pt2", "torch.onnx.export"),
        ("PYTORCH", "scripted.pt", "torch.onnx.export"),
        ("TF", "frozen.pb", "tf2onnx.convert"),
        ("TF", "saved", "tf2onnx.convert"),
        ("TF", "saved/saved_model.pb", "tf2onnx.convert"),
    ],
)
def test_programs_are_run_only_if_they_are_trusted(programs, framework, name, safe, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(frontends, "_run", lambda *given: ran.append(given))
    with pytest.raises(ArgumentValueError, match=rf"{name}: is a program, .* trust=True .* {safe} writes"):
        convert(framework, programs / name, programs, trust=False)
    with pytest.raises(ArgumentValueError, match="is a program"):
        frontends.convert_from(framework, str(programs / name), "", programs / "a", Conversion())
    for main, *arguments in (
        (
            converter_lite,
            f"--fmk={framework}",
            f"--modelFile={programs / name}",
            f"--outputFile={programs}/a",
        ),
        (pinnace, "convert", str(programs / name), str(programs / "a")),
    ):
        monkeypatch.setattr("sys.argv", ["command", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code not in (0, 2)
        assert "is a program" in capsys.readouterr().err
        assert not ran
        monkeypatch.setattr(
            "sys.argv", ["command", *arguments, "--trust=true" if main is converter_lite else "--trust"]
        )
        with pytest.raises(SystemExit):
            main()
        assert ran.pop()[0] == framework


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("raise ValueError('odd tensor')", "ValueError: odd tensor; is it a whole TFLITE file?"),
        ("bytearray(1 << 50)", "MemoryError"),
        ("while True: pass", "takes more than 1 s"),
        ("pass", "sys does not read it"),
    ],
)
def test_what_a_library_does_to_its_process(script, message, monkeypatch, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(script)
    monkeypatch.setitem(frontends._SCRIPTS, "TFLITE", (str(path), {"sys": "library"}))
    monkeypatch.setattr(frontends, "_LONGEST", 1 if "True" in script else 60)
    with pytest.raises(ModelFormatError, match=f"short_range.tflite: .*{message}".replace("?", r"\?")):
        convert("TFLITE", FACES, tmp_path)
    assert "tensorflow" not in sys.modules


def test_a_library_gets_the_file_and_the_shapes_and_its_memory_is_bounded(monkeypatch, tmp_path):
    add = DATA / "api" / "add.onnx"
    path = tmp_path / "script.py"
    path.write_text(f"""if True:
        import json, resource, shutil, sys
        _, framework, model, made, shapes = sys.argv
        assert (framework, model) == ("TFLITE", {str(FACES)!r})
        assert json.loads(shapes) == {{"x": [3, 4, 5]}}
        assert 0 < resource.getrlimit(resource.RLIMIT_DATA)[0] < 1 << 50
        assert not sys.stdin.read()
        shutil.copy({str(add)!r}, made)
        """)
    monkeypatch.setitem(frontends._SCRIPTS, "TFLITE", (str(path), {"sys": "library"}))
    converter = Converter()
    converter.input_shape = {"x": [3, 4, 5]}
    converter.convert(FmkType.TFLITE, str(FACES), str(tmp_path / "made"))
    assert converter.summary.bytes_before == FACES.stat().st_size
    assert converter.summary.files == (tmp_path / "made.mindir",)


@pytest.mark.parametrize(
    ("framework", "layout", "turn"),
    [("TFLITE", "NCHW", "NCHW"), ("TF", "NHWC", ""), ("ONNX", "NHWC", "NHWC"), ("CAFFE", "NCHW", "")],
)
def test_pictures_are_turned_where_the_framework_has_another_order(framework, layout, turn):
    assert frontends.turned(framework, layout) == turn


@pytest.mark.parametrize(
    ("name", "framework"),
    [("a.tflite", "TFLITE"), ("a.pb", "TF"), ("", "TF"), ("a.pt2", "PYTORCH"), ("a.prototxt", "CAFFE"),
     ("a.ms", "MINDIR"), ("a", "MINDIR")],
)  # fmt: skip
def test_the_framework_of_a_file_is_told_by_its_suffix(name, framework, tmp_path):
    assert frontends.framework_of(tmp_path / name) == framework


def test_an_archive_of_something_else_is_no_program(tmp_path):
    with zipfile.ZipFile(tmp_path / "weights.pt", "w") as archive:
        archive.writestr("x/data.pkl", "")
    with pytest.raises(ModelFormatError, match="is neither TorchScript nor an ExportedProgram"):
        convert("PYTORCH", tmp_path / "weights.pt", tmp_path)


@pytest.mark.parametrize("name", ["mindspore_ops/ctl_state", "mindspore_primitives/control_state_cache"])
def test_parameters_that_a_model_assigns_are_named(name, tmp_path):
    parameter = name.rpartition("_")[2]
    with pytest.raises(
        UnsupportedModelError, match=f"'{parameter}': a parameter .* assigns .*: take the value"
    ):
        convert("MINDIR", DATA / f"{name}.mindir", tmp_path)


@needs_tensorflow
def test_variables_that_a_saved_model_changes_are_named(tmp_path):
    import tensorflow as tf

    class Count(tf.Module):
        def __init__(self):
            super().__init__()
            self.n = tf.Variable(tf.zeros(3))

        @tf.function(input_signature=[tf.TensorSpec((3,))])
        def call(self, x):
            return self.n.assign_add(x) * 2

    count = Count()
    tf.saved_model.save(count, tmp_path / "count", signatures=count.call)
    with pytest.raises(
        ModelFormatError, match=r"'.*AssignAddVariableOp' changes a variable, .*: take the value"
    ):
        convert("TF", tmp_path / "count", tmp_path)


def test_a_saved_model_beyond_what_protobuf_holds(monkeypatch, tmp_path):
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(bytes(9))
    monkeypatch.setattr(frontends, "_LARGEST", 8)
    with pytest.raises(ModelFormatError, match=r"is of 0\.0 GB.*--large_model"):
        convert("TF", saved, tmp_path)


@needs_tensorflow
@pytest.mark.parametrize("save_type", [ModelType.MINDIR, ModelType.MINDIR_LITE])
def test_tflite_gives_what_its_runtime_gives(save_type, tmp_path, run_model):
    model = convert("TFLITE", FACES, tmp_path, save_type)
    golden = np.load(FACES.with_suffix(".npz"))
    results = run_model(model, [pictures(1, 128, 128, 3)])
    for y, name in zip(results, golden.files, strict=True):
        # XNNPACK sums in another order, with the same float16 weights
        np.testing.assert_allclose(y, golden[name], atol=1e-5 * np.abs(golden[name]).max())


@needs_tensorflow
def test_tflite_takes_pictures_as_asked(tmp_path, run_model):
    x = pictures(1, 128, 128, 3)
    expected = run_model(convert("TFLITE", FACES, tmp_path, input_format=Format.NHWC), [x])
    model = convert("TFLITE", FACES, tmp_path, input_format=Format.NCHW, infer=True)
    for y, want in zip(run_model(model, [x.transpose(0, 3, 1, 2)]), expected, strict=True):
        np.testing.assert_allclose(y, want, atol=1e-5)


@needs_tensorflow
def test_damaged_tflite(tmp_path):
    whole = bytearray(FACES.read_bytes())
    for name, content in {"cut": whole[:9999], "turned": whole[:40] + whole[60:]}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises((ModelFormatError, UnsupportedModelError), match=name):
            convert("TFLITE", tmp_path / name, tmp_path)


@needs_tensorflow
def test_saved_model_and_frozen_graph(tmp_path, run_model):
    import tensorflow as tf

    weights = tf.Variable(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def call(x):
        return {"y": tf.nn.softmax(tf.matmul(x, weights)), "z": tf.reduce_sum(x, 1)}

    module = tf.Module()
    module.weights, module.call = weights, call
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=call)
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as frozen

    graph = frozen(call.get_concrete_function()).graph.as_graph_def()
    (tmp_path / "frozen.pb").write_bytes(graph.SerializeToString())
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 6
    expected = {k: v.numpy() for k, v in call(x).items()}
    for name in ("saved", "frozen.pb", "saved/saved_model.pb"):
        results = run_model(convert("TF", tmp_path / name, tmp_path, infer=True), [x])
        for y, want in zip(results, expected.values(), strict=True):
            np.testing.assert_allclose(y, want, rtol=1e-6)
    with pytest.raises(ModelFormatError, match="whole TF file"):
        convert("TF", FACES, tmp_path)


@needs_torch
def test_torchscript_and_exported_program(tmp_path, run_model):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.out = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2)

        def forward(self, words, factor):
            return self.out(torch.relu(self.words(words)) * factor)

    net = Net().eval()
    given = torch.tensor([[1, 2, 8]]), torch.tensor([[[0.5]]])
    torch.jit.script(net).save(tmp_path / "scripted.pt")
    torch.export.save(torch.export.export(net, given), tmp_path / "exported.pt2")
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    expected = net(*given).detach().numpy()
    shapes = {"words": [1, -1], "factor": [1, 1, 1]}
    for name, properties in (("scripted.pt", {"input_shape": shapes}), ("exported.pt2", {})):
        model = convert("PYTORCH", tmp_path / name, tmp_path, infer=True, **properties)
        results = run_model(model, [x.numpy() for x in given])
        np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelFormatError, match="give those of all inputs, words:"):
        convert("PYTORCH", tmp_path / "scripted.pt", tmp_path)
    with pytest.raises(ModelFormatError, match="pickled modules and weights are not read"):
        convert("PYTORCH", tmp_path / "weights.pt", tmp_path)
