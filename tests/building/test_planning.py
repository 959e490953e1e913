"""The numbers of threads, workers and cores that a context gets on a machine of 4 cores."""

from __future__ import annotations

import os

import pytest

from pinnace.building import planning
from pinnace.building.planning import to_target
from pinnace.cache.tuning import Measurement, Tuning
from pinnace.errors import ArgumentValueError, ConfigError, PinnaceWarning
from pinnace.options.context import Context

FP32, FP16 = "enforce_fp32", "preferred_fp16"


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch):
    monkeypatch.delenv("PINNACE_SIMULATE", raising=False)
    monkeypatch.setattr(planning, "usable_core_count", lambda: 4)
    monkeypatch.setattr(planning, "allowed_cores", lambda: (0, 1, 2, 3))
    monkeypatch.setattr("pinnace.machine.cores.allowed_cores", lambda: (0, 1, 2, 3))


def context(threads=0, operators=0, mode=0, cores=()):
    made = Context()
    made.cpu.thread_num, made.cpu.inter_op_parallel_num = threads, operators
    made.cpu.thread_affinity_mode, made.cpu.thread_affinity_core_list = mode, list(cores)
    return made


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("threads", "operators", "requests", "found"),
    [
        (0, 0, 1, (4, 1)),
        (0, 0, 2, (2, 2)),
        (0, 0, 3, (1, 3)),
        (0, 0, 9, (1, 9)),
        (0, 0, 0, (1, 4)),
        (2, 0, 0, (2, 2)),
        (3, 0, 0, (3, 1)),
        (8, 0, 0, (8, 1)),
        (2, 0, 5, (2, 5)),
        (0, 2, 4, (2, 4)),
        (20, 0, 1, (20, 1)),
    ],
)
def test_cores_are_shared_among_requests(threads, operators, requests, found):
    target = to_target(context(threads, operators), requests)
    assert (target.threads, target.parallel_requests) == found
    assert target.inter_op_threads == operators


def test_threads_beyond_five_a_core_are_fewer_with_a_warning():
    with pytest.warns(PinnaceWarning, match="thread_num 21 is more than 5 times the 4 cores .*: 20 are used"):
        assert to_target(context(21)).threads == 20
    with pytest.warns(PinnaceWarning, match="inter_op_parallel_num 21 is more than 5 times"):
        assert to_target(context(0, 21)).inter_op_threads == 20


def test_workers_beyond_the_limit_of_threads_are_refused(monkeypatch):
    monkeypatch.setattr(planning, "most_threads", lambda: (10, "pids.max"))
    assert to_target(context(), 10).parallel_requests == 10
    with pytest.raises(ConfigError, match=r"workers_num 11: .* at most 10 fit: pids.max"):
        to_target(context(), 11)
    monkeypatch.setattr(planning, "most_threads", lambda: (1, "pids.max"))
    assert to_target(context(), 4).parallel_requests == 4  # as many as there are cores, whatever limits them


def test_operators_in_parallel_need_threads():
    assert to_target(context(2, 2)).inter_op_threads == 2
    assert to_target(context(0, 3)).inter_op_threads == 3
    with pytest.raises(
        ConfigError, match=r"inter_op_parallel_num \(3\) must not be greater than thread_num \(2\)"
    ):
        to_target(context(2, 3))


@pytest.mark.parametrize(
    ("mode", "threads", "requests", "bound"),
    [(0, 1, 2, ()), (1, 1, 2, (3, 2)), (1, 2, 2, (3, 2, 1, 0)), (2, 1, 2, (0, 1)), (1, 1, 1, (3,))],
)
def test_threads_are_bound_to_the_cores_of_their_mode(monkeypatch, mode, threads, requests, bound):
    ranked = {True: (3, 2, 1, 0), False: (0, 1, 2, 3)}
    monkeypatch.setattr(planning, "cores_by_speed", lambda fastest_first: ranked[fastest_first])
    monkeypatch.setattr(planning, "workers_first", lambda cores, workers: cores)
    assert to_target(context(threads, mode=mode), requests).cores == bound


