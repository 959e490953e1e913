"""`Converter`, its command lines, and encrypted models."""

import io
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cache.conftest import make_model

from pinnace import Converter, DataType, FmkType, Format, Model, ModelGroup, ModelGroupFlag, ModelType
from pinnace.cli.converter_lite import main
from pinnace.converter.convert import Conversion, convert
from pinnace.errors import (
    ArgumentValueError,
    ConfigError,
    ModelFormatError,
    NotSupportedError,
    PinnaceWarning,
)
from pinnace.weights.encryption import MODES, decrypt, encrypt, key_of
from pinnace.weights.source import Source

DATA = Path(__file__).parent.parent / "data"
ADD = str(DATA / "api" / "add.onnx")
KEY = b"0123456789ABCDEF"


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("weight_fp16", "1", TypeError, "weight_fp16 must be bool"),
        ("input_shape", "x", TypeError, "input_shape must be dict"),
        ("input_shape", {1: [1]}, TypeError, "input_shape key must be str"),
        ("input_shape", {"x": "[1]"}, TypeError, "input_shape value must be list"),
        ("input_shape", {"x": [1, "1"]}, TypeError, "input_shape value's element must be int"),
        ("input_format", Format.HW, ValueError, "input_format must be in"),
        ("output_data_type", DataType.INVALID, ValueError, "output_data_type must be in"),
        ("save_type", 1, TypeError, "save_type must be ModelType"),
        ("decrypt_mode", "1", ValueError, "decrypt_mode must be in"),
        ("optimize", "fast", ValueError, "optimize must be 'none'"),
        ("optimize", "ascend_oriented:9", ValueError, "chip_name must be in"),
        ("device", "CPU", ValueError, "device must be in"),
    ],
)
def test_wrong_values_are_refused(name, value, error, message):
    with pytest.raises(error, match=message):
        setattr(Converter(), name, value)


def test_a_converter_chooses_nothing_by_itself():
    converter = Converter()
    assert str(converter).splitlines() == [
        "config_info: {},", "weight_fp16: False,", "input_shape: {},", "input_format: Format.NHWC,",
        "input_data_type: DataType.FLOAT32,", "output_data_type: DataType.FLOAT32,",
        "save_type: ModelType.MINDIR,", "enable_encryption: False,", "infer: False,", "optimize: general,",
        "device: .",
    ]  # fmt: skip
    assert (converter.device_id, converter.rank_id, converter.decrypt_mode) == (0, 0, "AES-GCM")
    assert (converter.trust, converter.summary) == (False, None)


def test_frameworks_have_the_numbers_of_mindspore_lite():
    names = ["TF", "CAFFE", "ONNX", "MINDIR", "TFLITE", "PYTORCH"]  # of converter::FmkType, from 0 on
    assert [FmkType(number).name for number in range(6)] == names


def test_keys_cannot_be_read():
    converter = Converter()
    converter.encrypt_key = "00" * 16
    with pytest.raises(TypeError, match="write-only"):
        print(converter.encrypt_key)
    assert "00000" not in f"{converter} {vars(converter).keys()}"


def test_the_words_of_what_is_not_there_yet(tmp_path):
    converter = Converter()
    with pytest.raises(RuntimeError, match="model_file does not exist"):
        converter.convert(FmkType.TFLITE, "nothing.tflite", "x")
    converter.set_config_info("common_quant_param", {"quant_type": "WEIGHT_QUANT"})
    converter.set_config_info("weight_quant_param", {"quant_strategy": "GPTQ"})
    with pytest.raises(NotSupportedError, match="quant_strategy=GPTQ"):
        converter.convert(FmkType.ONNX, ADD, str(tmp_path / "x"))


def test_a_converted_model_is_the_same(tmp_path):
    converter = Converter()
    converter.infer = True
    converter.convert(FmkType.ONNX, ADD, tmp_path / "add")
    assert converter.summary is not None
    assert converter.summary.error == 0
    given = [np.arange(i.element_num, dtype=np.float32).reshape(i.shape) for i in Model(ADD).get_inputs()]
    (expected,), (made,) = (Model(p).predict(given) for p in (ADD, tmp_path / "add.mindir"))
    np.testing.assert_array_equal(made.get_data_to_numpy(), expected.get_data_to_numpy())


