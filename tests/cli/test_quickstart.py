"""The demonstration: what it says must be what MindSpore says of the same pictures."""

import re
from pathlib import Path

import numpy as np
import pytest

from pinnace.cli.quickstart import MODEL, data, prepared

EXPECTED = np.load(Path(__file__).parent.parent / "data" / "efficientnet_lite0_expected.npz")
FIRST = {"chelsea.png": "tiger cat (282)", "coffee.png": "espresso (967)"}

TASK = re.compile(r"parallel id: (\d+) \| task index: (\d+) \| run once time: [\d.]+ s \| (\w+\.png)")


@pytest.mark.parametrize("picture", FIRST)
def test_pictures_are_prepared_as_they_were_for_mindspore(picture):
    np.testing.assert_array_equal(prepared(picture), EXPECTED[f"{Path(picture).stem}_input"])


def test_every_task_of_every_client_is_shown_with_mindspores_answer(pinnace):
    answer = pinnace("quickstart")
    assert answer.code == 0
    lines = answer.out.splitlines()
    tasks = [TASK.fullmatch(line) for line in lines[:20:2]]
    assert {(int(task[1]), int(task[2])) for task in tasks} == {(c, t) for c in range(5) for t in (1, 2)}
    assert {task[3] for task in tasks} == set(FIRST)
    for task, line in zip(tasks, lines[1:20:2], strict=True):
        top = re.findall(r"([^,(]+ \((\d+)\)) ([\d.]+)", line)
        wanted = EXPECTED[f"{Path(task[3]).stem}_mindspore"]
        assert top[0][0].strip() == FIRST[task[3]]
        assert [int(index) for _, index, _ in top] == wanted.argsort()[::-1][:5].tolist()
        # 1e-5 of engine, and half of the last printed digit
        np.testing.assert_allclose([float(p) for *_, p in top], np.sort(wanted)[::-1][:5], atol=6e-5)
    assert re.fullmatch(r"total run time: [\d.]+ s", lines[20])
    assert re.fullmatch(r"1 worker: [\d.]+ s, 3 workers: [\d.]+ s, [\d.]+ times as fast", lines[21])
    assert len(lines) == 22


def test_numbers_of_clients_tasks_and_workers_can_be_chosen(pinnace):
    lines = pinnace(
        "quickstart", "--workers", 1, "--clients", 2, "--tasks", 3, "--threads", 2
    ).out.splitlines()
    assert sum(bool(TASK.fullmatch(line)) for line in lines) == 6
    assert lines[-1].startswith("total run time")


def test_run_with_the_flags_of_the_readme_gives_the_same(pinnace, tmp_path):
    flags = ("--crop", 0.875, "--scale", 1, "--mean", 127, "--std", 128)
    pinnace("run", data(MODEL), "--input", data("chelsea.png"), *flags, "--save", tmp_path)
    (path,) = tmp_path.glob("*.npy")
    # 1e-5 is what the project promises against MindSpore
    np.testing.assert_allclose(np.load(path)[0], EXPECTED["chelsea_mindspore"], atol=1e-5)


def test_json(pinnace):
    report = pinnace("quickstart", "--workers", 1, "--clients", 1, "--tasks", 2, "--json").json
    assert [(task["client"], task["task"]) for task in report["tasks"]] == [(0, 1), (0, 2)]
    assert all(len(task["probabilities"]) == 5 for task in report["tasks"])
    assert report["seconds_of_1_worker"] is None
