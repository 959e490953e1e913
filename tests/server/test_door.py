"""The time of a request through a server's own door, with a client and a clock of the test."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pinnace.server import door

MODEL = SimpleNamespace(name="a/b", inputs=[SimpleNamespace(name="x")], zeros=[np.zeros((2, 3), np.float32)])


class Client:
    """A connection whose answers take the seconds given; it has no answer after them."""

    def __init__(self, monkeypatch, seconds: list[float], status: int) -> None:
        self.left, self.status, self.now, self.asked = list(seconds), status, 50.0, []
        monkeypatch.setattr(door, "perf_counter", lambda: self.now)

    def request(self, *words) -> None:
        self.asked.append(words)
        if not self.left:
            raise OSError("closed")

    def getresponse(self) -> SimpleNamespace:
        self.now += self.left.pop(0)
        return SimpleNamespace(status=self.status, read=lambda: b"")


@pytest.mark.parametrize(
    ("seconds", "status", "asked", "milliseconds"),
    [
        ([0.5] + [0.002] * 9 + [9], 200, 2, 2),
        ([0.01] * 9 + [0.004, 9], 200, 10, 4),
        ([0.01, 0.02, 0.5, 9], 200, 3, 500),
        ([0.01] * 10, 400, 10, 0),
        ([], 200, 1, 0),
    ],
)
def test_the_time_is_that_of_the_last_answer(monkeypatch, seconds, status, asked, milliseconds):
    client = Client(monkeypatch, seconds, status)
    assert door.milliseconds(client, MODEL, "secret") == pytest.approx(milliseconds)
    assert len(client.asked) == asked
    method, path, body, headers = client.asked[0]
    assert (method, path, headers["Authorization"]) == ("POST", "/v2/models/a%2Fb/infer", "Bearer secret")
    assert len(body) == int(headers["Inference-Header-Content-Length"]) + 24
