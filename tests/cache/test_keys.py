"""Keys of compiled models, and the digests of files that were read before."""

from __future__ import annotations

import pytest

from pinnace.cache import key
from pinnace.cache.store import Store
from pinnace.options.target import Target
from pinnace.weights.digest import digest

TARGET = Target(precision="enforce_fp32")
MADE_FOR = ("engine 1", TARGET, (), {}, ())
NOW = 10**18
MINUTE = 60 * 10**9


def changed(**fields):
    """What an entry is made for, with other fields of the target."""
    return (MADE_FOR[0], TARGET._replace(**fields), *MADE_FOR[2:])


def test_what_decides_the_results_is_in_the_key(monkeypatch):
    keys = [
        key.key_of("model", made_for)
        for made_for in (
            MADE_FOR,
            ("engine 2", *MADE_FOR[1:]),
            changed(device="gpu"),
            changed(precision="preferred_fp16"),
            changed(input_shape="x:1,2"),
            changed(output_type="FP16"),
            changed(form="weights8"),
            (*MADE_FOR[:2], ("a",), {}, ()),
            (*MADE_FOR[:2], ("a", "b"), {}, ()),
            (*MADE_FOR[:2], (), {"a": "b"}, ()),
            (*MADE_FOR[:2], (), {"b": "a"}, ()),
            (*MADE_FOR[:3], {}, ((1, 2),)),
            (*MADE_FOR[:3], {}, ((1,), (2,))),
        )
    ]
    keys.append(key.key_of("another model", MADE_FOR))
    monkeypatch.setattr(key, "identity", lambda: "another processor")
    keys.append(key.key_of("model", MADE_FOR))
    monkeypatch.setattr(key, "code", lambda store: "another version")
    keys.append(key.key_of("model", MADE_FOR))
    assert len({*keys}) == len(keys)


def test_what_is_set_on_loading_is_not_in_the_key():
    plain = key.key_of("model", MADE_FOR)
    for fields in ({"threads": 7}, {"cores": (1, 2)}, {"parallel_requests": 3}, {"provider": "openvino"}):
        assert key.key_of("model", changed(**fields)) == plain, fields
    one, two = ((*MADE_FOR[:2], names, {}, ()) for names in (("a", "b"), ("b", "a")))
    assert key.key_of("model", one) == key.key_of("model", two)
    one, two = ((*MADE_FOR[:3], plan, ()) for plan in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}))
    assert key.key_of("model", one) == key.key_of("model", two)


def test_a_model_is_its_file_and_those_beside_it():
    whole = key.whole_of("content", {"a": "1", "b": "2"})
    assert whole == key.whole_of("content", {"b": "2", "a": "1"})
    others = [key.whole_of("other", {"a": "1", "b": "2"}), key.whole_of("content", {"a": "2", "b": "1"})]
    assert len({whole, *others, key.whole_of("content", {})}) == 4


@pytest.fixture
def store(cache, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: NOW)
    monkeypatch.setattr(key, "is_memory", lambda device: device == 77)
    return Store(cache, 10**9)


@pytest.mark.parametrize(
    ("device", "written", "changed", "known"),
    [
        (1, NOW - MINUTE, NOW - MINUTE, True),
        (1, NOW - MINUTE + 1, NOW - MINUTE, False),
        (1, NOW - MINUTE, NOW - MINUTE + 1, False),
        (77, NOW - MINUTE, NOW - MINUTE, False),  # in memory
    ],
)
def test_a_file_that_settled_a_minute_ago_is_known(store, device, written, changed, known):
    state = (device, 5, 1000, written, changed)
    key.keep_digest(store, state, "content")
    assert key.known_digest(store, state) == ("content" if known else None)
    assert key.known_digest(store, (device, 6, *state[2:])) is None
    assert key.has_size(store, 1000) == known


def test_a_file_is_known_until_the_machine_starts_again(store, monkeypatch):
    state = (1, 5, 1000, 0, 0)
    key.keep_digest(store, state, "content")
    monkeypatch.setattr(key, "boot", lambda: "another one")
    assert key.known_digest(store, state) is None


def test_of_one_size_the_last_32_files_are_known(store):
    states = [(1, number, 1000, 0, 0) for number in range(33)]
    for state in states:
        key.keep_digest(store, state, f"content of {state[1]}")
    known = [key.known_digest(store, state) for state in states]
    assert known == [None, *(f"content of {number}" for number in range(1, 33))]
    assert not key.has_size(store, 1001)


def test_a_size_is_noted_without_forgetting_the_files_of_it(store):
    key.keep_size(store, 1000)
    assert key.has_size(store, 1000)
    key.keep_digest(store, (1, 5, 1000, 0, 0), digest(b"content"))
    key.keep_size(store, 1000)
    assert key.known_digest(store, (1, 5, 1000, 0, 0)) == digest(b"content")
