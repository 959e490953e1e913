"""The folder of the cache: whose it is, what it may hold, and that nothing else in it is touched."""

import fcntl
import grp
import os
import pwd
import signal
import stat
import subprocess
import sys
import types
import warnings

import pytest

from pinnace.cache import folder as folders
from pinnace.cache.store import Store
from pinnace.errors import EngineError, PinnaceWarning

from .conftest import close_to, make_model, predict

_AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def files(folder):
    return {path: path.lstat().st_ino for path in folder.rglob("*")}


def refused(product, why):
    path, weight = product
    with pytest.warns(PinnaceWarning, match=f"compile cache: off .*{why}"):
        assert predict(path) == close_to(weight)


def test_a_folder_that_people_use_is_left_alone(cache, product):
    for name in (
        "new/build-mine",
        "models/mine",
        "tensors/mine",
        "entries/mine",
        "choices/mine",
        "locks/mine",
    ):
        (cache / name).mkdir(parents=True)
    before = files(cache)
    refused(product, "neither empty nor a cache")
    with pytest.raises(FileExistsError):
        Store(cache, 0).clear()
    assert files(cache) == before


def test_the_tag_of_another_program_does_not_count(cache, product):
    cache.mkdir()
    (cache / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of a browser\n")
    refused(product, "neither empty nor a cache")


def test_an_empty_folder_becomes_a_cache_and_says_so(cache, product):
    cache.mkdir(mode=0o755)
    predict(product[0])
    assert (cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(product[0])


def test_names_of_others_within_a_cache_are_left_alone(cache, product, tmp_path):
    predict(product[0])
    mine = [
        cache / room / "mine"
        for room in ("entries", "tensors", "refers", "choices", "models", "new", "locks")
    ]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.mkdir()
    mine.append(cache / "new" / "build-mine")
    mine[-1].mkdir()
    make_model(tmp_path / "other.onnx", 2)
    predict(tmp_path / "other.onnx")
    removed = Store(cache, 0).clear()
    assert (removed["entries"], removed["models"], removed["choices"]) == (2, 0, 0)
    assert removed["bytes"] > 2 * 128 * 512 * 4  # the packed weights of both
    assert all(path.is_dir() for path in mine)
    assert not [path for path in cache.glob("*/*") if path not in mine and path.parent.name != "locks"]


@pytest.mark.parametrize("room", ["entries", "tensors"])
def test_a_linked_room_is_refused(cache, product, tmp_path, room):
    predict(product[0])
    (cache / room).rename(tmp_path / "elsewhere")
    (cache / room).symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path / "elsewhere")
    refused(product, f"{room} is a symbolic link")
    assert files(tmp_path / "elsewhere") == before


@pytest.mark.parametrize("place", [".", "entries", "CACHEDIR.TAG"])
def test_what_others_can_write_to_is_not_used(cache, product, place):
    predict(product[0])
    (cache / place).chmod(0o770)
    refused(product, "other users can write to .*: chmod go-w")


@_AS_ROOT
@pytest.mark.parametrize("place", [".", "entries", "CACHEDIR.TAG"])
def test_what_belongs_to_others_is_not_used(cache, product, place):
    predict(product[0])
    os.chown(cache / place, 12345, -1)
    refused(product, r"belongs to another user \(uid 12345\)")


@pytest.mark.parametrize(("mode", "used"), [(0o777, False), (0o1777, True)])
def test_a_folder_above_that_everyone_can_write_to(cache, product, mode, used):
    """Its files can be renamed by anyone, and so the cache replaced; but not where it is sticky."""
    cache.parent.chmod(mode)
    if used:
        predict(product[0])
        assert (cache / "CACHEDIR.TAG").exists()
    else:
        refused(product, "other users can write to")
        assert not cache.exists()


@_AS_ROOT
def test_a_folder_above_of_another_user(cache, product):
    """It can be renamed by its owner, and the cache replaced."""
    os.chown(cache.parent, 12345, -1)
    refused(product, f"{cache.parent} belongs to another user")
    assert not cache.exists()


@_AS_ROOT
@pytest.mark.parametrize("rooms", [[], ["entries", "known", "new", "locks"]])
def test_a_folder_that_another_user_makes_after_the_check(cache, rooms):
    store = Store(cache, 10**9)
    for folder in (cache, *(cache / room for room in rooms)):
        folder.mkdir()
        os.chown(folder, 12345, -1)
    for use in (
        lambda: store.find("0" * 64),
        lambda: store.set_refers("0" * 64, []),
        lambda: store.has_tunings,
    ):
        with pytest.raises(PermissionError, match="belongs to another user"):
            use()


@_AS_ROOT
def test_a_link_of_another_user_on_the_way(cache, product, monkeypatch, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "link" / "cache"))
    predict(product[0])
    os.chown(tmp_path / "link", 12345, -1, follow_symlinks=False)
    refused(product, f"{tmp_path / 'link'} belongs to another user")


def test_a_link_into_a_folder_that_others_can_write_to(cache, product, monkeypatch, tmp_path):
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "link").symlink_to("open/cache")
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "link"))
    refused(product, f"other users can write to {tmp_path / 'open'}")


