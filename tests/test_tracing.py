"""Spans of predictions, as the SDK of OpenTelemetry exports them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.waiting import until

import pinnace

exporting = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF  # noqa: E402

from pinnace import tracing  # noqa: E402

ADD = Path(__file__).parent / "data" / "api" / "add.onnx"
X = np.ones((3, 4, 5), np.float32)
PARTS = ["pinnace.copy", "pinnace.queue", "pinnace.run"]


class Traced:
    """A provider whose spans can be read."""

    def __init__(self, **options):
        self.provider, self._exporter = TracerProvider(**options), exporting.InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("service")

    def finished(self):
        return self._exporter.get_finished_spans()

    def trees(self):
        """Return the exported `pinnace.predict` spans, each with those below it by name."""
        spans = self.finished()
        self._exporter.clear()
        return [
            (span, {s.name: s for s in spans if s.parent and s.parent.span_id == span.context.span_id})
            for span in spans
            if span.name == "pinnace.predict"
        ]


@pytest.fixture
def traced():
    traced = Traced()
    tracing.instrument(traced.provider)
    yield traced
    tracing.uninstrument()


def runner_of(path, **options):
    context = pinnace.Context(thread_num=1)
    context.parallel.workers_num = 1
    context.parallel.config_info = {"runner": options}
    runner = pinnace.ModelParallelRunner()
    runner.build_from_file(path, context)
    return runner


@pytest.fixture
def written(tmp_path):
    def write(graph):
        path = tmp_path / "model.onnx"
        onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> g {graph}'), path)
        return path

    return write


ROWS = "(float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }"
RESHAPED = "(float[n] x, int64[1] shape) => (float[m] y) { y = Reshape(x, shape) }"


@pytest.mark.parametrize("call", ["predict", "predict in time", "submit"])
def test_a_prediction_is_a_span_of_copy_queue_and_run(traced, call):
    with runner_of(ADD) as runner:
        with traced.tracer.start_as_current_span("handler") as handler:
            if call == "submit":
                runner.submit([X, X]).result()
            else:
                runner.predict([X, X], timeout=300 if "time" in call else None)
        until(lambda: runner.stats().served)
    ((span, below),) = traced.trees()
    assert (span.attributes["pinnace.model"], span.attributes["pinnace.batch"]) == ("add.onnx", 1)
    assert span.parent.span_id == handler.get_span_context().span_id
    assert span.status.is_ok or span.status.is_unset
    assert sorted(below) == PARTS
    copy, queue, run = (below[name] for name in PARTS)
    assert span.start_time == copy.start_time <= copy.end_time <= queue.start_time
    assert queue.start_time <= queue.end_time == run.start_time <= run.end_time == span.end_time


def test_requests_of_a_batch_have_traces_of_their_own(traced, written):
    with runner_of(written(ROWS), max_batch_size="8", max_queue_delay_us="500000") as runner:
        calls = []
        for name in ("one", "other"):
            with traced.tracer.start_as_current_span(name) as handler:
                future = runner.submit([np.ones((4, 2), np.float32)])
            calls.append((handler.get_span_context().trace_id, future))
        for _, future in calls:
            future.result(300)
        until(lambda: runner.stats().batches == 1)
        trees = traced.trees()
        assert [span.context.trace_id for span, _ in trees] == [trace_id for trace_id, _ in calls]
        assert [span.attributes["pinnace.batch"] for span, _ in trees] == [2, 2]
        assert len({below["pinnace.run"].start_time // 1000 for _, below in trees}) <= 2


def test_parts_of_data_parallel_are_spans_below_one(traced, written, monkeypatch):
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:2")
    context = pinnace.Context()
    context.target = ["ascend"]
    with pinnace.DataParallel(written(ROWS), context) as two:
        with traced.tracer.start_as_current_span("handler") as handler:
            two.predict([np.ones((6, 2), np.float32)])
        until(lambda: any(span.name == "pinnace.predict" for span in traced.finished()))
        spans = traced.finished()
        ((span, below),) = traced.trees()
        assert (span.attributes["pinnace.model"], sorted(below)) == ("model.onnx", PARTS)
        assert span.parent.span_id == handler.get_span_context().span_id
        runs = [run for run in spans if run.name == "pinnace.run"]
        assert len(runs) == sum(one.name == "pinnace.queue" for one in spans) == 2
        assert span.end_time == max(run.end_time for run in runs)
        assert span.status.is_unset

        tracing.uninstrument()
        with pytest.raises(pinnace.DataMismatchError):
            two.predict([np.ones((6, 3), np.float32)])
    assert not traced.trees()


def test_a_failure_is_recorded(traced, written):
    with runner_of(written(RESHAPED)) as runner, pytest.raises(pinnace.EngineError):
        runner.predict([np.zeros(3, np.float32), np.array([7])])
    ((span, below),) = traced.trees()
    assert not span.status.is_ok
    assert "EngineError" in span.events[0].attributes["exception.type"]
    assert sorted(below) == PARTS


def test_a_model_that_was_built_before_is_not_traced(traced):
    tracing.uninstrument()
    with runner_of(ADD) as before:
        tracing.instrument(traced.provider)
        before.predict([X, X])
        before.resize(before.get_inputs(), [list(X.shape)] * 2)
        before.predict([X, X])
    assert not traced.trees()


def test_a_resized_model_is_traced(traced, written):
    with runner_of(written(ROWS)) as runner:
        runner.resize(runner.get_inputs(), [[3, 2]])
        runner.predict([np.ones((3, 2), np.float32)])
    assert len(traced.trees()) == 1


def test_a_trace_that_is_not_sampled_has_no_spans():
    traced = Traced(sampler=ALWAYS_OFF)
    tracing.instrument(traced.provider)
    with runner_of(ADD) as runner:
        tracing.uninstrument()
        runner.predict([X, X])
    assert not traced.trees()