def test_variables_that_dump_graphs_have_no_effect_and_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MSLITE_DUMP_LEVEL", "1")
    monkeypatch.setenv("MSLITE_DUMP_PATH", str(tmp_path / "dumps"))
    with pytest.warns(
        PinnaceWarning, match="no effect: MSLITE_DUMP_LEVEL and MSLITE_DUMP_PATH; pinnace inspect"
    ):
        Converter().convert(FmkType.ONNX, ADD, tmp_path / "add")
    assert not (tmp_path / "dumps").exists()


def test_converter_lite_speaks_as_mindspore_lite_does(tmp_path, capsys):
    main(
        ["--fmk=ONNX", f"--modelFile={ADD}", f"--outputFile={tmp_path / 'add'}", "--optimize=ascend_oriented"]
    )
    assert capsys.readouterr().out.endswith("CONVERT RESULT SUCCESS:0\n")
    assert (tmp_path / "add.mindir").exists()
    for flags, code in ((["--fmk=ONNX"], 168), (["--fmk=X"], 168)):
        with pytest.raises(SystemExit) as ended:
            main(flags)
        assert ended.value.code == code
    with pytest.raises(SystemExit) as ended:
        main(["--fmk=ONNX", "--modelFile=nothing.onnx", "--outputFile=x"])
    assert ended.value.code == 255
    assert capsys.readouterr().out.endswith("Convert failed. Ret: -1\n")


@pytest.mark.parametrize("mode", MODES)
def test_models_that_mindspore_encrypted_are_opened(mode):
    pytest.importorskip("cryptography")
    path, model = str(DATA / "encrypted" / f"relu_{mode}.mindir"), Model()
    model.build_from_file(path, ModelType.MINDIR, dec_key=KEY, dec_mode=mode)
    x = np.array([[-1, 0, 2], [3, -4, 5]], np.float32)
    np.testing.assert_array_equal(model.predict([x])[0].get_data_to_numpy(), np.maximum(x, 0))
    with pytest.raises(ModelFormatError, match="key does not fit") as raised:
        Model().build_from_file(path, ModelType.MINDIR, dec_key=b"secret0123456789", dec_mode=mode)
    assert "secret" not in str(raised.value)


def test_a_key_of_SM4_has_16_bytes():
    pytest.importorskip("cryptography")
    path = str(DATA / "encrypted" / "relu_SM4-CBC.mindir")
    with pytest.raises(ArgumentValueError, match="the key of SM4-CBC must have 16 bytes, but got 24"):
        Model().build_from_file(path, ModelType.MINDIR, dec_key=KEY + b"01234567", dec_mode="SM4-CBC")


