"""Spans of predictions below those of clients."""

from __future__ import annotations

import pytest
import tritonclient.grpc
import tritonclient.http
from tests.server.test_protocol import A, B, inputs
from tests.waiting import until

DOORS = {"http": tritonclient.http, "grpc": tritonclient.grpc}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_predictions_continue_the_trace_of_the_client(serving, simple, door):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from pinnace import tracing

    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    tracing.instrument(provider)
    try:
        server = serving(simple)
        port = server.http_port if door is tritonclient.http else server.grpc_port
        client = door.InferenceServerClient(f"127.0.0.1:{port}")
        client.infer("simple", inputs(door, A, B), headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
        until(lambda: any(f"{span.context.trace_id:x}" == TRACE for span in exported.get_finished_spans()))
        spans = [span for span in exported.get_finished_spans() if f"{span.context.trace_id:x}" == TRACE]
        whole = next(span for span in spans if span.name == "pinnace.predict")
        assert f"{whole.parent.span_id:016x}" == "00f067aa0ba902b7"
    finally:
        tracing.uninstrument()
