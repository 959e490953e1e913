from __future__ import annotations

import os
import signal

import pytest

SECONDS = 90  # after which a test hangs, on a machine that does other things too


@pytest.fixture(autouse=True)
def _ends():
    """A test that hangs fails, and what it has started is ended."""

    def ring(*_):
        raise TimeoutError(f"the test has not ended in {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session", autouse=True)
def _private():
    """Ray reports to nobody, joins nothing that happens to run here, and leaves no token in a home folder."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ADDRESS="local", RAY_AUTH_MODE="disabled")
