"""Reference files: numpy's, and the text of MindSpore Lite's benchmark tool."""

import numpy as np
import pytest

from pinnace.bench import references
from pinnace.errors import ArgumentValueError

A, B = np.arange(6.0).reshape(2, 3), np.array([0.5])


def test_calibration_data_is_two_lines_an_output():
    found = references.calibration("prob 2 2 3\n0 1 2 3 4 5 \nDefault/head-op12 1 1\n5e-1\n")
    assert list(found) == ["prob", "Default/head-op12"]
    np.testing.assert_array_equal(found["prob"], A)
    np.testing.assert_array_equal(found["Default/head-op12"], B)


def test_values_may_go_on_over_lines_and_a_scalar_has_no_dimensions():
    found = references.calibration("a 2 2 3\n0 1 2\n3 4 5\n\ns 0\n-7\ne 2 0 4\n")
    np.testing.assert_array_equal(found["a"], A)
    assert (found["s"].shape, float(found["s"])) == ((), -7)
    assert found["e"].shape == (0, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prob 2 1\n1", "line 1: .*found 'prob 2 1'"),
        ("prob\n1", "line 1: "),
        ("prob 1 -1\n1", "line 1: "),
        ("prob 1 two\n1", "line 1: "),
        ("a 1 1\n1\nb 1 3\n1 2", "line 3: expected 3 values of 'b', but found 2"),
        ("a 1 2\n1 2 3", "line 2: expected 2 values of 'a', but found more"),
        ("a 1 2\n1 x", "line 2: could not convert"),
        ("a 1 1\n1\na 1 1\n2", "line 3: 'a' is given twice"),
    ],
)
def test_damaged_calibration_data_is_refused_with_its_line(tmp_path, text, message):
    path = tmp_path / "calibration.bin"
    path.write_text(text)
    with pytest.raises(ArgumentValueError, match=f"(?s)calibration.bin.*{message}"):
        references.read(path)


def test_arrays_of_numpy_are_read(tmp_path):
    np.savez(tmp_path / "r.npz", a=A, b=B)
    np.save(tmp_path / "r.npy", A)
    found = references.read(tmp_path / "r.npz")
    np.testing.assert_array_equal(found["a"], A)
    np.testing.assert_array_equal(found["b"], B)
    np.testing.assert_array_equal(references.read(tmp_path / "r.npy")[""], A)


@pytest.mark.parametrize("name", ["r.npz", "r.npy", "r.txt"])
def test_what_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(ArgumentValueError, match=name):
        references.read(tmp_path / name)
    (tmp_path / name).write_bytes(b"\xff\xfe\x00nothing of the kind")
    with pytest.raises(ArgumentValueError, match=name):
        references.read(tmp_path / name)


def test_references_go_by_name_else_by_order():
    assert references.assign({"b": B}, ["a", "b"]) == {"b": B}
    ordered = references.assign({"arr_0": A, "arr_1": B}, ["x", "y"])
    assert ordered["x"] is A
    assert ordered["y"] is B
    assert references.assign({"": A}, ["only"])["only"] is A


@pytest.mark.parametrize("given", [{}, {"": A}, {"a": A, "c": B, "d": B}])
def test_references_that_fit_no_outputs_are_refused(given):
    with pytest.raises(ArgumentValueError, match="the outputs are 'a', 'b'"):
        references.assign(given, ["a", "b"])
