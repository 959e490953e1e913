"""`pinnace run` on small models whose answers are known by arithmetic."""

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

from pinnace.cli.inputs import parse_shapes
from pinnace.errors import ArgumentValueError
from pinnace.formats import FRAMEWORKS

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.full((2, 3), 0.5, np.float32)


@pytest.fixture
def two(onnx_file):
    """Two inputs, and two outputs, one with a name that no file can have."""
    return onnx_file(
        ["Add a b -> sum", "Mul a b -> scaled/product:0"],
        ["a float 2,3", "b float 2,3"],
        ["sum float 2,3", "scaled/product:0 float 2,3"],
    )


@pytest.fixture
def free(onnx_file):
    return onnx_file(["Add x x -> y"], ["x float ?,?"], ["y float ?,?"])


@pytest.fixture
def identity(onnx_file):
    def make(shape, dtype="float"):
        return onnx_file(["Identity x -> y"], [f"x {dtype} {shape}"], [f"y {dtype} {shape}"])

    return make


def test_outputs_are_printed_as_the_examples_of_mindspore_lite_print_them(pinnace, two, array_file):
    files = [f"--input=b={array_file('b.npy', B)}", f"--input=a={array_file('a.bin', A)}"]
    answer = pinnace("run", two, *files)
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "tensor's name is:sum data size is:24 tensor elements num is:6",
        "tensor's shape is:[2, 3] data type is:FLOAT32",
        "output data is: 0.5 1.5 2.5 3.5 4.5 5.5",
        "tensor's name is:scaled/product:0 data size is:24 tensor elements num is:6",
        "tensor's shape is:[2, 3] data type is:FLOAT32",
        "output data is: 0.0 0.5 1.0 1.5 2.0 2.5",
    ]
    assert "\x1b" not in answer.out + answer.err


@pytest.mark.parametrize("suffix", ["bin", "npy"])
def test_files_larger_than_the_memory_are_not_read(pinnace, free, tmp_path, suffix):
    path = tmp_path / f"huge.{suffix}"
    with path.open("wb") as file:
        file.truncate(1 << 43)
    answer = pinnace("run", free, "--input", str(path))
    assert answer.code == 1
    assert f"has {1 << 43} bytes, but this process may use only" in answer.err


@pytest.mark.parametrize(
    ("dtype", "given", "values"),
    [
        ("float", "1.5,-2e1", [1.5, -20]),
        ("int64", "9007199254740993,-1", [9007199254740993, -1]),
        ("int32", "3,.5", "invalid literal"),
        ("float", "3", "has 1 elements"),
    ],
)
def test_numbers_on_the_command_line(pinnace, identity, dtype, given, values):
    answer = pinnace("run", identity("2", dtype), "--input", f"x={given}", "--json")
    if isinstance(values, list):
        assert answer.json["outputs"][0]["values"] == values
    else:
        assert answer.code == 1
        assert values in answer.err


def test_a_number_for_an_input_without_dimensions(pinnace, onnx_file):
    model = onnx_file(["Mul x rate -> y"], ["x float 2", "rate float"], ["y float 2"])
    answer = pinnace("run", model, "--input", "x=1,2", "--input", "rate=16000", "--json")
    assert answer.json["outputs"][0]["values"] == [16000, 32000]


def test_an_npz_file_fills_the_inputs_that_it_names(pinnace, onnx_file, tmp_path):
    model = onnx_file(["Sub a b -> y"], ["a float 2,3", "b float 2,3"], ["y float 2,3"])
    np.savez(tmp_path / "both.npz", b=B, a=A)
    answer = pinnace("run", model, "--input", tmp_path / "both.npz", "--json")
    assert answer.json["outputs"][0]["values"] == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
    np.savez(tmp_path / "other.npz", c=B)
    answer = pinnace("run", model, "--input", tmp_path / "other.npz")
    assert answer.code == 1
    assert "there is no input 'c', only 'a', 'b'" in answer.err


def test_an_array_on_stdin(identity, tmp_path):
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    with (tmp_path / "x.npy").open("rb") as file:
        command = [sys.executable, "-m", "pinnace", "run", str(identity("2")), "--input", "-", "--json"]
        done = subprocess.run(command, stdin=file, capture_output=True, check=True)
    assert json.loads(done.stdout)["outputs"][0]["values"] == [1, 2]


