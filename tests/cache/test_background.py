"""Models that are kept after they are given out."""

import json
import math
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from contextlib import ExitStack
from itertools import accumulate, chain, repeat
from pathlib import Path

import numpy as np
import pytest
from tests.waiting import until

import pinnace
from pinnace.building import background
from pinnace.cache import key
from pinnace.cache.folder import Folder

from .conftest import X, close_to, make_model, predict


@pytest.fixture(autouse=True)
def after(monkeypatch):
    monkeypatch.setenv("PINNACE_CACHE_KEEP", "after")


class Helper:
    """The helper as a function, which begins when `opened` is set."""

    opened = threading.Event()
    warnings = ()

    def __init__(self, jobs):
        with ExitStack() as stack:
            messages = [job.message(stack) for job in jobs]
        self.messages, self.stdout = iter(messages), self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __iter__(self):
        return iter(self.warnings)

    def readline(self):
        assert self.opened.wait(60)
        try:
            background.keep(next(self.messages))
        except Exception as error:
            return json.dumps(str(error)).encode()
        return b'""\n'


@pytest.fixture
def gate(monkeypatch):
    """Opens the way for the helper, which is a function here."""
    monkeypatch.setattr(Helper, "opened", threading.Event())
    monkeypatch.setattr(background, "_started", Helper)
    yield Helper.opened
    Helper.opened.set()


# At idle priority it would hardly run beside other tests.
BUSY = "import os; os.nice = os.sched_setscheduler = lambda *_: None; "


def entries(cache):
    return list((cache / "entries").glob("*")) if cache.exists() else []


def is_done():
    return not background._queue.works


def running(model):
    return model._live.workers.executable


@pytest.mark.parametrize("from_buffer", [False, True])
def test_the_helper_keeps_a_model_that_runs_and_the_kept_one_replaces_it(
    cache, product, from_buffer, monkeypatch
):
    path, weight = product
    monkeypatch.setattr(background, "_HELPER", BUSY + background._HELPER)
    with pinnace.Model(path.read_bytes() if from_buffer else path) as model:
        assert model.get_model_info("cache") == "to be written"
        first, before = model.predict([X])[0].get_data_to_numpy(), running(model)
        assert first == close_to(weight)
        until(is_done)
        assert len(entries(cache)) == 1
        assert running(model) is not before
        np.testing.assert_array_equal(model.predict([X])[0].get_data_to_numpy(), first)
    with pinnace.Model(path) as again:
        assert again.get_model_info("cache") == "loaded"
        np.testing.assert_array_equal(again.predict([X])[0].get_data_to_numpy(), first)


@pytest.mark.parametrize("how", ["option", "variable"])
def test_never_keeps_nothing(cache, product, monkeypatch, how):
    path, weight = product
    if how == "variable":
        monkeypatch.setenv("PINNACE_CACHE_KEEP", "never")
    options = {"ms_cache": {"keep": "never"}} if how == "option" else {}
    with pinnace.Model() as model:
        model.build_from_file(path, pinnace.ModelType.ONNX, config_dict=options)
        assert model.get_model_info("cache") == "not kept"
        assert model.predict([X])[0].get_data_to_numpy() == close_to(weight)
    assert is_done()
    assert not entries(cache)


def test_a_word_that_is_none_is_an_error(product, monkeypatch):
    monkeypatch.setenv("PINNACE_CACHE_KEEP", "soon")
    with pytest.raises(pinnace.ConfigError, match="PINNACE_CACHE_KEEP must be one of after, before, never"):
        pinnace.Model(product[0])


def test_new_weights_are_not_replaced_by_those_of_the_file(cache, product, gate, tmp_path):
    path, weight = product
    (tmp_path / "names").write_text("w\n")
    with pinnace.Model() as model:
        options = {"common_context": {"variable_weights_file": str(tmp_path / "names")}}
        model.build_from_file(path, pinnace.ModelType.ONNX, config_dict=options)
        model.update_weights([[pinnace.Tensor(2 * weight)]])
        gate.set()
        until(is_done)
        assert len(entries(cache)) == 1
        assert model.predict([X])[0].get_data_to_numpy() == close_to(2 * weight)


def test_warnings_of_the_helper_are_those_of_this_process(cache, product, gate, monkeypatch, recwarn):
    monkeypatch.setattr(Helper, "warnings", (b'"other results"\n',))
    with pinnace.Model(product[0]):
        gate.set()
        until(is_done)
    assert [str(one.message) for one in recwarn] == ["other results"]


