"""`pinnace launch`: ranks of this machine, and of others by an agent that runs here what ssh would there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.ports import free_port
from tests.waiting import until

from pinnace.distributed import remote
from pinnace.distributed.launch import LEASH, by_mpirun
from pinnace.errors import ConfigError

HERE = Path(__file__).parent
DATA = HERE.parent / "data" / "distributed"

# What ssh does: another folder, and nothing of the caller's environment. MPI waits for ever where two hosts
# have the same name: each gets its own.
AGENT = """#!/bin/sh
host=$1; shift
echo "$host" >> {log}
cd /
exec {own} env -i HOME=/nonexistent PATH=/usr/bin:/bin sh -c "{name}$*"
"""


@pytest.fixture
def agent(way, tmp_path):
    own, name = "", ""
    if way == "mpi":
        own, name = "unshare --uts", "hostname $host && "
        if subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode:
            pytest.skip("no right to give a process another host name (unshare --uts)")
    program = tmp_path / "agent"
    program.write_text(AGENT.format(log=tmp_path / "log", own=own, name=name))
    program.chmod(0o755)
    return program


def launch(*arguments):
    command = [sys.executable, "-m", "pinnace", "launch", *map(str, arguments)]
    port = {"MASTER_PORT": str(free_port())}
    return subprocess.run(
        command, env=os.environ | port, capture_output=True, text=True, timeout=600, check=False
    )


def test_ranks_on_two_hosts(way, agent, tmp_path):
    """Names need no meaning to MPI; the others meet at the address of the first host."""
    names = "127.0.0.2,127.0.0.3" if way != "mpi" else "pinnace-a,pinnace-b"
    answer = launch(
        *("-n", 2, "--with", way, "--hosts", names, "--agent", agent),
        *(HERE / "rank.py", DATA / "Matmul", 2, "--answers", tmp_path),
        *(() if way == "mpi" else ("--rank", "{rank}")),
    )
    assert answer.returncode == 0, answer.stderr
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert sorted(one["rank"] for one in results) == [0, 1]
    assert all(one["error"] <= 1e-5 for one in results)  # float32, as in test_ranks.py
    assert sorted((tmp_path / "log").read_text().split()) == names.split(",")


def test_all_ranks_end_when_one_fails(way, agent, tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import os, sys, time\n"
        "rank, other = sys.argv[1], sys.argv[2]\n"
        "print('rank', rank, flush=True)\n"
        "while rank == '1' and not os.path.exists(other): time.sleep(0.01)\n"
        "if rank == '1': sys.exit(7)\n"
        "with open(other + '.new', 'w') as file: file.write(str(os.getpid()))\n"
        "os.rename(other + '.new', other)\n"
        "time.sleep(600)\n"
    )
    for number, place in enumerate(((), ("--hosts", "127.0.0.2,127.0.0.3", "--agent", agent))):
        other = tmp_path / f"{number}.pid"
        answer = launch("-n", 2, "--with", way, *place, script, "{rank}", other)
        rank = Path("/proc", other.read_text())
        until(lambda rank=rank: not rank.exists())
        assert answer.returncode == 7, answer.stderr
        lines = sorted(answer.stdout.splitlines())
        if way == "mpi":  # seldom mpirun forgets, where it ends ranks, whose line it was
            lines = sorted(f"[{line[-1]}] {line[-6:]}" for line in lines)
        assert lines == ["[0] rank 0", "[1] rank 1"]
        assert way == "mpi" or "rank 1 failed with status 7: the other ranks are stopped" in answer.stderr


def test_ranks_end_with_the_launcher(way, agent, tmp_path):
    script = tmp_path / "main.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    for place in ((), ("--hosts", "127.0.0.2,127.0.0.3", "--agent", str(agent))):
        command = ["-m", "pinnace", "launch", "-n", "2", "--with", way, *place, str(script)]
        with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as launcher:
            ranks = [int(launcher.stdout.readline().partition("] ")[2]) for _ in range(2)]
            launcher.terminate()
            assert launcher.wait(300) == 128 + signal.SIGTERM
        until(lambda ranks=ranks: not any(Path(f"/proc/{rank}").exists() for rank in ranks))


def test_ranks_end_when_nobody_reads_what_they_print(way, tmp_path):
    """As after `pinnace launch ... | head -1`: they print more than a pipe takes, and would wait for ever."""
    script = tmp_path / "talk.py"
    script.write_text("while True:\n    print('more')\n")
    started = subprocess.Popen(
        [sys.executable, "-m", "pinnace", "launch", "-n", "2", "--with", way, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() in ("[0] more\n", "[1] more\n")
    started.stdout.close()
    errors = started.stderr.read()
    assert started.wait(timeout=300) == 128 + signal.SIGTERM
    assert "Traceback" not in errors


def test_the_command_line_of_mpirun(monkeypatch):
    monkeypatch.setattr("os.environ", {"PINNACE_SIMULATE": "gpu:2", "HOME": "/x"})
    where = remote.hosts_of(3, ["a:2", "b"])
    words = by_mpirun("mpirun", where, "ssh -p 2222", ["main.py", "part_{rank}"])
    given = ["-x", "PINNACE_SIMULATE", "-x", "PYTHONUNBUFFERED", sys.executable, "-c", LEASH, "main.py"]
    assert words[words.index("plm_ssh_agent") + 1] == "ssh -p 2222"
    assert words[words.index("-n") :] == [
        *("-n", "1", "--host", "a", *given, "part_0", ":"),
        *("-n", "1", "--host", "a", *given, "part_1", ":"),
        *("-n", "1", "--host", "b", *given, "part_2"),
    ]
    assert "--host" not in by_mpirun("mpirun", remote.hosts_of(2, []), "ssh", ["main.py"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-n", 3, "--hosts", "a,b"), "a,b take 2 of 3 ranks"),
        (("-n", 2, "--hosts", "127.0.0.2:2", "--agent", "nossh"), "started by nossh, which is not installed"),
    ],
)
def test_invalid_hosts_are_refused(arguments, message):
    answer = launch(*arguments, "main.py")
    assert answer.returncode == 1
    assert message in answer.stderr


@pytest.mark.parametrize("host", ["", ":2", "b:", "b:0", "b:x"])
def test_a_host_has_a_name_and_takes_at_least_one_rank(host):
    with pytest.raises(ConfigError, match=f"--hosts: '{host}' is not HOST or HOST:RANKS"):
        remote.hosts_of(2, ["a:2", host])


def test_this_machine_needs_no_agent():
    remote.check_hosts(["", "localhost", "127.0.0.1"], "nossh")


def test_unknown_host_is_refused(monkeypatch):
    monkeypatch.setattr(remote, "_of_ssh", lambda host: host)
    monkeypatch.setattr(remote.shutil, "which", lambda _: "/usr/bin/ssh")
    with pytest.raises(ConfigError, match=r"there is no host 'none\.invalid'"):
        remote.check_hosts(["localhost", "none.invalid"], "ssh")


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("user me\nhostname 192.0.2.7\nproxyjump none\n", "192.0.2.7"),
        ("hostname inner\nproxyjump gate\n", "localhost"),
        ("hostname inner\nproxycommand nc %h\n", "localhost"),
        ("", "alias"),
    ],
)
def test_host_is_what_ssh_makes_of_it_and_one_behind_another_is_not_asked_for(monkeypatch, config, name):
    asked = []
    monkeypatch.setattr(remote.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=config))
    monkeypatch.setattr(remote.shutil, "which", lambda _: "/usr/bin/ssh")
    monkeypatch.setattr(remote.socket, "getaddrinfo", lambda host, _: asked.append(host))
    remote.check_hosts(["localhost", "alias", "alias"], "ssh")
    assert asked == [name]
    remote.check_hosts(["alias"], "rsh")
    assert asked == [name]


def test_ranks_elsewhere_get_variables_of_the_job_but_no_secret():
    given = {"PINNACE_LOG": "json", "PINNACE_SECRET": "s", "OMP_NUM_THREADS": "2", "HOME": "/x", "PATH": "/y"}
    assert remote.passed_on(given) == {"PINNACE_LOG": "json", "OMP_NUM_THREADS": "2"}


def test_rank_0_needs_a_name_that_others_reach():
    answer = launch("-n", 2, "--with", "sockets", "--hosts", "localhost,127.0.0.2", "--agent", "env", "x.py")
    assert "cannot reach rank 0 as localhost: use its name" in answer.stderr


def test_scripts_that_import_mindspore_lite_import_pinnace(way, tmp_path):
    script = tmp_path / "main.py"
    script.write_text("import mindspore_lite as mslite; print(mslite.Tensor.__module__)")
    answer = launch("-n", 2, "--with", way, script)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("pinnace.tensors.tensor") == 2
