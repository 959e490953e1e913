"""`pinnace bench NAME --url URL`: a model of a server that speaks the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pinnace.bench.remote import RemoteModel
from pinnace.bench.timing import RunLimit, collector_off
from pinnace.cli.bench_report import BenchReport, row_of
from pinnace.cli.console import note, progress
from pinnace.cli.inputs import Pictures, assign, feed, parse_shapes
from pinnace.cli.opening import batched
from pinnace.cli.settings import Setting


def measured_at(
    url: str,
    name: str,
    inputs: Sequence[str],
    settings: Sequence[Setting],
    warming: RunLimit,
    limit: RunLimit,
) -> BenchReport:
    """Measure one caller, clients and arrivals; free dimensions that nothing fixes are 1."""
    model = RemoteModel(url, name)
    report = BenchReport(name, engine=url, precision="as the server has it")
    names = [tensor.name for tensor in model.inputs]
    for number, setting in enumerate(settings, 1):
        shapes = parse_shapes(setting.case.shapes, names)
        if setting.case.batch:
            shapes |= batched(model.inputs, shapes, setting.case.batch)
        fed = feed(model.inputs, assign(inputs, names), shapes, Pictures())
        if number == 1:
            for tensor, one in zip(model.inputs, fed, strict=True):
                note(f"input {tensor.name} {list(one.array.shape)}: {one.source}", "input")
        arrays = [one.array for one in fed]
        submit, threads = model.submitting(arrays)
        doing = f"{setting} ({number} of {len(settings)})"
        with progress(doing, model=name), collector_off():
            try:
                report.add(row_of(setting, partial(model.client, arrays), submit, warming, limit))
            finally:
                threads.shutdown(cancel_futures=True)  # Ctrl-C leaves up to 100,000
    return report
