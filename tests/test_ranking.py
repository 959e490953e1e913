"""Names of classes, and the highest values of a result."""

from __future__ import annotations

import numpy as np
import pytest

from pinnace import Tensor
from pinnace.errors import ArgumentValueError
from pinnace.ranking import Ranked, fits, labels, read

NAMES = ["cat", "dog", "cow"]


def test_each_row_has_its_highest_classes_first():
    array = np.array([[1, 3, 2], [9, -1, 8]], np.float32)
    assert labels(array, NAMES, 2) == [
        [Ranked("dog", 1, 3.0), Ranked("cow", 2, 2.0)],
        [Ranked("cat", 0, 9.0), Ranked("cow", 2, 8.0)],
    ]
    assert labels(Tensor(array), NAMES, 2) == labels(array[:, None], NAMES, 2) == labels(array, NAMES, 2)
    assert [one.label for one in labels(array[0], NAMES)[0]] == ["dog", "cow", "cat"]
    many = np.arange(9.0)
    assert [one.index for one in labels(many, [str(n) for n in range(9)])[0]] == [8, 7, 6, 5, 4]


@pytest.mark.parametrize(
    ("array", "is_right"),
    [
        (np.zeros((2, 3), np.int8), True),
        (np.zeros((2, 3), np.uint8), True),
        (np.zeros(3, np.float16), True),
        (np.zeros((2, 3), bool), False),
        (np.zeros((3, 2)), False),
        (np.zeros(()), False),
    ],
)
def test_a_result_has_a_number_for_each_name(array, is_right):
    assert fits(array, NAMES) is is_right
    assert not fits(array, [])
    if not is_right:
        with pytest.raises(ArgumentValueError, match="3 names need as many numbers in the last dimension"):
            labels(array, NAMES)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.txt", "cat\ndog\ncow\n"),
        ("l", "cat\ndog\ncow"),
        ("l.txt", "\ufeffcat\r\ndog\r\ncow\r\n\r\n\n"),
        ("l.json", '\ufeff["cat", "dog", "cow"]'),
        ("l.json", '["cat", "dog", "cow"]'),
        ("l.json", '{"0": "cat", "2": "cow", "1": "dog"}'),
    ],
)
def test_names_are_lines_a_list_or_an_object_by_number(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert read(tmp_path / name) == NAMES
    assert [one.label for one in labels(np.arange(3), str(tmp_path / name), 1)[0]] == ["cow"]


@pytest.mark.parametrize(
    "text",
    [
        '{"cat": 0}',
        '{"id2label": {"0": "cat"}}',
        '"a"',
        '[null, "b"]',
        '{"0": ["n01", "cat"]}',
        '[["a"], "b"]',
    ],
)
def test_json_of_another_form_is_told_which_is_needed(tmp_path, text):
    (tmp_path / "l.json").write_text(text)
    with pytest.raises(ArgumentValueError, match=r"JSON has a list of names.* or an object by number"):
        read(tmp_path / "l.json")


@pytest.mark.parametrize("text", ["{", '{"1": "cat"}', "7", "null", '{"0": "a", "2": "b"}'])
def test_what_has_no_names_is_refused(tmp_path, text):
    (tmp_path / "l.json").write_text(text)
    with pytest.raises(ArgumentValueError, match="cannot be read as labels"):
        read(tmp_path / "l.json")