@pytest.mark.parametrize("digits", [32, 48, 64])
def test_key_in_hexadecimal_digits_is_its_bytes(digits):
    text = "0123456789abcdefABCDEF9876543210"[:digits] + "5a" * ((digits - 32) // 2)
    assert key_of(text, "key").hex() == text.lower()


@pytest.mark.parametrize("text", ["", "5a" * 15, "5a" * 17, "5a" * 33, "5a" * 15 + "zz", "5a" * 16 + "5"])
def test_key_of_other_digits_is_refused_without_showing_it(text):
    with pytest.raises(ArgumentValueError, match="the key must") as raised:
        key_of(text, "the key")
    assert not text or text not in str(raised.value)


def test_options_of_the_compile_cache_have_no_effect_on_an_encrypted_model(tmp_path):
    pytest.importorskip("cryptography")
    path, model, kept = str(DATA / "encrypted" / "relu_AES-GCM.mindir"), Model(), tmp_path / "kept"
    options = {"MS_CACHE": {"serialize_path": str(kept), "keep": "before"}}
    with pytest.warns(PinnaceWarning, match=r"no effect: \[ms_cache\] serialize_path, keep \("):
        model.build_from_file(path, ModelType.MINDIR, config_dict=options, dec_key=KEY)
    assert model.get_model_info("cache") == "off"
    assert not kept.exists()
    with pytest.raises(TypeError, match="config_dict must be dict, but got <class 'list'>"):
        Model().build_from_file(path, ModelType.MINDIR, config_dict=["x"], dec_key=KEY)


def test_an_encrypted_model_shares_no_weights(tmp_path, monkeypatch):
    """They would be in files, for others to map."""
    pytest.importorskip("cryptography")
    for name in ("TMPDIR", "PINNACE_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "TMPDIR").mkdir()
    path = str(tmp_path / "product.mindir")
    make_model(tmp_path / "product.onnx")
    convert(Source.of_file(tmp_path / "product.onnx"), None, Path(path), Conversion(encrypt=(KEY, "AES-GCM")))
    (tmp_path / "product.onnx").unlink()
    before, after, group = Model(), Model(), ModelGroup(ModelGroupFlag.SHARE_WEIGHT)
    group.add_model([before])
    with pytest.warns(PinnaceWarning, match="shares no weights: it is encrypted"):
        before.build_from_file(path, ModelType.MINDIR, dec_key=KEY)
    after.build_from_file(path, ModelType.MINDIR, dec_key=KEY)
    with pytest.warns(PinnaceWarning, match="shares no weights: it is encrypted"):
        group.add_model([after])
    lends = {"ascend_context": {"shareable_weight_pid_list": str(os.getppid())}}
    with pytest.raises(ConfigError, match="shares no weights: it is encrypted"):
        Model().build_from_file(path, ModelType.MINDIR, config_dict=lends, dec_key=KEY)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [Path(path)]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"a": 1}, "config_info val must be str, but got <class 'int'> at key a."),
        ({2: "b"}, "config_info key must be str, but got <class 'int'> at key 2."),
    ],
)
def test_config_info_of_another_type(info, text):
    """The texts are those of mindspore_lite 2.0.0."""
    with pytest.raises(TypeError) as caught:
        Converter().set_config_info("s", info)
    assert str(caught.value) == text


def test_a_ms_that_mindspore_lite_encrypted_is_opened():
    pytest.importorskip("cryptography")
    path, golden, model = (
        DATA / "encrypted" / "softmax_AES-GCM.ms",
        DATA / "converted" / "softmax_axis_1.npz",
        Model(),
    )
    model.build_from_file(str(path), ModelType.MINDIR_LITE, dec_key=KEY, dec_mode="AES-GCM")
    with np.load(golden) as known:
        given = model.predict([known["x0"]])[0].get_data_to_numpy()
        np.testing.assert_allclose(given, known["y0"], rtol=2e-5, atol=2e-5)


def test_nothing_plain_is_left_of_an_encrypted_model(tmp_path):
    pytest.importorskip("cryptography")
    options = Conversion(encrypt=(KEY, "AES-GCM"), check=True)
    summary = convert(Source.of_file(Path(ADD)), None, tmp_path / "add.mindir", options)
    assert (summary.error, list(tmp_path.iterdir())) == (0, [tmp_path / "add.mindir"])
    with pytest.raises(ModelFormatError):
        Model(tmp_path / "add.mindir")
    model = Model()
    model.build_from_file(str(tmp_path / "add.mindir"), ModelType.MINDIR, dec_key=KEY, dec_mode="AES-GCM")


@pytest.mark.parametrize("mode", MODES)
def test_a_changed_byte_is_an_error(mode):
    pytest.importorskip("cryptography")
    target = io.BytesIO()
    encrypt(io.BytesIO(b"text" * 10), target, KEY, mode)
    whole = target.getvalue()
    assert decrypt(memoryview(whole), KEY, mode, "x") == b"text" * 10
    changed = whole[:-17] + bytes([whole[-17] ^ 1]) + whole[-16:]  # in CBC it is the padding's length
    with pytest.raises(ModelFormatError, match="the key does not fit"):
        decrypt(memoryview(changed), KEY, mode, "x")
    with pytest.raises(ModelFormatError, match="ends at byte"):
        decrypt(memoryview(whole[:-1]), KEY, mode, "x")


class Asked:
    """A converter that notes what it is asked for, and converts nothing."""

    summary = SimpleNamespace(
        files=["a", "b"], nodes_before=9, nodes=5, bytes_before=900, bytes=450, precision="FP16",
        error=0.01234, likeness="close",
    )  # fmt: skip

    def __init__(self, trust=False):
        self.trust = trust

    def convert(self, *files):
        self.files = files