def test_cores_that_are_named_are_checked():
    assert to_target(context(1, mode=1, cores=(2, 0))).cores == (2, 0)
    with pytest.raises(ConfigError, match=r"cannot run on \[7\], only on \[0, 1, 2, 3\]"):
        to_target(context(1, cores=(2, 7)))
    with pytest.raises(ConfigError, match=r"\[2, 2\] names a core twice"):
        to_target(context(1, cores=(2, 2)))


@pytest.mark.parametrize(
    ("given", "requests", "fewer"),
    [
        (context(), 1, True),
        (context(), 2, True),
        (context(2), 1, False),
        (context(0, 2), 1, False),
        (context(0, cores=(0,)), 1, False),
        (context(), 4, False),
    ],
)
def test_a_small_model_may_get_fewer_threads_where_nothing_asks_for_more(given, requests, fewer):
    assert to_target(given, requests).fewer_threads is fewer


def measured(threads, workers, latency, throughput, form="", provider="onnxruntime", precision=FP32):
    return Measurement(provider, precision, threads, workers, latency, throughput, 0.0, latency, 1, form=form)


def tuned(*found):
    return Tuning("net", ((1,),), 0.0, found)


WAYS = (measured(4, 1, 10.0, 100.0), measured(1, 1, 5.0, 200.0), measured(1, 4, 20.0, 300.0))


@pytest.mark.parametrize(
    ("given", "requests", "found"),
    [
        (context(), 1, (1, 1)),
        (context(), 0, (1, 4)),
        (context(4), 1, (4, 1)),
        (context(0, 2), 1, (4, 1)),  # operators in parallel were not measured
        (context(), 2, (2, 2)),  # nor were two workers of two threads
    ],
)
def test_a_tuning_decides_what_it_has_compared(given, requests, found):
    target = to_target(given, requests, tuned(*WAYS))
    assert (target.threads, target.parallel_requests) == found
    assert not target.fewer_threads


def test_a_tuning_of_other_precisions_decides_nothing():
    given = context()
    given.cpu.precision_mode = FP16
    target = to_target(given, 1, tuned(*WAYS))
    assert (target.threads, target.parallel_requests, target.form, target.provider) == (4, 1, "", "")


def test_a_form_with_fewer_bits_is_used_unless_the_context_says_fp32():
    rounded = measured(1, 1, 1.0, 900.0, "weights8", "openvino", FP16)
    tuning = tuned(*WAYS, rounded)
    target = to_target(context(), 1, tuning)
    assert (target.form, target.provider, target.precision) == ("weights8", "openvino", FP16)
    exact = context()
    exact.cpu.precision_mode = FP32
    kept = to_target(exact, 1, tuning)
    assert (kept.form, kept.provider, kept.precision, kept.threads) == ("", "", FP32, 1)
    chosen = context()
    chosen.cpu._form = ""  # as `pinnace tune` says what it measures
    assert to_target(chosen, 1, tuning).form == ""


@pytest.mark.parametrize(
    ("mode", "precision"),
    [
        ("enforce_fp32", FP32),
        ("preferred_fp32", FP32),
        ("enforce_origin", FP32),
        ("preferred_optimal", FP16),
        ("enforce_fp16", FP16),
    ],
)
def test_precisions_of_a_simulated_device_become_those_of_the_cpu(monkeypatch, mode, precision):
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    made = Context()
    made.target = ["ascend"]
    made.ascend.precision_mode = mode
    assert to_target(made).precision == precision


def test_a_device_that_all_cores_simulate_binds_no_thread(monkeypatch):
    every = tuple(sorted(os.sched_getaffinity(0)))
    monkeypatch.setattr(planning, "allowed_cores", lambda: every)
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1")
    made = Context()
    made.target = ["ascend"]
    assert to_target(made).cores == ()
    monkeypatch.setattr(planning, "allowed_cores", lambda: (*every, 1000))
    assert to_target(made).cores == every


@pytest.mark.parametrize(("kind", "wrong"), [("gpu", "acl"), ("ascend", "cuda")])
def test_providers_of_a_simulated_device_are_its_own(monkeypatch, kind, wrong):
    monkeypatch.setenv("PINNACE_SIMULATE", f"{kind}:1")
    made = Context()
    made.target = [kind]
    getattr(made, kind).provider = wrong
    with pytest.raises(ArgumentValueError, match=f"{kind} provider '{wrong}' is not known; choose from ''"):
        to_target(made)
