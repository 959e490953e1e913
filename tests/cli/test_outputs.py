"""Outputs as lines, as JSON and as files, and their highest classes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinnace import Tensor
from pinnace.cli import outputs
from pinnace.errors import ArgumentValueError
from pinnace.ranking import Ranked


def tensor(name, array):
    made = Tensor(np.asarray(array))
    made.name = name
    return made


def test_no_more_than_fifty_values_are_shown(capsys):
    outputs.show([tensor("y", np.arange(60)), tensor("a\nb", np.float32([0.5]))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tensor's name is:y data size is:480 tensor elements num is:60"
    assert lines[1] == "tensor's shape is:[60] data type is:INT64"
    assert lines[2] == f"output data is: {' '.join(map(str, range(50)))}"
    assert lines[3].startswith(r"tensor's name is:a\nb data size is:4")
    assert outputs.first_values(tensor("y", np.arange(60))) == list(range(50))


def test_json_has_words_for_what_is_not_finite():
    values = outputs.first_values(tensor("y", np.array([[math.nan, math.inf], [-math.inf, 0.5]])))
    assert values == ["nan", "inf", "-inf", 0.5]
    assert outputs.facts(tensor("y", np.zeros((2, 3), np.float16))) == {
        "name": "y", "shape": [2, 3], "dtype": "FLOAT16", "size": 12, "elements": 6,
    }  # fmt: skip


def test_each_output_has_a_file_of_its_name_and_none_is_an_input(tmp_path):
    given = [tensor("a/b:0", [1.5]), tensor("c.d-e", np.array(["x", "yz"]))]
    paths = outputs.save(tmp_path / "new" / "deep", given, [])
    assert [path.name for path in paths] == ["a_b_0.npy", "c.d-e.npy"]
    assert [np.load(path).tolist() for path in paths] == [[1.5], ["x", "yz"]]
    assert len(list(paths[0].parent.iterdir())) == 2
    with pytest.raises(ArgumentValueError, match="two outputs would both be written to the same file"):
        outputs.save(tmp_path, [tensor("a/b", [1]), tensor("a:b", [1])], [])
    with pytest.raises(Exception, match=r"a_b_0\.npy"):
        outputs.save(paths[0].parent, given, [paths[0]])
    assert np.load(paths[0]).tolist() == [1.5]


def test_classes_are_those_of_outputs_with_a_value_for_each(capsys):
    given = [tensor("scores", [[0.25, 0.5], [3, 1]]), tensor("other", [1, 2, 3]), tensor("one", [7, 8])]
    best = outputs.best_classes(given, ["cat", "dog"])
    assert list(best) == ["scores", "one"]
    outputs.show_classes(best)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "highest of scores, row 0", "label index value", "dog 1 0.5", "cat 0 0.25",
        "highest of scores, row 1", "label index value", "cat 0 3", "dog 1 1",
        "highest of one", "label index value", "dog 1 8", "cat 0 7",
    ]  # fmt: skip
    (row,) = outputs.classes_as_json({"one": [[Ranked("dog", 1, 8.0)]]})["best"]["one"]
    assert row == [{"label": "dog", "index": 1, "value": 8.0}]
    assert outputs.classes_as_json({}) == {}
    with pytest.raises(
        ArgumentValueError, match=r"no output has 4 values in its last dimension.*'other' \[3\]"
    ):
        outputs.best_classes(given, list("abcd"))
