"""Tables in files, in pipes and at widths."""

import pytest

from pinnace.cli.console import fold, note, progress, table
from pinnace.log import WARNING

HEAD = ("workers", "p50", "p99")
ROWS = (("1", "10.5", "20.25"), ("2", "8", "a lot"))


@pytest.fixture
def printed(capsys, monkeypatch):
    """Print a table in a width, None for a pipe."""

    def lines(width, *arguments, **more):
        monkeypatch.delenv("COLUMNS", raising=False)
        if width:
            monkeypatch.setenv("COLUMNS", str(width))
        table("title", *arguments, **more)
        return capsys.readouterr().out.splitlines()

    return lines


def test_numbers_are_aligned_to_the_right(printed):
    assert printed(60, ROWS, HEAD) == [
        "title",
        "  workers   p50  p99",
        "        1  10.5  20.25",
        "        2     8  a lot",
    ]


def test_a_narrow_table_has_its_rows_beside_each_other(printed):
    rows = [("1", "10.5", "20.25"), ("2", "8", "100"), ("3", "7", "9")]
    head = ("workers", "p50 in ms", "p99 in ms")
    assert printed(28, rows, head) == [
        "title",
        "  workers        1    2",
        "  p50 in ms   10.5    8",
        "  p99 in ms  20.25  100",
        "",
        "  workers    3",
        "  p50 in ms  7",
        "  p99 in ms  9",
    ]


def test_a_last_column_of_text_is_folded_or_has_lines_of_its_own(printed):
    row = ("a", "some words that do not fit in there")
    assert printed(32, [row]) == ["title", "  a  some words that do not fit", "     in there"]
    assert printed(24, [row]) == ["title", "  a", "    some words that do", "    not fit in there"]
    assert printed(None, [("a", "b" * 500)]) == ["title", f"  a  {'b' * 500}"]


def test_nothing(printed):
    assert printed(60, []) == ["title", "  none"]


def test_what_a_terminal_would_interpret_is_escaped(printed):
    assert printed(60, [("\x1b[1m", "two\nlines")]) == ["title", r"  \x1b[1m  two\nlines"]


def test_a_title_is_printed_as_it_is(capsys):
    table("[red]m:cat:.onnx", [])
    assert capsys.readouterr().out.splitlines()[0] == "[red]m:cat:.onnx"


def test_chinese_letters_take_two_columns(printed):
    assert printed(60, [("\u732b", "a"), ("cat", "b")]) == ["title", "  \u732b   a", "  cat  b"]


def test_no_width_is_too_narrow(printed):
    for width in range(1, 40):
        assert printed(width, [("a" * 10, "b" * 8, ""), ("a", "b", "some words")])
        assert printed(width, ROWS, HEAD)


def test_lines_are_folded_between_words_and_keep_their_indentation():
    assert fold("  a bb ccc\nd a/long/path", 7) == "  a bb\n  ccc\nd\na/long/path"


def test_notes_go_to_stderr_or_into_a_log_of_json(capsys, monkeypatch, caplog):
    note("made of\x1b[1m\ntwo lines", "made", before="pinnace: ", n=3)
    assert capsys.readouterr() == ("", "pinnace: made of\\x1b[1m\ntwo lines\n")
    monkeypatch.setenv("PINNACE_LOG", "json")
    caplog.set_level("INFO", "pinnace")
    note("made", "event", WARNING, before="pinnace: ", n=3)
    with progress("working", n=4):
        pass
    assert capsys.readouterr() == ("", "")
    first, second = caplog.records
    assert (first.event, first.levelname, first.getMessage(), first.n) == ("event", "WARNING", "made", 3)
    assert (second.event, second.levelname, second.getMessage(), second.n) == (
        "progress",
        "INFO",
        "working",
        4,
    )
