"""Cache entries of one rank's part of a model: the plan, and an inner entry for each segment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.cache import entry as entries
from pinnace.cache.entry import PLAN, Damaged, Entry
from pinnace.cache.folder import Record
from pinnace.distributed.plan import Collective, Partition, Plan, RankPart, Segment, Step
from pinnace.engines.protocol import Compiled, Executable
from pinnace.types import Interface, Port

if TYPE_CHECKING:  # loading needs no compiler
    from pinnace.lowering.graph import Compilable

_SEGMENTS, _CONSTANTS = "segments", "constants"


def compile_into(
    folder: Path, graph: Compilable, compile_segment: Callable[[Compilable, Path], Compiled]
) -> Compiled:
    """Partition a graph, and write to `folder` what `load` needs. Raises as `compile_segment` does."""
    from pinnace.distributed.segments import split

    whole = Compiled(graph.interface, tuple(value.numpy() for value in graph.first_state), ())
    plan, segments = split(graph)
    for number, segment in enumerate(segments):
        place = folder / _SEGMENTS / str(number)
        place.mkdir(parents=True)
        entries.write(place, compile_segment(segment, place), segment.name, "")
    place = folder / _CONSTANTS
    place.mkdir()
    constants = Compiled(Interface((), (), (), {}), tuple(plan.constants.values()), ())
    entries.write(place, constants, graph.name, "")
    record = {
        "partition": asdict(plan.partition),
        "steps": [_as_json(step) for step in plan.steps],
        "constants": list(plan.constants),
    }
    (folder / PLAN).write_text(json.dumps(record), encoding="utf-8")
    return whole


def load(entry: Entry, name: str, load_segment: Callable[[Compiled, Path], Executable]) -> RankPart:
    """Load the part of a rank, to run after the ranks have met; `name` is the model's. Raises as
    `load_segment`.
    """
    record = json.loads((entry.folder / PLAN).read_text(encoding="utf-8"))
    count = sum("segment" in step for step in record["steps"])
    try:
        folders = [entry.folder / _SEGMENTS / str(number) for number in range(count)]
        inner = [entries.described(folder) for folder in folders]
        constants = entries.described(entry.folder / _CONSTANTS).compiled.first_state
    except Damaged as damage:  # since the entry was checked
        raise OSError(str(damage)) from None
    plan = Plan(
        Partition(**record["partition"]),
        tuple(map(_step, record["steps"])),
        dict(zip(record["constants"], constants, strict=True)),
    )
    segments = [load_segment(one.compiled, one.folder) for one in inner]
    return RankPart(name, plan, entry.compiled.interface, entry.compiled.first_state, segments)


def _as_json(step: Step) -> Record:
    if isinstance(step, Segment):
        return {"segment": entries.interface_record(step.ports)}
    takes, gives = ([port.record() for port in ports] for ports in (step.takes, step.gives))
    return {"collective": asdict(step) | {"takes": takes, "gives": gives}}


def _step(record: Record) -> Step:
    if "segment" in record:
        return Segment(entries.interface(record["segment"]))
    items = record["collective"].items()
    fields: Record = {name: tuple(v) if isinstance(v, list) else v for name, v in items}
    fields |= {name: tuple(map(Port.of_record, fields[name])) for name in ("takes", "gives")}
    return Collective(**fields)
