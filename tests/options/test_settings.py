from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from pinnace.errors import ConfigError, PinnaceWarning
from pinnace.options.settings import Settings


@pytest.fixture
def ini(tmp_path: Path):
    def write(text: str | bytes) -> str:
        path = tmp_path / "config.ini"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def silent(path: str = "", options: dict | None = None) -> Settings:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Settings.load(path, options)


def test_no_configuration_is_empty() -> None:
    assert silent() == Settings()
    assert Settings().get("model_file", "mindir_path", "none") == "none"


def test_sections_keys_and_values_of_a_file(ini) -> None:
    settings = silent(
        ini(
            "# a comment\n; another\n\n[model_file]\n  mindir_path = /models/big = net.mindir\n"
            '[ascend_context]\n\tvariable_weights_file="update names.txt"\n    precision_mode=enforce_fp16\n'
            "[ge_session_options]\nge.anything=1\n"
        )
    )
    assert settings.get("model_file", "mindir_path") == "/models/big = net.mindir"
    assert settings.get("ascend_context", "variable_weights_file") == "update names.txt"
    assert settings.get("ascend_context", "precision_mode") == "enforce_fp16"
    assert settings.get("ge_session_options", "ge.anything") == "1"


def test_dict_takes_precedence_over_the_file(ini) -> None:
    path = ini("[ascend_context]\nrank_table_file=a\nprovider=ge\n")
    settings = silent(path, {"ascend_context": {"rank_table_file": '"b"'}})
    assert settings.get("ascend_context", "rank_table_file") == "b"
    assert settings.get("ascend_context", "provider") == "ge"


def test_keys_without_a_section() -> None:
    settings = silent(options={"pids": "1, 2", "shared_mem_handle": 77})
    assert settings.get("ascend_context", "shareable_weight_pid_list") == "1, 2"
    assert settings.get("ascend_context", "shareable_weight_mem_handle") == "77"
    both = silent(options={"pids": "1", "ascend_context": {"provider": "ge"}})
    assert both.sections["ascend_context"] == {"shareable_weight_pid_list": "1", "provider": "ge"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (1, "config must be dict, but got <class 'int'>."),
        ({1: {}}, "config_key must be str, but got <class 'int'>."),
        ({"model_file": "x"}, "config_value must be dict, but got <class 'str'>."),
        ({"model_file": {1: "x"}}, "config_value_key must be str, but got <class 'int'>."),
        ({"model_file": {"mindir_path": 1}}, "config_value_value must be str, but got <class 'int'>."),
        ({"pids": [1]}, "config['pids'] must be str or int, but got <class 'list'>."),
    ],
)
def test_types_of_the_dict(options: object, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        Settings.load("", options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ("mindir_path=x\n", 1, "before the first [section]"),
        ("[model_file]\nmindir_path=x\nmindir_path=y\n", 3, "twice"),
        ("[model_file]\n[ms_cache]\n[model_file]\n", 3, "twice"),
        ("[model_file]\nmindir_path\n", 2, "neither [section] nor key=value"),
        ("[model_file]\n\n[ms_cache\nvocab_size=1\n", 3, "neither [section] nor key=value"),
    ],
)
def test_syntax_error_names_file_and_line(ini, text: str, line: int, about: str) -> None:
    path = ini(text)
    with pytest.raises(ConfigError) as caught:
        Settings.load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert about in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(ini, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.ini: No such file"):
        Settings.load(str(tmp_path / "no.ini"))
    with pytest.raises(ConfigError, match="Is a directory"):
        Settings.load(str(tmp_path))
    with pytest.raises(ConfigError, match="byte 13 is not UTF-8"):
        Settings.load(ini(b"[model_file]\n\xff\xfe\x00"))


def test_a_byte_order_mark_is_no_part_of_the_section(ini) -> None:
    assert silent(ini(b"\xef\xbb\xbf[weight]\nweight_path=w\n")).get("weight", "weight_path") == "w"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[ascend_contxt]\nprovider=ge\n",
            "unknown section [ascend_contxt] is ignored; did you mean 'ascend_",
        ),
        ("[zzzz]\n", "unknown section [zzzz] is ignored"),
        (
            "[ms_cache]\nserialised_Path=x\n",
            "unknown key 'serialised_Path' in [ms_cache] is ignored; did you mean 's",
        ),
        (
            "[gpu_context]\nopt_dim=1\n",
            "unknown key 'opt_dim' in [gpu_context] is ignored; did you mean 'opt_dims'?",
        ),
        ("[execution_plan]\nconv=data_type:float8\n", "[execution_plan] conv=data_type:float8 is ignored"),
        ("[execution_plan]\nconv=float16\n", "data_type:float16 or data_type:float32"),
    ],
)
def test_unknown_names_are_a_warning_with_the_nearest_known(ini, text: str, message: str) -> None:
    path = ini(text)
    with pytest.warns(PinnaceWarning) as caught:
        Settings.load(path)
    assert str(caught[0].message).startswith(f"{path}: ")
    assert message in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("ascend_context", "precision_mode", "half", "must be one of .*enforce_fp16.*but got 'half'"),
        ("ms_cache", "vocab_size", "-5", "must be a non-negative number, but got '-5'"),
        ("acl_init_options", "ge.deterministic", "yes", "must be one of 0, 1, but got 'yes'"),
        ("gpu_context", "precision_mode", "half", "must be one of .*preferred_fp16.*but got 'half'"),
        ("ascend_context", "device_id", str(1 << 31), "must be less than 2\\^31, but got 2147483648"),
        ("ascend_context", "device_id", "9" * 5000, "must be less than 2\\^31, but got 9999999999"),
    ],
)
def test_impossible_values(ini, section: str, key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings.load("", {section: {key: value}})
    path = ini(f"[{section}]\n{key}={value}\n")
    with pytest.raises(ConfigError, match=f"config.ini.*{key}"):
        Settings.load(path)


def test_names_compare_without_case(ini) -> None:
    """MindSpore's pages write `model_File`, `serialize_Path` and `dynamic_Dims`."""
    options = {"Model_File": {"mindir_path": "x"}, "MS_CACHE": {"serialize_Path": "b"}}
    text = "[model_File]\nmindir_Path=y\n[ms_cache]\nserialize_path=a\n"
    settings = silent(ini(f"{text}[execution_plan]\nN=data_type:float16\n"), options)
    assert settings.get("model_file", "mindir_path") == "x"
    assert settings.get("ms_cache", "serialize_path") == "b"
    assert settings.precision_plan == {"N": "float16"}


def test_execution_plan(ini) -> None:
    settings = silent(
        ini('[execution_plan]\nDefault/net-Net/Conv2D-op0=data_type:float16\nb="data_Type: float32"\n')
    )
    assert settings.precision_plan == {"Default/net-Net/Conv2D-op0": "float16", "b": "float32"}


@pytest.mark.parametrize(
    "text",
    [
        "[ascend_context]\ndevice_id=0\nDevice_ID=1\n",
        "[ascend_context]\ndevice_id=0\n[ASCEND_CONTEXT]\ndevice_id=1\n",
    ],
)
def test_a_key_in_two_spellings_is_given_twice(ini, text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"config.ini: key 'device_id' is given twice in \[ascend_context\]"
    ):
        Settings.load(ini(text))


def test_sections_in_two_spellings_are_one(ini) -> None:
    settings = silent(ini("[ascend_context]\ndevice_id=0\n[ASCEND_CONTEXT]\nprovider=ge\n"))
    assert settings.sections == {"ascend_context": {"device_id": "0", "provider": "ge"}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a": {"x": "1"}, "ascend_context": {"device_id": "0", "DEVICE_ID": "1"}}, "is given twice in"),
        ({"pids": "1", "ascend_context": {"shareable_weight_pid_list": "2"}}, "given twice, once without"),
        ({"ascend_context": {"shareable_weight_pid_list": "2"}, "pids": "1"}, "given twice, once without"),
    ],
)
@pytest.mark.filterwarnings("ignore:config. unknown section")
def test_a_key_that_a_dict_gives_twice(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=f"config: key .*{message}"):
        Settings.load(options=options)


