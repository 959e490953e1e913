"""The caches as Linux describes them."""

from pinnace.machine import caches

CACHES = (
    ("1", "Data", "48K", "2"), ("1", "Instruction", "32K", "2"), ("2", "Unified", "1024K", "2"),
    ("3", "Unified", "32768K", "0-2,6-7"),
)  # fmt: skip


def test_each_cache_has_its_size_and_its_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(caches, "CPUS", tmp_path)
    monkeypatch.setattr(caches, "allowed_cores", lambda: (2, 3))
    for index, facts in enumerate(CACHES):
        folder = tmp_path / "cpu2" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, fact in zip(("level", "type", "size", "shared_cpu_list"), facts, strict=True):
            (folder / name).write_text(fact + "\n")
    (tmp_path / "cpu2" / "cache" / "index4").mkdir()  # without the files
    assert list(map(str, caches.caches())) == [
        "L1d 48 KiB", "L1i 32 KiB", "L2 1 MiB", "L3 32 MiB for 5 cores",
    ]  # fmt: skip
    monkeypatch.setattr(caches, "CPUS", tmp_path / "none")
    assert caches.caches() == []
