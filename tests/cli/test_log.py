"""The log of commands: text, or one event of JSON a line, of every process that a command starts."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys, warnings
import mindspore_lite as mslite

context = mslite.Context()
context.target = ["cpu"]
context.cpu.no_such_option = 1
model = mslite.Model()
model.build_from_file(sys.argv[1], mslite.ModelType.ONNX, context)
print("a result")
print("a word", file=sys.stderr)
warnings.warn("have a care")
logging.getLogger("another").warning("of %d library", 1)
raise ValueError("the end\\nin two lines")
"""


@pytest.fixture
def model(onnx_file):
    return onnx_file(["Neg x -> y"], ["x float n,2"], ["y float n,2"])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def done(*command, form="json", **variables):
    """Run `pinnace --log FORM COMMAND` in a process."""
    command = [sys.executable, "-m", "pinnace", "--log", form, *map(str, command)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, check=False)


def logged(*command, **variables):
    """Return exit status, stdout and the events of a command: every line of stderr is one."""
    ended = done(*command, **variables)
    return ended.returncode, ended.stdout, [json.loads(line) for line in ended.stderr.splitlines()]


def the(events, name):
    """Return the one event of a name."""
    (found,) = [event for event in events if event["event"] == name]
    return found


def test_text_has_what_json_has_and_the_notes(model):
    log = done("run", model, form="text").stderr
    (line,) = [line for line in log.splitlines() if "pinnace.build" in line]
    assert f"INFO pinnace.build: {model}: engine onnxruntime" in line
    assert "INFO pinnace.cli: Opening model.onnx" in log
    assert "\ninput x [1, 2] FLOAT32: " in log


def test_every_line_of_a_command_is_an_event_with_fields(model, tmp_path):
    status, out, events = logged("run", model, "--save", tmp_path)
    assert status == 0
    assert "tensor's name is:y" in out
    assert all({"time", "level", "logger", "event", "message"} <= event.keys() for event in events)
    built = the(events, "built")
    assert (built["level"], built["logger"], built["model"]) == ("INFO", "pinnace.build", str(model))
    assert built["engine"].startswith("onnxruntime")
    assert built["seconds"] > 0
    assert built["shapes"] == {"x": [-1, 2]}
    fed = the(events, "input")
    assert (fed["input"], fed["shape"], fed["dtype"]) == ("x", [1, 2], "FLOAT32")
    assert the(events, "wrote")["path"] == str(tmp_path / "y.npy")
    assert "rank" not in built


@pytest.mark.parametrize(
    ("arguments", "status", "event", "text"),
    [
        (("run", "no.onnx"), 1, "error", "no.onnx: there is no such file"),
        (("run", "no.onnx", "--no-such"), 2, "stderr", "Error: No such option: --no-such"),
        (("no-such-command",), 2, "stderr", "Error: No such command 'no-such-command'."),
    ],
)
def test_errors_are_events(arguments, status, event, text):
    ended, _, events = logged(*arguments)
    assert ended == status
    assert (events[-1]["event"], events[-1]["message"]) == (event, text)
    assert "kind" not in events[-1] or events[-1]["kind"] == "ModelFormatError"


def test_warnings_are_events_that_point_at_a_file(model, tmp_path):
    config = tmp_path / "config.ini"
    config.write_text("[no_such_section]\nkey = 1\n")
    _, _, events = logged("run", model, "--config", config)
    warning = the(events, "warning")
    assert (warning["level"], warning["category"]) == ("WARNING", "PinnaceWarning")
    assert "[no_such_section]" in warning["message"]


def test_a_script_logs_what_it_says_and_how_it_ends(script, model):
    status, out, events = logged("exec", script, model)
    assert (status, out) == (1, "a result\n")
    assert the(events, "built")["model"] == str(model)
    assert the(events, "stderr")["message"] == "a word"
    assert (the(events, "log")["logger"], the(events, "log")["message"]) == ("another", "of 1 library")
    lines = {
        event["message"]: (event["file"], event["line"]) for event in events if event["event"] == "warning"
    }
    assert {file for file, _ in lines.values()} == {str(script)}
    assert "have a care" in lines
    error = the(events, "error")
    assert (error["kind"], error["message"]) == ("ValueError", "the end\nin two lines")
    assert f'File "{script}", line 14' in error["traceback"]


def test_what_a_script_writes_before_it_imports_pinnace_is_an_event_too():
    status, _, events = logged("exec", "-c", "import os; os.write(2, b'native'); os.kill(os.getpid(), 15)")
    assert status == 128 + 15
    assert [(event["event"], event["message"]) for event in events] == [("stderr", "native")]


def test_ranks_log_their_numbers(tmp_path):
    plain = tmp_path / "plain.py"
    plain.write_text("import sys; print('out'); print('err', file=sys.stderr)")
    _, out, events = logged("launch", "-n", 2, "--with", "sockets", plain)
    assert sorted(out.splitlines()) == ["[0] out", "[1] out"]
    assert sorted((event["rank"], event["message"]) for event in events) == [(0, "err"), (1, "err")]
    plain.write_text("import os, signal; os.environ['RANK'] == '0' or signal.pause(); exit(3)")
    status, _, events = logged("launch", "-n", 2, "--with", "sockets", plain)
    assert status == 3
    assert the(events, "launch")["message"] == "rank 0 failed with status 3: the other ranks are stopped"


def test_device_processes_log_too(model, tmp_path):
    script = tmp_path / "devices.py"
    script.write_text(
        "import sys, pinnace\n"
        "context = pinnace.Context()\n"
        "context.target = ['ascend']\n"
        "pinnace.DataParallel(sys.argv[1], context=context).close()\n"
    )
    status, _, events = logged("exec", script, model, PINNACE_SIMULATE="ascend:2")
    assert status == 0
    devices = [event.get("device", "")[:8] for event in events if event["event"] == "built"]
    assert sorted(devices) == ["", "ascend:0", "ascend:1"]  # the first is the whole


def test_a_wrong_variable_is_said():
    command = [sys.executable, "-c", "import pinnace"]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PINNACE_LOG": "xml"})
    assert "PINNACE_LOG=xml has no effect: choose from text, json" in ended.stderr