def test_warnings_are_not_issued_once_more_when_a_model_is_kept(cache, product, gate, recwarn):
    with pinnace.Model() as model:
        plan = {"execution_plan": {"nobody": "data_type:float16"}}
        model.build_from_file(product[0], pinnace.ModelType.ONNX, config_dict=plan)
        gate.set()
        until(is_done)
    assert len(entries(cache)) == 1
    assert len([w for w in recwarn if "nobody" in str(w.message)]) == 1


def test_a_model_that_was_closed_is_kept_all_the_same(cache, product, gate):
    pinnace.Model(product[0]).close()
    gate.set()
    until(is_done)
    assert len(entries(cache)) == 1


def test_a_model_behind_links_is_kept(cache, gate, tmp_path):
    (tmp_path / "blobs").mkdir()
    weight = make_model(tmp_path / "product.onnx", external="weights.bin")
    for name, blob in (("product.onnx", "a"), ("weights.bin", "b")):
        (tmp_path / name).rename(tmp_path / "blobs" / blob)
        (tmp_path / name).symlink_to(tmp_path / "blobs" / blob)
    with pinnace.Model(tmp_path / "product.onnx") as model:
        gate.set()
        until(is_done)
        assert len(entries(cache)) == 1
        assert model.predict([X])[0].get_data_to_numpy() == close_to(weight)


def test_a_model_that_was_resized_runs_the_kept_one(cache, gate, tmp_path):
    weight = make_model(tmp_path / "fixed.onnx", rows=1)
    with pinnace.Model(tmp_path / "fixed.onnx") as model:
        model.resize(model.get_inputs(), [[3, 128]])
        before = running(model)
        gate.set()
        until(is_done)
        assert len(entries(cache)) == 2
        assert running(model) is not before
        assert model.predict([X])[0].get_data_to_numpy() == close_to(weight)


def opened(folder):
    """Files in a folder that this process has open or mapped."""
    descriptors = map(os.path.realpath, Path("/proc/self/fd").iterdir())
    mapped = Path("/proc/self/maps").read_text().split()
    return {path for path in (*descriptors, *mapped) if path.startswith(str(folder))}


@pytest.mark.parametrize("way", ["close", "del", "with"])
def test_a_model_that_was_closed_is_freed_although_it_waits_to_be_kept(cache, gate, tmp_path, way):
    make_model(tmp_path / "file.onnx", external="weights")
    make_model(tmp_path / "buffer.onnx")
    buffer, freed = bytearray((tmp_path / "buffer.onnx").read_bytes()), []
    for model in (tmp_path / "file.onnx", buffer, tmp_path / "file.onnx", buffer):
        built = pinnace.Model(model)
        built.predict([X])
        freed.append(weakref.ref(running(built)))
        if way == "with":
            with built:
                pass
        elif way == "close":
            built.close()
        del built
    until(lambda: not any(executable() for executable in freed))  # the thread that ran it ends
    assert opened(tmp_path) == set()
    buffer.clear()  # BufferError while something refers to it
    gate.set()
    until(is_done)
    assert len(entries(cache)) == 1  # of the file


def test_a_helper_that_is_killed_leaves_the_model_as_it_runs(cache, product, gate, monkeypatch, caplog):
    caplog.set_level("INFO", "pinnace.build")
    monkeypatch.setattr(Helper, "readline", lambda _: b"")
    with pinnace.Model(product[0]) as model:
        before = running(model)
        until(is_done)
        assert running(model) is before
    assert "its helper was killed" in caplog.text


def test_a_failure_is_logged_and_the_model_runs_on(cache, product, gate, caplog):
    path, weight = product
    caplog.set_level("INFO", "pinnace.build")
    with pinnace.Model(path) as model:
        cache.mkdir(exist_ok=True)
        (cache / "CACHEDIR.TAG").write_text("of another program")
        gate.set()
        until(is_done)
        assert model.predict([X])[0].get_data_to_numpy() == close_to(weight)
    assert "is not kept in the compile cache" in caplog.text