def test_an_npz_file_on_stdin_is_refused(identity, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.array([1, 2], np.float32))
    with (tmp_path / "x.npz").open("rb") as file:
        command = [sys.executable, "-m", "pinnace", "run", str(identity("2")), "--input", "x=-"]
        done = subprocess.run(command, stdin=file, capture_output=True)
    assert done.returncode == 1
    assert b"pinnace: input 'x' from -: is an .npz file, which stdin does not take" in done.stderr


@pytest.mark.parametrize("options", [("--input", "-"), (), ("--json",)])
def test_closed_streams_are_empty_ones(identity, tmp_path, options):
    """Everything is said on those that are left, and what a command writes into files is whole."""
    shell = 'exec "$@" <&- {}>&-'
    command = [sys.executable, "-m", "pinnace", "run", str(identity("2")), *options, "--save", str(tmp_path)]
    for closed in (1, 2):
        done = subprocess.run(["sh", "-c", shell.format(closed), "-", *command], capture_output=True)
        assert b"Traceback" not in done.stdout + done.stderr
        assert done.returncode == ("-" in options)
        assert "-" in options or np.load(tmp_path / "y.npy").shape == (2,)


def test_a_shape_is_given_once(pinnace, free):
    answer = pinnace("run", free, "--shape", "x=1,2", "--shape", "x=3,4")
    assert (answer.code, answer.out) == (1, "")
    assert "--shape x=3,4: 'x' was given [1, 2] already" in answer.err


def test_files_without_a_name_go_to_the_inputs_in_order(pinnace, onnx_file, array_file):
    model = onnx_file(["Sub a b -> y"], ["a float 2,3", "b float 2,3"], ["y float 2,3"])
    answer = pinnace(
        "run", model, "--input", array_file("one.npy", A), "--input", array_file("two.npy", B), "--json"
    )
    assert answer.json["outputs"][0]["values"] == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]


def test_json_says_what_went_in_and_what_came_out(pinnace, two, array_file):
    path = array_file("a.npy", A)
    report = pinnace(
        "run", two, "--json", "--input", f"a={path}", "--input", f"b={array_file('b.npy', B)}"
    ).json
    assert report["model"] == str(two)
    assert report["inputs"][0] == {
        "name": "a", "shape": [2, 3], "dtype": "FLOAT32", "size": 24, "elements": 6, "source": str(path),
    }  # fmt: skip
    assert [output["name"] for output in report["outputs"]] == ["sum", "scaled/product:0"]
    assert report["outputs"][0]["values"] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert report["seconds"].keys() == {"build", "predict"}


def test_json_stays_json_where_a_value_is_not_finite(pinnace, onnx_file, array_file):
    model = onnx_file(["Log x -> y"], ["x float 3"], ["y float 3"])
    path = array_file("x.npy", np.array([-1, 0, 1], np.float32))
    assert pinnace("run", model, "--json", "--input", path).json["outputs"][0]["values"] == [
        "nan",
        "-inf",
        0.0,
    ]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("string", np.array([["a", "bcd"]])), ("bfloat16", np.array([[0.5, 3.0]], ml_dtypes.bfloat16))],
)
def test_types_that_npy_files_have_no_name_for(pinnace, identity, array_file, tmp_path, dtype, values):
    answer = pinnace(
        "run", identity("1,2", dtype), "--input", array_file("x.npy", values), "--json", "--save", tmp_path
    )
    assert answer.code == 0, answer.err
    assert answer.json["outputs"][0]["values"] == values.ravel().tolist()
    assert np.load(tmp_path / "y.npy").tolist() == values.tolist()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--shape", "1,9999999999999"], 1, "input 'x': "),
        (["--shape", "1,3,9,99999999999999", "--input"], 1, "input 'x' from "),
        (["--scale", "1e400"], 2, "--scale 1e400: expected numbers"),
    ],
)
def test_numbers_beyond_all_bounds(pinnace, free, identity, tmp_path, arguments, code, message):
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png")
    picture = "--input" in arguments
    model = identity("1,3,?,?") if picture else free
    answer = pinnace("run", model, *arguments, *([tmp_path / "p.png"] if picture else []))
    assert answer.code == code
    assert message in answer.err


@pytest.mark.parametrize("command", ["run", "bench", "tune"])
def test_a_configuration_that_is_not_there_is_named(pinnace, free, tmp_path, command):
    answer = pinnace(command, free, "--config", tmp_path / "no.ini")
    assert answer.code == 1
    assert "no.ini" in answer.err


