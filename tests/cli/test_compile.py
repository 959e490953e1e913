"""`pinnace compile`."""

import json

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
