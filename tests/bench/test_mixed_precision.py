"""Searches for forms with fewer bits of a model whose errors and times are known for each operator."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pinnace.bench import mixed_precision
from pinnace.bench.mixed_precision import Search, Tried, _Group, _milliseconds, _split, _within
from pinnace.quantization.accuracy import Likeness
from pinnace.quantization.scheme import QuantizationScheme

NAMES = [f"n{i}" for i in range(16)]
ALL = dict.fromkeys(NAMES, 0.001)
BOUND = 0.02


class Known(Search):
    """A search in which each operator takes 1 ms in float32, and `made` has the others' times and errors."""

    def __init__(self, made, deadline=math.inf):
        self.made, self.tries = made, []
        super().__init__("net.onnx", "", [[]], BOUND, 2, deadline, lambda _: None)

    def _names(self, method):
        return NAMES

    def _ranges_for(self, method):
        return {}

    def _tried(self, setup, timed=True):
        if not setup.form:
            return Tried(setup, 16.0, Likeness(0.0, 1.0, 1.0))
        form = QuantizationScheme.of(setup.form)
        self.tries.append((form, setup.provider, setup.precision))
        ms, squares = 0.0, 0.0
        for name in NAMES:
            method = form.rest if name in form.kept else form.method
            key = (method, setup.provider, setup.precision)
            if method and key not in self.made:
                return None
            its_ms, errors = self.made[key] if method else (1.0, {name: 0.0})
            ms, squares = ms + its_ms, squares + errors[name] ** 2
        return Tried(setup, ms if timed else math.inf, Likeness(math.sqrt(squares), 1.0, 1.0))


@pytest.fixture
def searched(monkeypatch):
    """Search, and return the search and the forms with their times."""

    def search(made, installed=("onnxruntime", "openvino"), bits16="bfloat16", **options):
        monkeypatch.setattr(mixed_precision.engines, "installed", lambda: dict.fromkeys(installed))
        monkeypatch.setattr(mixed_precision, "sixteen_bit_type", lambda: bits16)
        known = Known(made, **options)
        found = [(QuantizationScheme.of(one.setup.form), one.ms) for one in known.found()]
        return known, [(form.method, form.kept, form.rest, round(ms, 6)) for form, ms in found]

    return search


PLAIN = ("onnxruntime", "enforce_fp32")


@pytest.mark.parametrize(
    ("ms", "error", "is_found"),
    [(0.5, 0.001, True), (0.94, 0.001, True), (0.96, 0.001, False), (0.5, 0.0049, True), (0.5, 1.0, False)],
)
def test_a_whole_form_is_found_if_it_is_faster_by_a_twentieth_within_the_error(searched, ms, error, is_found):
    _, found = searched({("weights8", *PLAIN): (ms, dict.fromkeys(NAMES, error))})
    assert found == ([("weights8", (), "", round(16 * ms, 6))] if is_found else [])


def test_operators_that_err_too_much_are_left_as_they_are(searched):
    _, found = searched({("dynamic8", *PLAIN): (0.25, ALL | {"n3": 0.5, "n10": 0.3})})
    assert found == [("dynamic8", ("n3", "n10"), "", 14 * 0.25 + 2)]


def test_what_is_left_has_the_fastest_form_within_the_error(searched):
    made = {
        ("int8", *PLAIN): (0.25, ALL | {"n3": 0.5}),
        ("weights8", *PLAIN): (0.5, dict.fromkeys(NAMES, 0.001)),
        ("weights4", *PLAIN): (0.4, dict.fromkeys(NAMES, 1.0)),
    }
    _, found = searched(made)
    assert found == [("weights8", (), "", 8.0), ("int8", ("n3",), "weights8", 4.25)]


def test_forms_that_cannot_beat_the_best_are_not_mixed(searched):
    made = {
        ("weights8", *PLAIN): (0.125, ALL),
        ("dynamic8", *PLAIN): (0.12, ALL | {"n3": 0.5}),
        ("weights4", "openvino", "enforce_fp32"): (0.1, ALL),
    }
    known, found = searched(made)
    assert found == [
        ("weights8", (), "", 2.0),
        ("dynamic8", ("n3",), "weights8", round(15 * 0.12 + 0.125, 6)),
    ]
    del made["weights8", *PLAIN]
    made["weights8", "openvino", "enforce_fp32"] = made["held8", "openvino", "enforce_fp32"] = (0.125, ALL)
    known, found = searched(made)
    assert found == [("held8", (), "", 2.0)]
    assert all(not form.kept for form, _, _ in known.tries)