def test_a_shape_for_a_model_without_inputs():
    with pytest.raises(ArgumentValueError, match="the model has no inputs"):
        parse_shapes(["2"], [])


def test_saved_outputs_can_be_loaded(pinnace, two, array_file, tmp_path):
    files = [f"--input=a={array_file('a.npy', A)}", f"--input=b={array_file('b.npy', B)}"]
    answer = pinnace("run", two, *files, "--save", tmp_path / "new" / "folder")
    np.testing.assert_array_equal(np.load(tmp_path / "new/folder/sum.npy"), A + B)
    np.testing.assert_array_equal(np.load(tmp_path / "new/folder/scaled_product_0.npy"), A * B)
    assert "scaled_product_0.npy" in answer.err


def test_an_output_with_a_long_name_is_saved(pinnace, onnx_file, tmp_path):
    name = "é" * 200
    model = onnx_file([f"Identity x -> {name}"], ["x float 2"], [f"{name} float 2"])
    assert pinnace("run", model, "--save", tmp_path / "out").code == 0
    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "é" * 125 + ".npy"


def test_two_outputs_are_never_written_to_one_file(pinnace, onnx_file, tmp_path):
    model = onnx_file(["Identity x -> y/1", "Neg x -> y:1"], ["x float 2"], ["y/1 float 2", "y:1 float 2"])
    answer = pinnace("run", model, "--save", tmp_path / "out")
    assert answer.code == 1
    assert not list((tmp_path / "out").glob("*"))


def test_an_input_without_a_file_is_made_up_and_said_to_be(pinnace, onnx_file):
    model = onnx_file(
        ["Identity x -> y", "Identity i -> j"],
        ["x float 2,3", "i int64 2"],
        ["y float 2,3", "j int64 2"],
    )
    first, second = pinnace("run", model, "--json"), pinnace("run", model, "--json")
    numbers, indices = (output["values"] for output in first.json["outputs"])
    assert "random numbers" in first.json["inputs"][0]["source"]
    assert "zeros" in first.json["inputs"][1]["source"]
    assert "input x [2, 3] FLOAT32: no file" in first.err
    assert len(set(numbers)) == 6
    assert all(0 <= number < 1 for number in numbers)
    assert indices == [0, 0]
    assert second.json["outputs"] == first.json["outputs"]


def test_free_dimensions_come_from_the_file_the_shape_or_are_one(pinnace, free, array_file):
    path = array_file("x.npy", A)
    assert pinnace("run", free, "--input", path, "--json").json["outputs"][0]["shape"] == [2, 3]
    assert pinnace("run", free, "--shape", "4,2", "--json").json["outputs"][0]["shape"] == [4, 2]
    flat = array_file("x.bin", A)
    answer = pinnace("run", free, "--input", flat, "--shape", "x=3,2", "--json")
    assert answer.json["outputs"][0]["values"] == [0, 2, 4, 6, 8, 10]
    alone = pinnace("run", free, "--json")
    assert alone.json["outputs"][0]["shape"] == [1, 1]
    assert "free dimensions of [-1, -1] set to 1" in alone.err


def test_one_free_dimension_is_told_from_the_size_of_a_bin_file(pinnace, onnx_file, array_file):
    model = onnx_file(["Add x x -> y"], ["x float ?,3"], ["y float ?,3"])
    answer = pinnace("run", model, "--input", array_file("x.bin", A), "--json")
    assert answer.json["outputs"][0]["shape"] == [2, 3]