def test_a_section_that_is_no_dict_beside_a_key_without_one() -> None:
    with pytest.raises(TypeError, match="config_value must be dict, but got <class 'str'>"):
        Settings.load(options={"ascend_context": "x", "pids": "1"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"ascend_context": {"variable_weights_file": "f", "variable_weights_list": "a,b"}},
            r"\[ascend_context\] variable_weights_file and \[ascend_context\] variable_weights_list name",
        ),
        (
            {
                "common_context": {"variable_weights_file": "f"},
                "ascend_context": {"variable_weights_file": "g"},
            },
            r"\[ascend_context\] variable_weights_file and \[common_context\] variable_weights_file name",
        ),
        ({"ascend_context": {"variable_weights_list": " , "}}, "variable_weights_list names no weights"),
    ],
)
def test_weights_to_exchange_are_named_in_one_place(options: dict, message: str) -> None:
    settings = silent(options=options)
    with pytest.raises(ConfigError, match=message):
        _ = settings.variable_weights


def test_lines_of_the_converter_name_their_weights(tmp_path: Path) -> None:
    lines = "a.weight:3,4;/a\nb:(8, 2, 1, 1);/b/conv\nonnx::MatMul_12\nc::x:4;/c\n"
    (tmp_path / "names.txt").write_text(lines)
    settings = silent(options={"ascend_context": {"variable_weights_file": str(tmp_path / "names.txt")}})
    assert settings.variable_weights == ("a.weight", "b", "onnx::MatMul_12", "c::x")


@pytest.mark.parametrize("name", ["x.lora_up.weight", "x.down.weight", "x.alpha"])
def test_matrices_that_the_converter_would_insert_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "names.txt").write_text(f"w\n{name}:4,8;/x/to_q\n")
    settings = silent(options={"ascend_context": {"variable_weights_file": str(tmp_path / "names.txt")}})
    with pytest.raises(ConfigError, match=rf"names.txt:2: '{name}' .*at '/x/to_q'.*apply_lora"):
        _ = settings.variable_weights


def test_options_without_a_cache_are_otherwise_the_same(ini) -> None:
    settings = Settings.load(ini("[ms_cache]\nserialize_path = x\nkeep = before\n[runner]\nmax_queue = 9\n"))
    assert settings.keep == "before"
    assert settings.number("runner", "max_queue") == 9
    assert settings.number("runner", "max_batch_size") == 0
    off = settings.uncached()
    assert off.flat == (("ms_cache", "serialize_path", "off"), ("runner", "max_queue", "9"))
    assert off.folder == settings.folder


def test_a_path_is_tried_in_the_folder_of_the_file_if_there_is_none_as_given(
    ini, tmp_path: Path, monkeypatch
):
    path = Path(ini("[runner]\n"))
    settings = Settings.load(str(path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (path.parent / "names.txt").touch()
    assert settings.path("names.txt") == path.parent / "names.txt"
    assert settings.path("others.txt") == Path("others.txt")
    Path("names.txt").touch()
    assert settings.path("names.txt") == Path("names.txt")
