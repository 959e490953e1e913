"""Settings of a model: what each one sets of a runner's context."""

from __future__ import annotations

import json
import math

import pytest

from pinnace.errors import ConfigError
from pinnace.server.failures import RequestError
from pinnace.server.server import Options
from pinnace.server.settings import ModelSettings

RUNNER = "runner: isolate false\nmax_queue 128"


def test_settings_that_are_left_out_leave_the_context_as_it_is():
    context = ModelSettings().context()
    assert context.target == ["cpu"]
    assert (context.cpu.provider, context.cpu.thread_num) == ("", type(context)().cpu.thread_num)
    assert context.parallel.config_info == RUNNER


def test_settings_that_are_left_out_are_those_of_the_manual():
    found = ModelSettings()
    assert (found.queue, found.default_priority, found.timeout) == (128, 2, 0)
    assert (found.device, found.warm_up, found.max_batch_tokens) == ("cpu", 3, 512)
    assert Options().max_connections == 1000


def test_each_setting_reaches_the_context(tmp_path):
    (tmp_path / "options.ini").write_text("")
    given = {
        "engine": "onnxruntime", "precision": "preferred_fp16", "workers": 3, "threads": 2, "queue": 7,
        "isolate": True, "max_batch_size": 2, "max_queue_delay_us": 9,
        "config": str(tmp_path / "options.ini"),
    }  # fmt: skip
    context = ModelSettings().updated(given, "here").context()
    assert (context.cpu.provider, context.cpu.precision_mode) == ("onnxruntime", "preferred_fp16")
    assert (context.parallel.workers_num, context.cpu.thread_num) == (3, 2)
    assert context.parallel.config_path == given["config"]
    runner = "runner: isolate true\nmax_batch_size 2\nmax_queue 7\nmax_queue_delay_us 9"
    assert context.parallel.config_info == runner


def test_a_batch_of_one_is_no_batch():
    assert ModelSettings(max_batch_size=1, max_queue_delay_us=9).context().parallel.config_info == RUNNER


def test_devices_are_those_of_the_context():
    settings = ModelSettings().updated({"device": "Ascend", "device_ids": [0, 3]}, "here")
    context = settings.context()
    assert (settings.device_ids, context.parallel.device_ids) == ((0, 3), [0, 3])
    assert context.target == ["Ascend"]


@pytest.mark.parametrize(
    ("value", "is_right"), [(0, True), (3, True), (0.5, True), (-0.5, False), ("1", False), (math.inf, False)]
)
def test_a_timeout_is_a_number_from_0_on(value, is_right):
    if is_right:
        assert ModelSettings().updated({"timeout": value}, "here").timeout == value
    else:
        with pytest.raises(ConfigError, match=r"here: timeout must be a number from 0 to 2\^31"):
            ModelSettings().updated({"timeout": value}, "here")


def test_a_whole_number_is_no_part_of_one():
    with pytest.raises(ConfigError, match=r"queue must be a whole number from 0 to 2\^31, not 1\.5"):
        ModelSettings().updated({"queue": 1.5}, "here")
    with pytest.raises(ConfigError, match="engine must be text, not 1"):
        ModelSettings().updated({"engine": 1}, "here")


def test_a_missing_file_changes_nothing(tmp_path):
    settings = ModelSettings(workers=2)
    assert settings.read(tmp_path / "model.toml") == settings


@pytest.mark.parametrize(
    "config",
    [
        "[]",
        "{",
        '{"instance_group": [{"count": []}]}',
        '{"max_batch_size": "many"}',
        '{"max_batch_size": Infinity}',
        "[" * 100_000,
    ],
)
def test_what_is_no_configuration_of_triton_is_refused(config):
    with pytest.raises(RequestError, match="is not Triton's JSON of a model"):
        ModelSettings().overridden(config)


def test_a_configuration_of_triton_with_other_fields_keeps_the_settings():
    settings = ModelSettings(workers=2, max_batch_size=4, default_priority=1)
    assert settings.overridden(json.dumps({"name": "m", "instance_group": []})) == settings
    with pytest.raises(RequestError, match=r"max_batch_size must be a whole number from 0 to 2\^31, not -1"):
        settings.overridden('{"max_batch_size": -1}')
    with pytest.raises(RequestError, match=r"a whole number from 0 to 2\^31, not 10000"):
        settings.overridden(json.dumps({"max_batch_size": 10**30}))
