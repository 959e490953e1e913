"""`pinnace devices`; devices that are simulated or missing are in tests/engines/test_devices.py."""

from pinnace.bench import bandwidth
from pinnace.machine import processor


def test_the_processor_is_shown(pinnace):
    answer = pinnace("devices")
    assert answer.code == 0
    assert f"{processor.name()}\n  computes in  " in answer.out
    assert "bandwidth" not in answer.out


def test_the_bandwidth_is_measured_when_asked(pinnace, monkeypatch):
    monkeypatch.setattr(bandwidth, "memory_bandwidth", lambda: 12.34)
    assert "memory bandwidth  12.3 GB/s" in pinnace("devices", "--measure").out
    (cpu, *_) = pinnace("devices", "--measure", "--json").json
    assert (cpu["kind"], cpu["processor"]["name"]) == ("cpu", processor.name())
    assert cpu["processor"]["memory_bandwidth"] == 12.34
    assert pinnace("devices", "--json").json[0]["processor"]["memory_bandwidth"] is None
