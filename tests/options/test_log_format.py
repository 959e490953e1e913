"""Lines of the log as text and as JSON, without a process."""

from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from datetime import datetime

import pytest

from pinnace.errors import PinnaceWarning
from pinnace.options import log_format


@pytest.fixture
def stderr(monkeypatch):
    """A stderr that a log of a kind is started on; what it replaces is put back."""
    logger = logging.getLogger("pinnace")
    handlers, level = list(logger.handlers), logger.level
    for place, name in ((sys, "excepthook"), (warnings, "showwarning"), (logging, "lastResort")):
        monkeypatch.setattr(place, name, getattr(place, name))
    monkeypatch.delenv("RANK", raising=False)

    def started(kind):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("PINNACE_LOG", kind)
        log_format.start()
        return stream

    yield started
    logger.handlers[:] = handlers
    logger.setLevel(level)


def events(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_log_of_json_has_an_event_for_all_that_goes_to_stderr(stderr):
    stream = stderr("json")
    assert log_format.is_json()
    logging.getLogger("pinnace.some").info("of %s", "one", extra={"event": "built", "model": "m", "n": 3})
    logging.getLogger("pinnace.some").debug("too much")
    sys.stderr.write("in two ")
    sys.stderr.write("parts\n\n  \nand ")
    sys.stderr.write('{"event": "own", "n": 1}\n{"event": "own", "n": 1}\n[1]\n{"n": 2}\nnot ended')
    sys.stderr.flush()
    sys.stderr.flush()
    found = events(stream)
    first = found[0]
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    assert first == {
        "level": "INFO", "logger": "pinnace.some", "event": "built", "model": "m", "n": 3,
        "message": "of one",
    }  # fmt: skip
    assert [(one["event"], one.get("message")) for one in found[1:]] == [
        ("stderr", "in two parts"), ("stderr", 'and {"event": "own", "n": 1}'), ("own", None),
        ("stderr", "[1]"), ("stderr", '{"n": 2}'), ("stderr", "not ended"),
    ]  # fmt: skip
    assert (found[1]["level"], found[1]["logger"]) == ("INFO", "pinnace.process")
    assert found[3] == {"event": "own", "n": 1}
    log_format.start()  # a second time changes nothing
    assert len(logging.getLogger("pinnace").handlers) == len({*logging.getLogger("pinnace").handlers})


def test_warnings_and_the_last_exception_are_events(stderr):
    stream = stderr("json")
    warnings.showwarning(PinnaceWarning("have a care"), PinnaceWarning, "file.py", 7)
    try:
        raise ValueError("the end")
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    unknown = {"name": "unknown.library", "msg": "nobody configured me", "levelno": logging.WARNING}
    logging.lastResort.handle(logging.makeLogRecord(unknown))
    warning, error, other = events(stream)
    assert (warning["event"], warning["level"], warning["message"]) == ("warning", "WARNING", "have a care")
    assert (warning["category"], warning["file"], warning["line"]) == ("PinnaceWarning", "file.py", 7)
    assert (error["event"], error["level"], error["kind"]) == ("error", "ERROR", "ValueError")
    assert "Traceback (most recent call last)" in error["traceback"]
    assert "traceback" not in warning
    assert (other["event"], other["logger"]) == ("log", "unknown.library")


def test_a_rank_has_its_number(stderr, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    assert json.loads(log_format.as_event("x\n", "stderr"))["rank"] == 0
    assert json.loads(log_format.as_event("x\n", "stderr", rank=3))["rank"] == 3
    monkeypatch.delenv("RANK")
    assert "rank" not in json.loads(log_format.as_event("x\n", "stderr"))


def test_a_log_of_text_leaves_stderr_as_it_is(stderr):
    stream = stderr("text")
    assert not log_format.is_json()
    logging.getLogger("pinnace.some").info("built")
    print("as it is", file=sys.stderr)
    first, second = stream.getvalue().splitlines()
    assert first.endswith(" INFO pinnace.some: built")
    assert second == "as it is"


@pytest.mark.parametrize("kind", ["", "xml"])
def test_without_a_log_or_with_one_of_another_kind_nothing_is_written(stderr, kind):
    if kind:
        with pytest.warns(PinnaceWarning, match="PINNACE_LOG=xml has no effect: choose from text, json"):
            stream = stderr(kind)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stream = stderr(kind)
    logging.getLogger("pinnace.some").info("built")
    assert stream.getvalue() == ""


def test_a_process_without_stderr_has_no_log(stderr, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setenv("PINNACE_LOG", "json")
    before = list(logging.getLogger("pinnace").handlers)
    log_format.start()
    assert (sys.stderr, logging.getLogger("pinnace").handlers) == (None, before)


def test_a_stderr_of_events_is_a_stream(stderr, tmp_path, monkeypatch):
    with (tmp_path / "log").open("w", encoding="latin-1") as file:
        lines = log_format._Lines(file)
        assert (lines.fileno(), lines.encoding, lines.name) == (file.fileno(), "latin-1", file.name)
        assert lines.write("ab\ncd") == 5


def test_warnings_of_a_command_are_lines_after_its_name_or_events(stderr):
    for kind, told in (("text", "benchmark: have a care\n"), ("json", '"event": "warning"')):
        stream = stderr(kind)
        log_format.print_warnings("benchmark")
        warnings.showwarning(PinnaceWarning("have a care"), PinnaceWarning, "file.py", 7)
        assert told in stream.getvalue()
        assert stream.getvalue().count("\n") == 1


def test_what_a_message_names_begins_no_line(stderr):
    stream = stderr("text")
    logging.getLogger("pinnace.some").warning("opened %s", "m\n2026-01-01 ERROR pinnace: \x1b[2J")
    (line,) = stream.getvalue().splitlines()
    assert r"opened m\n2026-01-01 ERROR pinnace: \x1b[2J" in line


@pytest.mark.parametrize("kind", ["", "text"])
def test_a_fault_is_written_once_with_or_without_a_log(stderr, kind):
    stream = stderr(kind)
    log_format.print_faults()
    try:
        raise KeyError("a secret")
    except KeyError as error:
        logging.getLogger("pinnace.some").error("a request failed", exc_info=error)
    logging.getLogger("pinnace.some").error("it was wrong")
    written = stream.getvalue()
    assert written.count("a request failed\nTraceback") == written.count("KeyError: 'a secret'") == 1
    assert written.count("it was wrong") == bool(kind)
