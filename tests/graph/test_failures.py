"""Limits of what a file may ask lowerings to make."""

import pytest

from pinnace.graph.failures import Unsupported, room, span


def test_sizes_of_real_models_pass():
    assert room(1024, 1024) == (1024, 1024)
    assert (room(), room(0, 1 << 20), room(1 << 25)) == ((), (0, 1 << 20), (1 << 25,))
    assert (span(-3), span(1 << 25)) == (-3, 1 << 25)


@pytest.mark.parametrize("dims", [((1 << 25) + 1,), (1 << 13, 1 << 13), (0, 1 << 26), (-1, 2)])
def test_sizes_that_nobody_has_are_refused(dims):
    with pytest.raises(Unsupported, match="impossible or too large"):
        room(*dims)
