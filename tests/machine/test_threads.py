"""The number of threads that a process may have: the lowest of several limits, which is named."""

import pytest

from pinnace.machine import threads


@pytest.mark.parametrize(
    ("kernel", "memory", "pids", "most"),
    [
        (3000, 1 << 40, "max", (3000, "kernel.threads-max")),
        (3000, 1 << 33, "max", (1024, "usable memory, for stacks of 8 MiB")),
        (3000, 1 << 40, "50", (50, "pids.max")),
    ],
)
def test_the_lowest_limit_counts(monkeypatch, tmp_path, kernel, memory, pids, most):
    (tmp_path / "threads-max").write_text(f"{kernel}\n")
    (tmp_path / "pids.max").write_text(f"{pids}\n")
    monkeypatch.setattr(threads, "_KERNEL", tmp_path)
    monkeypatch.setattr(threads, "folders", lambda _: [tmp_path])
    monkeypatch.setattr(threads, "usable_memory", lambda: memory)
    monkeypatch.setattr(threads, "getrlimit", lambda _: (-1, -1))
    assert threads.most_threads() == most