@pytest.mark.parametrize(("members", "used"), [([], True), (["somebody"], False)])
def test_a_folder_above_that_a_group_can_write_to(cache, product, monkeypatch, members, used):
    """Many systems give each user a group of the same name, and let it write to new folders."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    group = grp.struct_group((name, "x", os.getegid(), members))
    monkeypatch.setattr(grp, "getgrgid", lambda number: group)
    cache.parent.chmod(0o775)
    if used:
        predict(product[0])
        assert (cache / "entries").is_dir()
    else:
        refused(product, "other users can write to")


def test_folders_above_are_made_for_the_owner_alone(product, monkeypatch, tmp_path):
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "a" / "b" / "cache"))
    before = os.umask(0)
    try:
        predict(product[0])
    finally:
        os.umask(before)
    made = (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "cache")
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 3


def test_notes_and_locks_are_bounded(cache, tmp_path, monkeypatch):
    """One that is held stays."""
    monkeypatch.setattr(folders, "_MOST", 2)
    rooms = [cache / name for name in ("known", "locks")]
    make_model(tmp_path / "0.onnx", outputs=8)
    predict(tmp_path / "0.onnx")
    [first] = (path for path in (cache / "locks").iterdir() if path.name != "new")
    with first.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for number in range(1, 6):
            make_model(tmp_path / f"{number}.onnx", outputs=8 + number)
            predict(tmp_path / f"{number}.onnx")
    made = {room.name: [path for path in room.iterdir() if path.name != "new"] for room in rooms}
    assert first in made["locks"]
    assert {name: len(found) <= 4 for name, found in made.items()} == {"known": True, "locks": True}


@pytest.mark.parametrize("place", [".", "meta.json", "graph.onnx"])
@pytest.mark.parametrize("whose", ["others can write", pytest.param("another user's", marks=_AS_ROOT)])
def test_entries_that_others_could_have_planted_are_made_anew(cache, product, place, whose):
    path, weight = product
    predict(path)
    [entry] = (cache / "entries").iterdir()
    if whose == "another user's":
        os.chown(entry / place, 12345, -1)
    else:
        (entry / place).chmod(0o770)
    with pytest.warns(PinnaceWarning, match="(another user|can write).*; the model is compiled again"):
        assert predict(path) == close_to(weight)
    [entry] = (cache / "entries").iterdir()
    assert (entry / place).stat().st_uid == os.geteuid()


def test_a_process_that_is_killed_before_it_marks_the_folder_leaves_it_usable(cache, product):
    cache.mkdir(mode=0o700)
    (cache / "CACHEDIR.TAG.left").touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(product[0])
    assert (cache / "entries").is_dir()


def test_only_the_owner_reads_it(cache, product):
    before = os.umask(0)
    try:
        cache.mkdir(mode=0o755)
        predict(product[0])
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in cache.rglob("*")}
    tag = cache / "CACHEDIR.TAG"
    wrong = {path: mode for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}
    assert not {path: oct(mode) for path, mode in wrong.items() if path != tag}
    assert modes[tag] & 0o022 == 0


def test_special_files_hang_nothing(cache, product):
    path, weight = product
    predict(path)
    os.mkfifo(cache / "new" / "build-apipe_00")
    [entry] = (cache / "entries").iterdir()
    (entry / "stamp.json").unlink()
    os.mkfifo(entry / "stamp.json")
    (cache / "choices").mkdir()
    os.mkfifo(cache / "choices" / ("a" * 64))
    for tensor in (cache / "tensors").iterdir():
        tensor.unlink()
        os.mkfifo(tensor)
    assert predict(path) == close_to(weight)
    Store(cache, 0).remove(entry.name)
    assert predict(path) == close_to(weight)


def test_a_lock_is_not_waited_for_without_limit(cache, product, monkeypatch):
    monkeypatch.setattr(Store, "patience", 0.1)
    predict(product[0])
    [lock] = (path for path in (cache / "locks").iterdir() if path.name != "new")
    Store(cache, 0).remove(*(path.name for path in (cache / "entries").iterdir()))
    path, weight = product
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.warns(PinnaceWarning, match=r"built without it: another process has held its lock"):
            assert predict(path) == close_to(weight)


def test_the_lock_of_the_folder_neither(cache, product, monkeypatch):
    monkeypatch.setattr(folders, "_PATIENCE", 0.1)
    (Store(cache, 0).root / "locks").mkdir(parents=True)
    cache.chmod(0o700)
    (cache / "CACHEDIR.TAG").write_text(folders._TAG_TEXT)
    with (cache / "locks" / "new").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        path, weight = product
        with pytest.warns(PinnaceWarning, match="built without it"):
            assert predict(path) == close_to(weight)


def test_models_do_not_wait_for_each_other(cache, product, tmp_path):
    """A process that is stopped in the middle of a build holds up no other model, wherever its lock lies."""
    stopped = f"""
import os, signal
from pathlib import Path
from pinnace.cache.store import Store
with Store(Path({str(cache)!r}), 10**9).writing("0" * 64):
    print("building", flush=True)
    signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", stopped], stdout=subprocess.PIPE) as builder:
        try:
            builder.stdout.readline()
            os.kill(builder.pid, signal.SIGSTOP)
            path, weight = product
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert predict(path) == close_to(weight)
        finally:
            builder.kill()


def test_a_full_disk_is_named_whatever_fails_of_it(tmp_path, monkeypatch):
    store = Store(tmp_path / "cache", 1 << 30)
    with pytest.raises(EngineError, match="cannot write"), store.folder.new():
        raise EngineError("cannot write")
    monkeypatch.setattr("shutil.disk_usage", lambda _: types.SimpleNamespace(free=0))
    with pytest.raises(OSError, match=f"no space left on device: '{store.root}'"), store.folder.new():
        raise EngineError("cannot write")
