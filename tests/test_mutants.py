"""Changes of the code by which `python -m tests.mutants` tries the tests."""

from __future__ import annotations

from tests.mutants.changes import changes, chosen

MODULE = '''
"""What it says of itself is no code: 1 + 1."""
ROWS = """
    Twice: x -> x + x * 2
"""
TABLE = {"a": 1, "b": 2}


def least(x: int = 3) -> int:
    if x < 3 and not x:
        raise ValueError("x - 1 is text")
    return x
'''


def test_each_change_is_one_place_of_code(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    every = changes(path)
    texts = [change.apply() for change in every]
    assert len({*texts}) == len(texts) == 14
    for expected in ("x <= 3", "x < 3 or", "and x", "x - x * 2", "x + x + 2", "x + x * 3", "return None"):
        assert sum(expected in text for text in texts) == 1, expected
    assert sum("'a'" not in text for text in texts) == 1
    assert all("1 + 1" in text and "x - 1" in text for text in texts)


def test_one_seed_chooses_the_same_changes(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    first = chosen([path], 4, seed=5)
    assert first == chosen([path], 4, seed=5) != chosen([path], 4, seed=6)
    assert len({(change.lines[0], change.text) for change in first}) == 4
