"""`pinnace compile`."""

import json
import os
import stat

from pinnace.cli.quickstart import MODEL, data


def test_models_are_kept_for_later_builds(monkeypatch, tmp_path, pinnace):
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path))
    first, again = (pinnace("compile", data(MODEL), data(MODEL), "--json") for _ in range(2))
    assert [row["cache"] for row in json.loads(first.out)] == ["written", "loaded"]
    assert [row["cache"] for row in json.loads(again.out)] == ["loaded", "loaded"]
    assert "cache loaded" in pinnace("--log", "text", "run", data(MODEL)).err


def test_without_a_cache_it_fails(monkeypatch, pinnace):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    answer = pinnace("compile", data(MODEL))
    assert answer.code == 1
    assert "off" in answer.out
    assert not answer.out.startswith(("[", "{"))  # JSON is for those who ask for it


def test_a_cache_for_readers(tmp_path, pinnace):
    """Modes do not depend on the umask, and folders of people are left alone."""
    papers = tmp_path / "papers"
    before = os.umask(0o077)
    try:
        assert pinnace("compile", data(MODEL), "--to", tmp_path / "a" / "image").code == 0
        papers.mkdir()
        (papers / "mine").touch()
        refused = pinnace("compile", data(MODEL), "--to", papers)
    finally:
        os.umask(before)
    places = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in places if path.is_dir()} == {0o755}
    assert {stat.S_IMODE(path.stat().st_mode) for path in places if path.is_file()} == {0o644}
    assert len(list((tmp_path / "a" / "image" / "entries").iterdir())) == 1
    assert (refused.code, stat.S_IMODE((papers / "mine").stat().st_mode)) == (1, 0o600)
    assert "papers is neither empty nor a cache of Pinnace" in refused.err
