"""Changes of the code by which `python -m tests.mutants` tries the tests."""

from __future__ import annotations

import pytest
from tests.mutants.changes import changes, chosen

MODULE = '''
"""What it says of itself is no code: 1 + 1."""
TABLE = {"a": 1, "b": 2}


def least(x: int = 3) -> int:
    if x < 3 and not x:
        raise ValueError("x - 1 is text")
    watch(f"step {x} of", 1)
    return x.reshape(-1)


def __repr__(self):
    return self.x < 3
'''


def test_each_change_is_one_place_of_code(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    every = changes(path)
    texts = [change.apply() for change in every]
    assert len({*texts}) == len(texts) == 11
    for expected in ("x <= 3", "x < 3 or", "and x", "return None"):
        assert sum(expected in text for text in texts) == 1, expected
    assert sum("'a'" not in text for text in texts) == 1
    assert all("1 + 1" in text and "x - 1" in text for text in texts)


def test_tests_of_what_only_processes_run_are_those_that_name_its_module(tmp_path):
    data = pytest.importorskip("coverage").CoverageData(str(tmp_path / "map"))
    from tests.mutants.__main__ import PACKAGE, Tests  # imports coverage

    starter, name = PACKAGE / "serving" / "processes.py", "tests/serving/test_processes.py::test_one[a (b)]"
    starts = next(i for i, x in enumerate(starter.read_text().splitlines(), 1) if ".device_process" in x)
    data.set_context(f"{name}|run")
    data.add_lines({str(starter): [starts]})
    data.write()
    (change, *_) = changes(PACKAGE / "serving" / "device_process.py")
    found = Tests(tmp_path / "map", seed=1).of(change)
    assert {name, "tests/test_mutants.py"} <= {*found}
    assert not any(each.startswith("tests/ops/") for each in found)


def test_what_a_module_runs_on_import_is_for_all_of_its_tests_to_notice(tmp_path):
    data = pytest.importorskip("coverage").CoverageData(str(tmp_path / "map"))
    from tests.mutants.__main__ import PACKAGE, Tests  # imports coverage

    module = PACKAGE / "images.py"
    every = changes(module)
    inside, outside = (
        next(change for change in every if module.read_text().splitlines()[change.lines[0] - 1].startswith(s))
        for s in ("    ", "def ")
    )
    first, second = "tests/test_images.py::test_first", "tests/test_images.py::test_second"
    data.set_context(f"{first}|run")
    data.add_lines({str(module): [1, outside.lines[0]]})
    data.set_context(f"{second}|run")
    data.add_lines({str(module): [inside.lines[0]]})
    data.write()
    tests = Tests(tmp_path / "map", seed=1)
    assert tests.of(inside) == [second]
    assert {first, second} <= {*tests.of(outside)}


def test_one_seed_chooses_the_same_changes(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    first = chosen([path], 4, seed=5)
    assert first == chosen([path], 4, seed=5) != chosen([path], 4, seed=6)
    assert len({(change.lines[0], change.text) for change in first}) == 4
