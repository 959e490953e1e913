"""`pinnace devices`; devices that are simulated or missing are in tests/engines/test_devices.py."""

import re

import pytest

from pinnace.machine import processor


def test_the_processor_is_shown(pinnace):
    answer = pinnace("devices")
    assert answer.code == 0
    assert f"{processor.name()}\n  computes in  " in answer.out


@pytest.mark.parametrize(("quota", "shown"), [(0.0, ""), (1.5, ", quota of 1.5")])
def test_the_quota_stands_beside_the_cores(pinnace, monkeypatch, quota, shown):
    monkeypatch.setattr("pinnace.engines.devices.cpu_quota", lambda: quota)
    monkeypatch.setattr("pinnace.machine.cgroup.cpu_quota", lambda: quota)
    assert re.search(rf"cpu:0  \d+ cores?{shown}  ", pinnace("devices").out)
    assert pinnace("devices", "--json").json[0]["processor"]["quota"] == (quota or None)
