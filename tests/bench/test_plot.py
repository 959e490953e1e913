"""Plots: the points that a line joins, the parts, and the scales of their axes."""

from __future__ import annotations

import numpy as np
import pytest

from pinnace.bench.plot import Drawing, Point, draw, front


def test_the_front_has_the_points_that_no_other_beats():
    points = [Point("a", 10, 5), Point("b", 20, 8), Point("c", 15, 9), Point("d", 20, 7), Point("e", 10, 6)]
    assert [one.name for one in front(points)] == ["a", "d"]
    assert front([]) == []


@pytest.fixture
def axes(monkeypatch, tmp_path):
    """Draw, and return the axes."""
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path, format: drawn.append((self, format)))

    def made(**parts):
        draw(tmp_path / "plot.svg", Drawing("title", "machine", **parts))
        figure_, format_ = drawn.pop()
        assert format_ == "svg"
        return figure_.axes

    return made


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_latencies_are_histograms_over_one_axis_with_their_percentiles(axes):
    times = np.arange(1.0, 12.0)
    (ax,) = axes(latencies={"a": times, "b": times + 2})
    assert ax.get_xscale() == "linear"
    assert texts(ax) == ["a: p50 6, p99 10.9", "b: p50 8, p99 12.9"]  # of numpy.percentile
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([6, 10.9, 8, 12.9])
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--"] * 2
    assert [line.get_color() for line in ax.lines] == ["C0", "C0", "C1", "C1"]
    assert sum(patch.get_height() for patch in ax.patches) == 2 * len(times)
    assert ax.patches[0].get_x() == 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("latency, ms", "predictions")


@pytest.mark.parametrize(
    ("least", "largest", "scale"), [(1.0, 20.0, "linear"), (1.0, 20.1, "log"), (0.0, 20.1, "linear")]
)
def test_an_axis_of_wide_values_is_logarithmic(axes, least, largest, scale):
    times = np.array([least, 2.0, largest])
    points = {"a": [Point("p", least, least), Point("q", largest, largest)]}
    latencies, curve = axes(latencies={"a": times}, points=points)
    assert latencies.get_xscale() == curve.get_xscale() == curve.get_yscale() == scale
    first, second = (latencies.patches[place].get_width() for place in (0, 1))
    assert (second > first * 1.01) == (scale == "log")
    if scale == "linear":
        assert curve.get_xlim()[0] == curve.get_ylim()[0] == 0


def test_throughput_is_a_line_for_each_setting_with_a_tick_for_each_number_of_workers(axes):
    (ax,) = axes(throughputs={"a": [(1, 10.0), (4, 30.0)], "b": [(2, 15.0)]}, counted="rows")
    assert [list(line.get_ydata()) for line in ax.lines] == [[10, 30], [15]]
    assert texts(ax) == ["a", "b"]
    assert list(ax.get_xticks()) == [1, 2, 4]
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylabel() == "rows per second"


def test_a_curve_names_the_points_of_its_front(axes):
    points = {"a": [Point("slow", 5.0, 9.0), Point("first", 4.0, 2.0)], "b": [Point("second", 8.0, 3.0)]}
    (ax,) = axes(points=points)
    assert [text.get_text() for text in ax.texts] == ["first", "second"]
    assert [list(line.get_xdata()) for line in ax.lines] == [[4, 8]]
    assert [list(line.get_ydata()) for line in ax.lines] == [[2, 3]]
    assert texts(ax) == ["a", "b", "best trade-offs"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predictions per second", "p99, ms")


def test_a_plot_through_a_link_has_the_format_of_the_links_name(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "plot.svg").symlink_to(tmp_path / "kept.data")
    latencies = {"m": np.linspace(1, 2, 9)}
    draw(tmp_path / "plot.svg", Drawing("title", "machine", latencies=latencies))
    assert "<svg" in (tmp_path / "kept.data").read_text()
