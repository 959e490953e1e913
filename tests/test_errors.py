"""Errors: the classes of Python that they are as well, their messages, and their way to other processes."""

from __future__ import annotations

import pickle
import warnings

import pytest

from pinnace import errors
from pinnace.errors import LackingKernelsError, PinnaceError, UnsupportedModelError, UnsupportedPrimitive

ROWS = [UnsupportedPrimitive("Foo", 2, "n\n1", "is not known"), UnsupportedPrimitive("Bar", 1, "m", "is odd")]


@pytest.mark.parametrize("kind", [UnsupportedModelError, LackingKernelsError])
def test_a_list_of_unsupported_primitives_reaches_another_process(kind):
    sent = pickle.loads(pickle.dumps(kind("m.onnx", ROWS)))
    assert type(sent) is kind
    assert (sent.model, list(sent.primitives)) == ("m.onnx", ROWS)
    assert str(sent) == str(kind("m.onnx", ROWS))
    first, foo, _bar, last = str(sent).splitlines()
    assert first == "m.onnx uses 2 unsupported primitive(s):"
    assert foo.startswith("  Foo x2, first at node")
    assert last == "Change these in the model, and export it again."


def test_shapes_of_inputs_that_would_help_are_asked_for():
    row = UnsupportedPrimitive("Foo", 1, "n", "is known only by shapes of the inputs")
    assert "--inputShape" in str(UnsupportedModelError("m", [row, row]))
    assert "--inputShape" not in str(UnsupportedModelError("m", [row, *ROWS]))


def test_uses_of_a_primitive_are_counted_by_reason_the_most_used_first():
    uses = [("A", "why", "n1"), ("B", "why", "n2"), ("B", "why", "n3"), ("B", "other", "n4")]
    assert UnsupportedPrimitive.counted(uses) == [
        UnsupportedPrimitive("B", 2, "n2", "why"),
        UnsupportedPrimitive("A", 1, "n1", "why"),
        UnsupportedPrimitive("B", 1, "n4", "other"),
    ]


def test_messages_are_in_one_line_whatever_names_are_in_them():
    assert str(errors.ConfigError("a\nb\x1b[2J")) == r"a\nb\x1b[2J"
    assert isinstance(errors.ConfigError("x"), PinnaceError)


def test_warnings_point_at_the_caller_and_can_be_collected():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        errors.warn("once\nmore")
        with errors.collected_warnings() as messages:
            errors.warn("withheld")
    (only,) = found
    assert (str(only.message), only.category) == (r"once\nmore", errors.PinnaceWarning)
    assert only.filename == __file__
    assert messages == ["withheld"]


@pytest.mark.parametrize(
    ("name", "end"),
    [("Layers", "; did you mean 'layer'?"), ("LAYER", "; did you mean 'layer'?"), ("xyz", "")],
)
def test_the_most_similar_name_is_suggested(name, end):
    assert errors.did_you_mean(name, ["layer", "input", "output"]) == end
