"""What is said before a cluster is asked; none is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pinnace
from pinnace.errors import ArgumentTypeError, ArgumentValueError, ConfigError, DeviceUnavailableError
from pinnace.options.settings import Settings
from pinnace.serving.ray import replicas, workers


def on_ray():
    context = pinnace.Context()
    context.parallel.cluster = "ray"
    return context


def test_an_address_implies_the_cluster():
    parallel = pinnace.Context().parallel
    assert (parallel.cluster, parallel.address) == ("", "")
    parallel.address = "head.example:6379"
    assert parallel.cluster == "ray"
    parallel.address = ""
    assert parallel.cluster == ""
    assert pinnace.RunnerConfig().cluster == ""


@pytest.mark.parametrize(
    "address", ["head", "head:", ":6379", "head:port", "head:0", "head:70000", "ray://head:1"]
)
def test_addresses_that_are_none(address):
    with pytest.raises(ArgumentValueError, match='must be "host:port" of a Ray cluster'):
        pinnace.Context().parallel.address = address


def test_other_things_than_text():
    for name in ("cluster", "address"):
        with pytest.raises(ArgumentTypeError, match=f"{name} must be str"):
            setattr(pinnace.Context().parallel, name, 1)
    with pytest.raises(ArgumentValueError, match='cluster must be "ray"'):
        pinnace.Context().parallel.cluster = "dask"


def test_the_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(DeviceUnavailableError, match=r"pip install 'ray>=2.60'"):
        pinnace.DataParallel(str(path), on_ray())
    with pytest.raises(DeviceUnavailableError, match=r"pip install 'ray>=2.60'"):
        pinnace.ModelParallelRunner().build_from_file(str(path), on_ray())


def test_ray_is_imported_by_nobody_who_does_not_ask():
    code = "import sys, pinnace, pinnace.serving.ray; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "settings", "named"),
    [
        (lambda c: setattr(c.ascend, "rank_id", 1), {}, "ranks"),
        (lambda c: setattr(c, "group_info_file", "groups"), {}, "ranks"),
        (lambda c: None, {"ascend_context": {"rank_table_file": "t"}}, "ranks"),
        (lambda c: setattr(c.cpu, "thread_affinity_mode", 1), {}, "thread_affinity"),
        (lambda c: None, {"pids": "12"}, "weights lent"),
    ],
)
def test_options_that_a_cluster_lacks_are_refused(change, settings, named):
    context = on_ray()
    change(context)
    options = Settings.load(options=settings)
    with pytest.raises(ConfigError, match=f"context.parallel.cluster: {named}"):
        replicas("m.onnx", context, options, 0)
    with pytest.raises(ConfigError, match=f"context.parallel.cluster: {named}"):
        workers("m.onnx", context, context.parallel, options, 0, None)


def test_names_of_devices(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    for wrong in ([], [1, 1]):
        with pytest.raises(ConfigError, match="at least one device, and none twice"):
            pinnace.DataParallel(str(tmp_path / "m.onnx"), on_ray(), device_ids=wrong)
