"""Spans of OpenTelemetry that continue those of clients (`traceparent`); see `pinnace.tracing`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def continued(headers: Mapping[str, str]) -> Iterator[None]:
    """Let the spans of the block be below the span that headers name, if predictions are traced."""
    if "pinnace.tracing" not in sys.modules:
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)
