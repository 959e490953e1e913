"""`pinnace convert`: its flags, and the format of the result."""

from pathlib import Path

import pytest

from pinnace import ModelType
from pinnace.converter import frontends
from pinnace.converter.convert import Conversion, Summary
from pinnace.formats.ms import reader
from pinnace.weights.source import Source

MODEL = Path(__file__).parent.parent / "data" / "converted" / "network.onnx"


def test_the_suffix_chooses_the_format(pinnace, tmp_path):
    assert pinnace("convert", MODEL, tmp_path / "made.ms").code == 0
    read = reader.read(Source.of_file(tmp_path / "made.ms"))
    assert list(read.output_names) == ["scores"]


@pytest.fixture
def asked(monkeypatch):
    """What conversions are asked for; none is done."""
    seen = []

    def convert_from(origin, model, weights, output, asked, watch):
        seen.append((origin, model, weights, output, asked))
        watch("reading")
        return Summary((output,), 9, 5, 1_500_000, 750_000, "FP16", notes=("a note",))

    monkeypatch.setattr(frontends, "convert_from", convert_from)
    return seen


def test_flags_are_the_choices_of_a_conversion(pinnace, asked, tmp_path):
    (tmp_path / "in.key").write_text("00" * 16 + "\n")
    (tmp_path / "out.key").write_text("11" * 16)
    answer = pinnace(
        "convert", "m.prototxt", "o.ms", "--weights", "w", "--shape", "x=1,3", "--shape", "y=2",
        "--optimize", "none", "--fp16", "--nhwc", "--check", "--int32", "--trust", "--mode", "AES-CBC",
        "--encrypt-key", tmp_path / "out.key", "--decrypt-key", tmp_path / "in.key",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    ((origin, model, weights, output, made),) = asked
    assert (origin, model, weights, output) == ("CAFFE", "m.prototxt", "w", Path("o.ms"))
    assert made == Conversion(
        save_type=ModelType.MINDIR_LITE, input_shape="x:1,3;y:2", optimize="none", turn="NHWC", half=True,
        check=True, decrypt=(bytes(16), "AES-CBC"), encrypt=(b"\x11" * 16, "AES-CBC"), trust=True, int32=True,
        files=(tmp_path / "in.key", tmp_path / "out.key"),
    )  # fmt: skip
    assert "reading ..." in answer.err
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert lines == [
        "o.ms", "nodes 9 in the model, 5 in the result", "size 1.50 MB, 0.75 MB", "precision FP16",
        "error not measured: --check", "note a note",
    ]  # fmt: skip


def test_flags_that_are_left_out_choose_nothing(pinnace, asked, tmp_path):
    found = pinnace("convert", "m.bin", "o.mindir", "--from", "ONNX", "--json").json
    assert (found["files"], found["nodes"], found["bytes_before"]) == (["o.mindir"], 5, 1_500_000)
    assert (found["error"], found["notes"]) == (None, ["a note"])
    assert asked == [("ONNX", "m.bin", "", Path("o.mindir"), Conversion())]
    config = tmp_path / "config.cfg"
    config.write_text("[acl_option_cfg_param]\ninput_shape = x:1,3\n")
    assert pinnace("convert", "m.onnx", "o.mindir", "--config", config).code == 0
    assert asked[1][-1].input_shape == ""
    flags = ("--config", config, "--optimize", "ascend_oriented")
    assert pinnace("convert", "m.onnx", "o.mindir", *flags).code == 0
    assert asked[2][-1].input_shape != ""


def test_a_key_that_is_read_is_not_written_to(pinnace, tmp_path):
    key = tmp_path / "key.ms"
    key.write_text("00" * 16)
    answer = pinnace("convert", MODEL, key, "--encrypt-key", key)
    assert answer.code == 1
    assert "it is read for this" in answer.err
    assert key.read_text() == "00" * 16


@pytest.mark.parametrize("shape", ["2,4", "2", "2,3,1"])
def test_a_shape_that_does_not_fit_is_no_unsupported_primitive(pinnace, onnx_file, tmp_path, shape):
    model = onnx_file(["MatMul a b -> y"], ["a float n,3", "b float 3,2"], ["y float n,2"])
    answer = pinnace("convert", model, tmp_path / "o.ms", "--shape", f"a={shape}")
    assert answer.code == 1
    assert "does not take the shapes of its inputs:\n  MatMul x1, first at node" in answer.err
    assert "unsupported" not in answer.err


def test_a_shape_that_is_none_is_an_error_of_one_line(pinnace, tmp_path):
    answer = pinnace("convert", MODEL, tmp_path / "o.ms", "--shape", "x=0,3")
    assert answer.code == 1
    assert "input_shape: 'x:0,3': a dimension is -1 or a positive number" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("place", [".", ".."])
def test_a_folder_is_no_place_for_the_result(pinnace, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    answer = pinnace("convert", MODEL, place)
    assert answer.code == 1
    assert "it is a folder" in answer.err
    assert not list(tmp_path.iterdir())