def test_a_process_that_ends_or_forks_meanwhile_leaves_nothing_behind(cache, product):
    script = """
        import os, sys
        import numpy as np, pinnace
        from pinnace.building import background
        model = pinnace.Model(sys.argv[1])
        background._queue.replacing.acquire()
        background._queue.replacing.release()
        child = os.fork()
        y = model.predict([np.ones((1, 128), np.float32)])[0].get_data_to_numpy()
        if child == 0:
            os._exit(int(y.shape != (1, 512)))
        assert os.waitpid(child, 0)[1] == 0
    """
    quiet = ("-W", "ignore:This process:DeprecationWarning")  # from Python 3.12 on
    done = subprocess.run(
        [sys.executable, *quiet, "-c", textwrap.dedent(script), str(product[0])],
        capture_output=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert predict(product[0]) == close_to(product[1])  # whatever the helper has left


def test_models_of_a_process_that_has_ended_are_kept(cache, tmp_path):
    """Its working folder is gone, and one model is a buffer."""
    for seed, name in enumerate(("first.onnx", "second.onnx", "third.onnx")):
        make_model(tmp_path / name, seed)
    script = f"""
        import os, shutil, sys, pinnace
        from pinnace.building import background
        background._HELPER = {BUSY!r} + background._HELPER
        third = open("third.onnx", "rb").read()
        models = [pinnace.Model("first.onnx"), pinnace.Model("second.onnx"), pinnace.Model(third)]
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120, cwd=tmp_path)
    until(lambda: len(entries(cache)) == 3)


def test_the_helper_yields_cores_and_memory_to_its_parent(cache, product, monkeypatch):
    """In another session the kernel would give it as much of a core as the parent, whatever its priority."""
    started, helpers = background._started, []
    monkeypatch.setattr(background, "_started", lambda jobs: helpers.append(started(jobs)) or helpers[0])
    with Folder(cache).lock("keeper", 10), pinnace.Model(product[0]):
        until(lambda: helpers)
        pid = helpers[0].pid
        assert os.getsid(pid) == os.getsid(0)
        assert os.getpgid(pid) == pid  # a signal of the terminal is for the parent
        until(lambda: os.sched_getscheduler(pid) == os.SCHED_IDLE)
        until(lambda: Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n")
        helpers[0].kill()
    until(is_done)
    assert not entries(cache)


def test_one_helper_for_a_cache_works_at_a_time(cache, product, gate, monkeypatch):
    monkeypatch.setattr(background, "_PATIENCE", 0)
    with pinnace.Model(product[0]), Folder(cache).lock("keeper", 10):
        gate.set()
        until(is_done)
        assert not entries(cache)


def test_a_model_for_which_memory_does_not_suffice_is_not_kept(cache, product, gate, monkeypatch, caplog):
    caplog.set_level("INFO", "pinnace.build")
    with pinnace.Model(product[0]) as model:
        monkeypatch.setattr("pinnace.building.background.usable_memory", lambda: 2 * product[1].nbytes)
        gate.set()
        until(is_done)
        assert model.predict([X])[0].get_data_to_numpy() == close_to(product[1])
    assert "is not kept in the compile cache: it takes 3 x 0.0 GB" in caplog.text


@pytest.mark.parametrize(
    ("quota", "used", "waits"),
    [(0, [], 0), (1.5, [0.7], 1), (1.5, [1.5, 1.2, 0.75], 3), (2.5, [1.6, 1.5], 2), (8, [], 0)],
)
def test_the_helper_starts_when_a_quota_leaves_it_a_core(monkeypatch, quota, used, waits):
    """Otherwise it would take from the quota what requests need, whatever its priority."""
    slept, total = [], accumulate(chain(*zip(repeat(0), used, strict=False)))
    monkeypatch.setattr(background, "allowed_cores", lambda: range(4))
    monkeypatch.setattr(background.time, "sleep", slept.append)
    monkeypatch.setattr(background, "cpu_quota", lambda: quota)
    monkeypatch.setattr(background, "cpu_seconds", lambda: next(total))
    background._wait_for_quota()
    assert len(slept) == waits


def test_the_helper_ends_after_its_parent():
    script = "from pinnace.building import background; background._ALONE = 0; background._end_after(1 << 30)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 1


def test_a_file_that_is_known_is_not_read_again_until_it_changes(cache, product, monkeypatch):
    path, weight = product
    monkeypatch.setattr(key, "_SETTLED", -math.inf)  # clocks may be set back
    monkeypatch.setenv("PINNACE_CACHE_KEEP", "before")
    predict(path)
    read = []
    digest = key.digest
    monkeypatch.setattr(key, "digest", lambda data: read.append(len(data)) or digest(data))
    predict(path)
    assert os.path.getsize(path) not in read
    times = os.stat(path)
    other = path.with_name("other.onnx")
    new = make_model(other, seed=7)
    with path.open("r+b") as file:
        file.write(other.read_bytes())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert predict(path) == close_to(new) != close_to(weight)
    assert os.path.getsize(path) in read
