"""Settings of measurements out of the options of `pinnace bench` and `tune`."""

from __future__ import annotations

import pytest
import typer

from pinnace.cli import settings as of_options
from pinnace.cli.settings import Case, Setting, counted, counts, in_turn, settings


@pytest.mark.parametrize(
    ("given", "turns"),
    [
        ([], [()]),
        (["2,3"], [("2,3",)]),
        (["a=1", "a=2", "b=7"], [("a=1", "b=7"), ("a=2", "b=7")]),
        (["1..6,128"], [("1,128",), ("2,128",), ("4,128",), ("6,128",)]),
        (["x=1..8"], [("x=1",), ("x=2",), ("x=4",), ("x=8",)]),
        (["3..20"], [("3",), ("6",), ("12",), ("20",)]),
        (["5..5"], [("5",)]),
        (["1..2,1..2"], [("1,1",), ("1,2",), ("2,1",), ("2,2",)]),
    ],
)
def test_shapes_are_taken_in_turn_and_ranges_by_doubling(given, turns):
    assert in_turn(given) == turns


@pytest.mark.parametrize("text", ["0..4", "4..3", "a=0..0"])
def test_a_range_without_sizes_is_wrong_use(text):
    with pytest.raises(typer.BadParameter, match=r"the range .* has no sizes"):
        in_turn([text])


def test_numbers_are_distinct_and_by_default_one_and_all_cores(monkeypatch):
    monkeypatch.setattr(of_options, "usable_core_count", lambda: 4)
    assert counts("--threads", None, 1) == [1, 4]
    assert counts("--threads", "4,1,4", 1) == [4, 1]
    monkeypatch.setattr(of_options, "usable_core_count", lambda: 1)
    assert counts("--threads", None, 1) == [1]
    with pytest.raises(typer.BadParameter, match="--threads 2,0: every number must be at least 1"):
        counts("--threads", "2,0", 1)
    with pytest.raises(typer.BadParameter, match="expected whole numbers"):
        counts("--threads", "2,", 1)


def test_one_caller_comes_first_then_clients_then_rates():
    case = Case(("1,3",), 2)
    assert settings(["1,3"], "2", "0,1", "1,2", "0,5", "10,10,0.5") == [
        Setting(case, 0),
        Setting(case, 1),
        *(Setting(case, threads, workers, 5) for threads in (0, 1) for workers in (1, 2)),
        *(
            Setting(case, threads, workers, 0, rate)
            for threads in (0, 1)
            for workers in (1, 2)
            for rate in (10.0, 0.5)
        ),
    ]
    assert settings([], None, "0", "1", "0", None) == [Setting(Case(), 0)]


@pytest.mark.parametrize("rate", ["0", "-1", "inf", "nan", "1,x"])
def test_a_rate_is_a_number_above_0(rate):
    with pytest.raises(typer.BadParameter, match="expected numbers above 0"):
        settings([], None, "0", "1", "0", rate)


def test_a_setting_is_said_in_words():
    case = Case(("x=1,3",), 2)
    assert [counted(number, "core") for number in (0, 1, 2)] == ["", "1 core", "2 cores"]
    assert str(case) == "x=1,3, batch 2"
    assert str(Setting(case, 0)) == "x=1,3, batch 2, automatic threads, one caller"
    assert str(Setting(Case(), 1, 2, clients=5)) == "2 workers, 1 thread, 5 clients"
    assert str(Setting(Case(), 2, 1, rate=0.5)) == "1 worker, 2 threads, at 0.5/s"
