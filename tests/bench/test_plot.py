"""The points of a plot that its line joins."""

from pinnace.bench.plot import Point, front


def test_the_front_has_the_points_that_no_other_beats():
    points = [Point("a", 10, 5), Point("b", 20, 8), Point("c", 15, 9), Point("d", 20, 7), Point("e", 10, 6)]
    assert [one.name for one in front(points)] == ["a", "d"]
    assert front([]) == []