def test_flags_of_converter_lite_are_attributes_of_the_converter(monkeypatch, capsys):
    made = []
    monkeypatch.setattr("pinnace.Converter", lambda **trust: made.append(Asked(**trust)) or made[-1])
    least = ["--fmk=CAFFE", "--modelFile=m.prototxt", "--outputFile=o"]
    main(least)
    main([
        *least, "--weightFile=w", "--configFile=c", "--inputDataType=FLOAT", "--outputDataType=UINT8",
        "--fp16=on", "--decryptKey=00", "--decryptMode=AES-CBC", "--inputShape=x:1,3;y:2",
        "--inputDataFormat=NHWC", "--encryptKey=11", "--infer=true", "--device=Ascend",
        "--saveType=MINDIR_LITE", "--trust=true", "--optimize=none",
    ])  # fmt: skip
    main(
        [*least, "--encryptKey=11", "--encryption=false", "--inputDataType=INT8", "--outputDataType=FLOAT16"]
    )
    main([*least, "--encryption=true"])
    plain, full, open_, keyless = map(vars, made)
    assert keyless["enable_encryption"]  # which is an error without a key
    assert plain == {
        "trust": False, "input_shape": {}, "weight_fp16": False, "infer": False, "optimize": "general",
        "save_type": ModelType.MINDIR, "decrypt_key": "", "decrypt_mode": "AES-GCM", "encrypt_key": "",
        "enable_encryption": False, "files": (FmkType.CAFFE, "m.prototxt", "o", "", ""),
    }  # fmt: skip
    assert full == {
        "trust": True, "input_shape": {"x": [1, 3], "y": [2]}, "weight_fp16": True, "infer": True,
        "optimize": "none", "save_type": ModelType.MINDIR_LITE, "decrypt_key": "00",
        "decrypt_mode": "AES-CBC", "encrypt_key": "11", "enable_encryption": True, "device": "Ascend",
        "files": (FmkType.CAFFE, "m.prototxt", "o", "w", "c"), "input_format": Format.NHWC,
        "input_data_type": DataType.FLOAT32, "output_data_type": DataType.UINT8,
    }  # fmt: skip
    assert (open_["enable_encryption"], open_["encrypt_key"]) == (False, "11")
    assert (open_["input_data_type"], open_["output_data_type"]) == (DataType.INT8, DataType.FLOAT16)
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "a, b: 9 nodes became 5, 900 bytes 450, FP16, error 0.012; on the samples close"
    assert second == "CONVERT RESULT SUCCESS:0"


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], 168, "Flag missing: fmk, modelFile, outputFile"),  # -600 in 8 bits
        (["--fmk=ONNX", "--modelFile=m"], 168, "Flag missing: outputFile"),
        (["--fmk=KERAS", "--modelFile=m", "--outputFile=o"], 168, "invalid choice: 'KERAS'"),
        (["--fmk=ONNX", "--modelFile=m", "--outputFile=o", "--inputShape=x"], 255, "inputShape: "),
        (["--fmk=ONNX", "--modelFile=none.onnx", "--outputFile=o"], 255, "none.onnx"),
    ],
)
def test_exit_codes_of_converter_lite_are_mindspore_lites(capsys, flags, code, message):
    with pytest.raises(SystemExit) as ended:
        main(flags)
    told = capsys.readouterr()
    assert ended.value.code == code
    assert message in told.err
    assert ("Flags Init failed. Ret: -600" in told.err) is (code == 168)
    assert ("Convert failed. Ret: -1" in told.out) is (code == 255)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_key_encrypts_only_where_encryption_is_enabled(monkeypatch, enabled):
    given = []
    monkeypatch.setattr(
        "pinnace.converter.frontends.convert_from",
        lambda *words: given.append(words[-1]) or SimpleNamespace(notes=[]),
    )
    converter = Converter()
    converter.encrypt_key, converter.enable_encryption = "0f" * 16, enabled
    converter.convert(FmkType.ONNX, ADD, "o")
    assert given[0].encrypt == ((b"\x0f" * 16, "AES-GCM") if enabled else None)
