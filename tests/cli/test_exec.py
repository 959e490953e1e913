"""`pinnace exec` is python with a mindspore_lite that is Pinnace: in everything else the two must agree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXEC = [sys.executable, "-m", "pinnace", "exec"]
PYTHON = [sys.executable]

WHOSE = "import mindspore_lite as mslite; print(mslite.Tensor.__module__)"


def run(command, folder, **environment):
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def other(tmp_path):
    """A folder with an installed mindspore_lite that is not ours."""
    package = tmp_path / "installed" / "mindspore_lite"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("class Tensor:\n    __module__ = 'the other'\n")
    return str(package.parent)


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def both(arguments, folder, **environment):
    """What python and `pinnace exec` answer to the same arguments."""
    answers = [run([*command, *arguments], folder, **environment) for command in (PYTHON, EXEC)]
    return [(answer.returncode, answer.stdout, answer.stderr) for answer in answers]


@pytest.mark.parametrize(
    "arguments",
    [
        ["there/script.py", "one", "--help", "-m", "--", "two words"],
        ["-m", "there.script", "--json", "-x"],
        ["-c", "import sys; print(sys.argv, sys.path[0])", "--help"],
        ["there/fails.py"],
        ["there/exits.py"],
        ["there/missing.py"],
    ],
)
def test_a_script_sees_and_answers_what_it_does_under_python(tmp_path, arguments):
    folder = tmp_path / "there"
    folder.mkdir()
    script(
        folder, "import sys; print(__name__, __file__, __package__, sys.argv, sys.path[0], sys.executable)"
    )
    script(folder, "def inner():\n    raise KeyError('gone')\ninner()", "fails.py")
    script(folder, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", "exits.py")
    python, ours = both(arguments, tmp_path)
    assert ours == python


def test_standard_input_reaches_the_script(tmp_path):
    script(tmp_path, "import sys; print(sys.stdin.read().upper())")
    answer = subprocess.run(
        [*EXEC, "script.py"],
        cwd=tmp_path,
        input="text",
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert answer.stdout == "TEXT\n"


def test_an_installed_mindspore_lite_gives_way_and_stays(tmp_path, other):
    path = script(tmp_path, WHOSE)
    mine = os.environ.get("PYTHONPATH", "")
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [other, mine]))}
    before, ours = both([str(path)], tmp_path, **environment)
    after = run([*PYTHON, str(path)], tmp_path, **environment)
    assert before == (0, "the other\n", "")
    assert ours == (0, "pinnace.tensors.tensor\n", "")
    assert after.stdout == "the other\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_import_pinnace_too(tmp_path, other, method):
    path = script(
        tmp_path,
        f"""
import multiprocessing
import sys

def work(number):
    {WHOSE}
    return number, __name__

if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(1) as pool:
        print(pool.apply(work, (3,)))
""",
    )
    name = "__main__" if method == "fork" else "__mp_main__"
    mine = os.environ.get("PYTHONPATH", "")
    answer = run([*EXEC, str(path)], tmp_path, PYTHONPATH=os.pathsep.join(filter(None, [other, mine])))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines() == ["pinnace.tensors.tensor", f"(3, {name!r})"]


def test_spawned_workers_of_a_module_find_it(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    script(package, "", "__init__.py")
    script(
        package,
        f"""
import multiprocessing

def work():
    {WHOSE}

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
""",
        "job.py",
    )
    answer = run([*EXEC, "-m", "package.job"], tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "pinnace.tensors.tensor\n", "")


def test_a_subprocess_of_the_same_python_imports_pinnace(tmp_path):
    path = script(
        tmp_path, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WHOSE!r}], check=True)"
    )
    assert run([*EXEC, str(path)], tmp_path).stdout == "pinnace.tensors.tensor\n"


def test_help_and_wrong_use_are_of_exec_itself(tmp_path):
    assert "mindspore_lite" in run([*EXEC, "--help"], tmp_path).stdout
    assert run(EXEC, tmp_path).returncode == 2
