"""The command itself: it starts at once, and says what it can do."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, entry_points, version
from types import SimpleNamespace

import pytest
from rich.markup import render
from typer.main import get_command

import pinnace.cli as pinnace_cli
from pinnace.formats import FRAMEWORKS

COMMANDS = ("run", "inspect", "quickstart", "exec")

try:
    VERSION = version("pinnace")
except PackageNotFoundError:
    VERSION = None
installed = pytest.mark.skipif(VERSION is None, reason="Pinnace runs from its sources and is not installed")


@installed
def test_the_package_installs_the_command():
    (script,) = entry_points(group="console_scripts", name="pinnace")
    assert script.load() is pinnace_cli.main


def test_help_waits_for_no_engine_and_no_picture_library():
    code = "import sys, pinnace.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"onnxruntime", "onnx", "onnx_ir", "PIL"}.isdisjoint(loaded)


def test_help_names_every_command(pinnace):
    answer = pinnace("--help")
    assert answer.code == 0
    assert all(f"  {command} " in answer.out for command in COMMANDS)
    assert "\x1b" not in answer.out


@pytest.mark.parametrize("command", [(), ("run",), ("cache", "clear")])
def test_h_is_help(pinnace, command):
    assert pinnace(*command, "-h").out == pinnace(*command, "--help").out


@pytest.mark.parametrize("command", [("--help",), ("cache", "--help")])
def test_every_command_is_told_in_one_line_of_60_columns(pinnace, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    listed = pinnace(*command).out.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


def test_no_word_of_the_help_is_taken_for_markup():
    """In terminals it is shown by rich, for which [name] is a style."""
    commands = [get_command(pinnace_cli.app)]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for text in (command.help, *(getattr(param, "help", "") for param in command.params)):
            assert not text or render(text).plain == text
    assert len(commands) > 10


@pytest.mark.parametrize(("variable", "colors"), [({"NO_COLOR": "1"}, False), ({}, True)])
def test_colors_are_for_terminals_and_not_with_no_color(variable, colors):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    known = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "CI", "GITHUB_ACTIONS")}
    command = [sys.executable, "-m", "pinnace", "devices", "--help"]
    subprocess.run(command, stdout=slave, env=known | {"TERM": "xterm-256color"} | variable, check=True)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert bool(re.search(r"\x1b\[[\d;]*3\d", shown)) == colors  # 30 to 39: colors of letters


@installed
def test_version(pinnace):
    assert pinnace("--version").out == f"pinnace {VERSION}\n"


@pytest.mark.parametrize("arguments", [(), ("no-such-command",), ("run",), ("run", "m", "--no-such-flag")])
def test_wrong_use_exits_with_2(pinnace, arguments):
    assert pinnace(*arguments).code == 2


def test_a_file_name_that_the_terminal_has_no_letters_for_is_shown(onnx_file):
    path = onnx_file(["Identity x -> y"], ["x float 2"], ["y float 2"], "caf\u00e9.onnx")
    command = [sys.executable, "-m", "pinnace", "inspect", path]
    answer = subprocess.run(
        command, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert "caf\\xe9.onnx" in answer.stdout


def test_a_closed_stdout_is_no_error(tmp_path):
    command = f"exec {sys.executable} -m pinnace run {tmp_path}/none.onnx >&-"
    answer = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr.startswith("pinnace: ")


def test_help_has_no_types_of_python(pinnace):
    """Arguments and options have names that say what to write."""
    group = get_command(pinnace_cli.app)
    names = [[name] for name in group.commands if name != "cache"]
    for name in [*names, *(["cache", name] for name in group.commands["cache"].commands)]:
        text = pinnace(*name, "--help").out
        assert text.startswith("Usage: pinnace")
        assert not re.search(r"<(path|str|int|float|file|directory|list\[.*)>|\{(?!rank)", text), text


def test_convert_names_every_format(pinnace):
    text = pinnace("convert", "--help").out
    assert all(
        suffix in text for suffix in (*FRAMEWORKS, ".mindir", ".ms", ".onnx", ".caffemodel", "SavedModel")
    )


@pytest.mark.parametrize("arguments", [("devices",), ("devices", "--json")])
def test_a_full_disk_is_told(arguments):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "pinnace", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "pinnace: stdout cannot be written: no space left on device\n",
    )


def test_the_library_of_cpp_programs_is_built_with_progress(pinnace, monkeypatch):
    shown = []

    @contextmanager
    def progress(doing):
        shown.append(doing)
        yield

    monkeypatch.setattr("pinnace.cli.console.progress", progress)
    monkeypatch.setattr("pinnace.cpp.build.build", lambda folder: SimpleNamespace(folder=folder))
    assert (pinnace("cpp", "--folder", "here").out, shown) == ("here\n", ["Building the library"])


def test_commands_that_measure_keep_a_model_before_it_is_used(pinnace, monkeypatch):
    for command, kept in (("run", None), ("bench", "before"), ("compile", "before"), ("tune", "before")):
        monkeypatch.setenv("PINNACE_CACHE_KEEP", "")
        monkeypatch.delenv("PINNACE_CACHE_KEEP")
        pinnace(command, "none.onnx")
        assert os.environ.get("PINNACE_CACHE_KEEP") == kept
    monkeypatch.setenv("PINNACE_CACHE_KEEP", "never")
    pinnace("bench", "none.onnx")
    assert os.environ["PINNACE_CACHE_KEEP"] == "never"


@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        ((), "/lite"), ("--cflags", "-I '/a b'"), ("--ldflags", "-L/x -lmindspore-lite"),
        (("--cflags", "--ldflags"), "-I '/a b' -L/x -lmindspore-lite"), ("--cmakedir", "/lite/cmake"),
    ],
)  # fmt: skip
def test_options_of_compilers_are_printed_for_a_shell(pinnace, monkeypatch, flags, printed):
    built = SimpleNamespace(
        folder="/lite", cmakedir="/lite/cmake", cflags=["-I", "/a b"], ldflags=["-L/x", "-lmindspore-lite"]
    )
    monkeypatch.setattr("pinnace.cpp.build.build", lambda folder: built)
    flags = (flags,) if isinstance(flags, str) else flags
    assert pinnace("cpp", "--folder", "here", *flags).out == f"{printed}\n"


def test_a_build_shows_progress_on_a_terminal(onnx_file, tmp_path):
    path = onnx_file(["Neg x -> y"], ["x float 2"], ["y float 2"])
    command = [sys.executable, "-m", "pinnace", "compile", str(path)]
    master, slave = pty.openpty()
    known = os.environ | {"TERM": "xterm-256color", "PINNACE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, stderr=slave, stdout=subprocess.PIPE, env=known, check=True)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "Compiling model.onnx" in shown
    assert b"Compiling" not in done.stdout