@pytest.mark.parametrize(("ms", "is_kept"), [(0.13, True), (0.15, False)])
def test_a_mixed_form_is_kept_up_to_a_tenth_above_the_best_time(searched, ms, is_kept):
    made = {("weights8", *PLAIN): (0.125, ALL), ("dynamic8", *PLAIN): (ms, ALL | {"n3": 0.5})}
    assert len(searched(made)[1]) == 1 + is_kept  # 2.075 and 2.375 ms beside 2 ms


def test_operators_that_err_more_together_than_alone_are_taken_back(monkeypatch):
    class Together(Known):
        def _tried(self, setup, timed=True):
            made = super()._tried(setup, timed)
            if made is None or not setup.form or len(QuantizationScheme.of(setup.form).kept) > 8:
                return made
            return replace(made, closeness=replace(made.closeness, error=1.5 * made.closeness.error))

    monkeypatch.setattr(mixed_precision.engines, "installed", lambda: {"onnxruntime": None})
    known = Together({("dynamic8", *PLAIN): (0.25, dict.fromkeys(NAMES, 0.0055))})
    (found,) = known.found()
    form = QuantizationScheme.of(found.setup.form)
    # 10 operators are within 0.9 of the bound by their sum, and 6 in fact
    assert (form.share, len(form.kept), found.closeness.error <= BOUND) == (6 / 16, 10, True)


def test_nothing_is_mixed_after_the_deadline(searched):
    made = {("dynamic8", *PLAIN): (0.25, ALL | {"n3": 0.5})}
    assert searched(made, deadline=-math.inf)[1] == []


@pytest.mark.parametrize(
    ("installed", "bits16", "expected"),
    [
        (("onnxruntime",), "bfloat16", {("onnxruntime", "enforce_fp32"): 4}),
        (("openvino",), "", {("openvino", "enforce_fp32"): 3}),
        (("openvino",), "float16", {("openvino", "enforce_fp32"): 3, ("openvino", "preferred_fp16"): 2}),
    ],
)
def test_methods_are_tried_on_the_engines_that_are_there_and_16_bits_where_the_processor_has_them(
    searched, installed, bits16, expected
):
    known, found = searched({}, installed, bits16)
    counts = {}
    for _, provider, precision in known.tries:
        counts[provider, precision] = counts.get((provider, precision), 0) + 1
    assert (counts, found) == (expected, [])


def test_with_16_bits_the_rest_of_the_model_errs_too(searched):
    key = ("bits16", "openvino", "preferred_fp16")

    class Halved(Known):
        def _tried(self, setup, timed=True):
            made = super()._tried(setup, timed)
            if not setup.form or made is None:
                return made
            error = math.hypot(made.closeness.error, 0.019)  # of what is no product
            return replace(made, closeness=replace(made.closeness, error=error))

    made = {key: (0.25, dict.fromkeys(NAMES, 0.002))}
    assert searched(made)[1] == [("bits16", (), "", 4.0)]
    known = Halved(made)
    (found,) = known.found()
    form = QuantizationScheme.of(found.setup.form)
    assert 0 < len(form.kept) < 16
    assert found.closeness.error <= BOUND
    assert form.share == 1 - len(form.kept) / 16


def test_groups_with_the_least_error_an_operator_come_first_within_the_error():
    one, two, many = _Group(("a",), 0.3), _Group(("b", "c"), 0.36), _Group(tuple("defg"), 0.4)
    assert _within([one, two, many], 1.0) == [many, two, one]
    # 0.9 of the bound, as sums are estimates
    assert _within([one, two, many], math.hypot(0.4, 0.36) / 0.9 + 1e-9) == [many, two]
    assert _within([one, two, many], math.hypot(0.4, 0.36) / 0.9 - 1e-9) == [many, one]
    assert _within([one], 0.3 / 0.9 - 1e-9) == _within([], 1.0) == []


def test_groups_are_split_into_neighbors():
    assert _split([list("abcde")], 2) == [["a", "b", "c"], ["d", "e"]]
    assert _split([["a"], ["b", "c", "d"]], 2) == [["a"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(("seconds", "runs"), [(1.0, 5), (0.01, 10)])
def test_a_time_is_the_least_of_five_runs_or_a_tenth_of_a_second(monkeypatch, seconds, runs):
    times = itertools.accumulate(itertools.chain([0.0], itertools.repeat(seconds)))
    calls = []
    monkeypatch.setattr(mixed_precision, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    assert _milliseconds(lambda: calls.append(1)) == pytest.approx(seconds * 1e3)
    assert len(calls) == pytest.approx(runs, abs=1)