def test_a_shape_in_vain_is_an_error_that_names_it(pinnace, free):
    for text in ("y=1,2", "x=1,two", "x=1,0", "x=1,-1"):
        answer = pinnace("run", free, "--shape", text)
        assert answer.code == 1
        assert f"--shape {text}" in answer.err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("c={a}", "there is no input 'c', only 'a', 'b'"),
        ("a={missing}", "No such file"),
        ("a={float64}", "has float64, but the input takes float32"),
        ("a={small}", "has 4 elements, shape [2, 2], but the input takes [2, 3]"),
        ("a={turned}", "has 6 elements, shape [3, 2], but the input takes [2, 3]"),
        ("a={cut}", "has 20 bytes"),
        ("a={text}", "is no .npy or .npz file, picture or number"),
        ("a={objects}", "pickle"),
        ("a={broken}", "broken.npy"),
        ("a={picture}", "a picture needs 4 dimensions"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(pinnace, two, array_file, tmp_path, given, message):
    files = {
        "a": array_file("a.npy", A),
        "missing": tmp_path / "missing.npy",
        "float64": array_file("float64.npy", A.astype(np.float64)),
        "small": array_file("small.npy", A[:, :2]),
        "turned": array_file("turned.npy", A.T),
        "cut": array_file("cut.bin", A.ravel()[:5]),
        "text": tmp_path / "text.npy",
        "objects": array_file("objects.npy", np.array([{}, None])),
        "broken": tmp_path / "broken.npy",
        "picture": tmp_path / "picture.png",
    }
    files["text"].write_text("1 2 3")
    files["broken"].write_bytes(files["a"].read_bytes()[:-8])
    Image.new("RGB", (4, 4)).save(files["picture"])
    answer = pinnace("run", two, "--input", given.format(**files))
    assert answer.code == 1
    assert message in answer.err
    assert answer.err.startswith("pinnace: ")
    assert "Traceback" not in answer.err


def test_an_input_is_given_once_and_no_more_than_there_are(pinnace, two, array_file):
    path = array_file("a.npy", A)
    twice = pinnace("run", two, "--input", f"a={path}", "--input", f"a={path}")
    assert "given" in twice.err
    many = pinnace("run", two, "--input", path, "--input", path, "--input", path)
    assert "there is only 'a', 'b'" in many.err
    assert twice.code == many.code == 1


@pytest.fixture
def gradient(tmp_path):
    """A picture whose every pixel is known: red is the column, green the row, blue 7."""
    rows, columns = np.mgrid[:4, :6].astype(np.uint8)
    pixels = np.stack([columns, rows, np.full_like(rows, 7)], axis=-1)
    path = tmp_path / "gradient.png"
    Image.fromarray(pixels).save(path)
    return path, pixels


def test_a_picture_is_normalized_by_the_flags(pinnace, identity, gradient, tmp_path):
    path, pixels = gradient
    model = identity("1,3,4,6")
    flags = ("--scale", "1/2", "--mean", "0.5,1,2", "--std", "2,4,8")
    pinnace("run", model, "--input", path, *flags, "--save", tmp_path)
    wanted = (pixels / 2 - [0.5, 1, 2]) / [2, 4, 8]  # exact in float32: powers of two
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy")[0], wanted.transpose(2, 0, 1))


def test_a_picture_is_laid_out_as_the_shape_says(pinnace, identity, gradient, tmp_path):
    path, pixels = gradient
    pinnace("run", identity("1,4,6,3"), "--input", path, "--scale", "1", "--save", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy")[0], pixels)


def test_a_picture_takes_the_type_of_the_input(pinnace, identity, gradient, tmp_path):
    path, pixels = gradient
    pinnace("run", identity("1,3,4,6", "uint8"), "--input", path, "--scale", "1", "--save", tmp_path)
    values = np.load(tmp_path / "y.npy")
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values[0], pixels.transpose(2, 0, 1))


def test_the_layout_flag_decides_where_the_shape_does_not(pinnace, identity, tmp_path):
    pixels = np.arange(3 * 3 * 3, dtype=np.uint8).reshape(3, 3, 3)
    Image.fromarray(pixels).save(tmp_path / "p.png")
    for layout, wanted in (("NHWC", pixels), ("NCHW", pixels.transpose(2, 0, 1))):
        command = (
            "run",
            identity("1,3,3,3"),
            "--input",
            tmp_path / "p.png",
            "--scale",
            1,
            "--layout",
            layout,
        )
        pinnace(*command, "--save", tmp_path)
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy")[0], wanted)


def test_a_free_picture_size_is_asked_for(pinnace, identity, gradient):
    path, _ = gradient
    model = identity("1,3,?,?")
    assert "--shape x=1,3,224,224" in pinnace("run", model, "--input", path).err
    assert pinnace("run", model, "--input", path, "--size", "2,5", "--json").json["outputs"][0]["shape"] == [
        1,
        3,
        2,
        5,
    ]


@pytest.mark.parametrize("flags", [("--mean", "1,2"), ("--std", "0"), ("--crop", "0"), ("--crop", "1.5")])
def test_flags_that_do_not_fit_the_picture_are_errors(pinnace, identity, gradient, flags):
    answer = pinnace("run", identity("1,3,4,6"), "--input", gradient[0], *flags)
    assert answer.code == 1
    assert flags[0].strip("-") in answer.err


@pytest.mark.parametrize(
    "flags", [("--mean", "x"), ("--scale", "1,2"), ("--size", "3"), ("--layout", "NCWH")]
)
def test_flags_that_cannot_be_read_are_wrong_use(pinnace, identity, gradient, flags):
    assert pinnace("run", identity("1,3,4,6"), "--input", gradient[0], *flags).code == 2


def test_a_config_file_is_read(pinnace, two, tmp_path):
    config = tmp_path / "config.ini"
    config.write_text("[ms_cache]\nserialize_pat=x\n")
    answer = pinnace("run", two, "--config", config)
    assert "'serialize_pat'" in answer.err
    assert answer.code == 0


def test_a_failure_is_one_message_and_the_traceback_on_demand(pinnace, tmp_path, monkeypatch):
    missing = tmp_path / "missing.mindir"
    answer = pinnace("run", missing)
    assert (answer.code, answer.out) == (1, "")
    assert str(missing) in answer.err
    assert "Traceback" not in answer.err
    monkeypatch.setenv("PINNACE_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match=r"missing\.mindir"):
        pinnace("run", missing)


@pytest.mark.parametrize("command", ["run", "bench", "tune"])
def test_a_complaint_about_shapes_that_were_made_up_names_the_option(pinnace, onnx_file, command):
    model = onnx_file(["MatMul x w -> y"], ["x float n,k", "w float 4,2"], ["y float n,2"])
    answer = pinnace(command, model)
    assert answer.code == 1
    assert "free dimensions of [n, k] set to 1" in answer.err
    assert "choose them, as in --shape x=1,1 with other numbers" in answer.err
    assert "--shape" not in pinnace(command, model, "--shape", "x=1,3").err  # given, and wrong


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.txt", "cat\ndog\nowl\n"),
        ("labels.json", '["cat", "dog", "owl"]'),
        ("labels.json", '{"1": "dog", "0": "cat", "2": "owl"}'),
    ],
)
def test_labels_give_the_highest_classes(pinnace, identity, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    given = ("--input", "x=0.25,2,-1,3,1,2", "--labels", tmp_path / name)
    answer = pinnace("run", identity("2,3"), *given)
    lines = answer.out.splitlines()
    assert lines[lines.index("highest of y, row 0") + 1 :][:4] == [
        "  label  index  value",
        "  dog        1      2",
        "  cat        0   0.25",
        "  owl        2     -1",
    ]
    assert "highest of y, row 1" in lines
    best = pinnace("run", identity("2,3"), *given, "--json").json["best"]
    assert [[one["label"] for one in row] for row in best["y"]] == [
        ["dog", "cat", "owl"],
        ["cat", "owl", "dog"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["a", "b"]', "no output has 2 values in its last dimension, one per label: 'y' [2, 3]"),
        ('{"a": 1}', "cannot be read as labels"),
        ("[", "cannot be read as labels"),
        ("3", "cannot be read as labels"),
    ],
)
def test_labels_that_do_not_fit(pinnace, identity, tmp_path, text, message):
    (tmp_path / "labels.json").write_text(text)
    answer = pinnace("run", identity("2,3"), "--labels", tmp_path / "labels.json")
    assert answer.code == 1
    assert message in answer.err


@pytest.mark.parametrize(
    ("name", "head", "message"),
    [
        *((f"m{suffix}", b"PK\x03\x04", f"pinnace convert m{suffix} m.mindir") for suffix in FRAMEWORKS),
        ("M.PB", b"\x0a\x05\x0a\x01x\x12\x00", "pinnace convert M.PB M.mindir"),  # begins like MindIR
        (
            "m.h5",
            b"\x89HDF\r\n\x1a\n",
            "model.export(FOLDER) writes a SavedModel, which pinnace convert takes",
        ),
        ("m.caffemodel", b"\x0a\x01x", "pinnace convert takes the .prototxt"),
    ],
)
def test_models_of_other_frameworks_are_for_convert(pinnace, tmp_path, monkeypatch, name, head, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(head + bytes(100))
    answer = pinnace("run", name)
    assert (answer.code, message in answer.err) == (1, True), answer.err


def test_a_saved_model_is_for_convert(pinnace, tmp_path):
    (tmp_path / "saved_model.pb").touch()
    assert "pinnace convert takes SavedModels" in pinnace("run", tmp_path).err
