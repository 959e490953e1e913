"""`pinnace devices`; devices that are simulated or missing are in tests/engines/test_devices.py."""

import re

import pytest

from pinnace.bench import bandwidth, machine
from pinnace.cache import profiles
from pinnace.cache.store import Store
from pinnace.cli import speed
from pinnace.engines.speed import profile as tables
from pinnace.engines.speed.profile import MachineProfile
from pinnace.machine import processor

PROFILE = MachineProfile(
    "made up",
    {("onnxruntime", "enforce_fp32", 1): {"conv": [((64.0, 784.0), 20.0)]}},
    {"winograd:4": [((64.0, 49.0), 0.5)]},
)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A store of profiles; measurements give `PROFILE`, and are noted."""
    asked = []
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(bandwidth, "memory_bandwidth", lambda: 12.34)
    monkeypatch.setattr(machine, "measure", lambda ways, _, brief=False: asked.append(brief) or PROFILE)
    return Store(tmp_path / "cache", 1 << 30), asked


def test_the_processor_is_shown(pinnace):
    answer = pinnace("devices")
    assert answer.code == 0
    assert f"{processor.name()}\n  computes in  " in answer.out
    assert "bandwidth" not in answer.out


@pytest.mark.parametrize(("quota", "shown"), [(0.0, ""), (1.5, ", quota of 1.5")])
def test_the_quota_stands_beside_the_cores(pinnace, monkeypatch, quota, shown):
    monkeypatch.setattr("pinnace.engines.devices.cpu_quota", lambda: quota)
    monkeypatch.setattr("pinnace.machine.cgroup.cpu_quota", lambda: quota)
    assert re.search(rf"cpu:0  \d+ cores?{shown}  ", pinnace("devices").out)
    assert pinnace("devices", "--json").json[0]["processor"]["quota"] == (quota or None)


def test_bandwidth_and_engines_are_measured_when_asked(pinnace, measured):
    out = pinnace("devices", "--measure").out
    assert "memory bandwidth  12.3 GB/s" in out
    assert "onnxruntime  enforce_fp32        1  50.0" in out
    assert "winograd:4  64 x 49  0.50" in out
    (cpu, *_) = pinnace("devices", "--measure", "--json").json
    assert (cpu["kind"], cpu["processor"]["name"]) == ("cpu", processor.name())
    assert cpu["processor"]["memory_bandwidth"] == 12.34
    assert cpu["processor"]["speed"] == {"onnxruntime enforce_fp32 1": {"conv": [[[64.0, 784.0], 20.0]]}}
    assert pinnace("devices", "--json").json[0]["processor"]["memory_bandwidth"] is None
    assert profiles.profile(measured[0]) == PROFILE
    assert measured[1] == [False, False]


def test_a_processor_that_no_table_knows_is_measured_briefly_and_once(monkeypatch, measured):
    monkeypatch.setattr(profiles, "installed", lambda: {"onnxruntime": "1", "openvino": "1"})
    monkeypatch.setattr("pinnace.engines.installed", lambda: {"onnxruntime": "1", "openvino": "1"})
    speed.fill_in()
    known = bool(tables.built_in().rates)
    assert measured[1] == ([] if known else [True])
    monkeypatch.setattr(tables, "_table", dict)
    speed.fill_in()
    speed.fill_in()
    assert measured[1] == [True]
