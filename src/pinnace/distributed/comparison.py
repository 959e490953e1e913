"""Checks, once at build time, that the ranks have matching parts of one model."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import Any, NamedTuple

from pinnace.distributed.communicator import Communicator, Link, Ranks
from pinnace.distributed.plan import Collective, Partition
from pinnace.errors import DistributedError, warn
from pinnace.types import Port
from pinnace.weights.source import Source

_SAMPLES, _SAMPLE = 64, 4096
"""Number and size in bytes of the samples of a file: parts of one model differ in nearly all of them."""


class CollectiveRecord(NamedTuple):
    """A collective in the form that ranks compare.

    `edges` are what one rank and another must agree about: the other rank, and the same text in both.
    """

    title: str
    group: Ranks
    what: str
    edges: tuple[tuple[int, str], ...] = ()


def match_ranks(
    world: Communicator, groups: Mapping[Collective, Ranks], partition: Partition, model: str, content: str
) -> Link:
    """Return a link for the collectives of a model; `content` is a digest of the file.

    Raises DistributedError in all ranks if they do not match. Warns if ranks seem to have each other's files.
    """
    world.watchdog.begin(f"the comparison of {model}")
    records = [record_of(collective, group, world.rank) for collective, group in groups.items()]
    own = {"model": model, "content": content, "partition": asdict(partition), "collectives": records}
    everyone = [json.loads(text) for text in world.gather(json.dumps(own))]
    models = [one["model"] for one in everyone]
    programs = [[_read(*record) for record in one["collectives"]] for one in everyone]
    try:
        compare_partitions([Partition(**one["partition"]) for one in everyone], models)
        rehearse(programs)
    except DistributedError as error:
        world.watchdog.fail(error)
        raise
    if why := suspicion(models, [one["content"] for one in everyone]):
        warn(why)
    return world.link(
        sorted({r.group for program in programs for r in program if not r.what.startswith("Exchange")})
    )


def record_of(collective: Collective, group: Ranks, rank: int) -> CollectiveRecord:
    """Return what the other ranks compare."""
    c = collective
    reduction = f" {c.op}" if c.kind in ("AllReduce", "ReduceScatter") else ""
    root = f" from rank {c.root}" if c.kind == "Broadcast" else ""
    what = f"{c.kind}{reduction}{root} of {', '.join(map(_text, c.takes)) or 'nothing'}"
    if c.kind != "Exchange":
        return CollectiveRecord(
            str(c), group, what, tuple((r, f"{what} {group}") for r in group if r != rank)
        )
    edges = [
        (group[to], f"{rank} to {group[to]}: {_text(x)} tag {c.tag}")
        for to, x in zip(c.to, c.takes, strict=False)
    ]
    edges += [
        (group[source], f"{group[source]} to {rank}: {_text(y)} tag {c.tag}")
        for source, y in zip(c.source, c.gives, strict=False)
    ]
    return CollectiveRecord(str(c), group, what, tuple(edges))


def _read(title: str, group: list[int], what: str, edges: list[Any]) -> CollectiveRecord:
    """Return a record of JSON, which has lists for tuples."""
    return CollectiveRecord(title, tuple(group), what, tuple(map(tuple, edges)))


def _text(port: Port) -> str:
    return f"{port.dtype.name.lower()}{list(port.shape)}"


def compare_partitions(partitions: Sequence[Partition], models: Sequence[str]) -> None:
    """Raise DistributedError unless these files are the parts of one model, in order of rank."""
    for rank, part in enumerate(partitions):
        if part.size and (part.size != len(partitions) or part.rank != rank):
            raise DistributedError(
                f"rank {rank} of {len(partitions)} has {models[rank]}, which is the part for rank "
                f"{part.rank} of {part.size}"
            )
        if part.model != partitions[0].model:
            raise DistributedError(
                f"ranks 0 and {rank} have parts of different models: {models[0]} and {models[rank]}"
            )


def rehearse(programs: Sequence[Sequence[CollectiveRecord]]) -> None:
    """Step through the collectives of all ranks. Raises DistributedError if they differ, or would deadlock.

    A rank goes on when each edge of its collective is one of the collective where the other rank is then.
    """
    at = [0] * len(programs)
    open_edges = [list(program[0].edges) if program else [] for program in programs]
    moved = True
    while moved:
        moved = False
        for rank, edges in enumerate(open_edges):
            for edge in tuple(edges):
                if edge not in edges:  # of a rank that sends to itself
                    continue
                edges.remove(edge)
                other, text = edge
                if (rank, text) in open_edges[other]:
                    open_edges[other].remove((rank, text))
                    moved = True
                else:
                    edges.append(edge)
        for rank, program in enumerate(programs):
            while at[rank] < len(program) and not open_edges[rank]:
                at[rank] += 1
                open_edges[rank] = list(program[at[rank]].edges) if at[rank] < len(program) else []
                moved = True
    waiting = {rank: program[at[rank]] for rank, program in enumerate(programs) if at[rank] < len(program)}
    if waiting:
        raise DistributedError(_mismatch(programs, at, waiting))


def _mismatch(
    programs: Sequence[Sequence[CollectiveRecord]], at: Sequence[int], waiting: Mapping[int, CollectiveRecord]
) -> str:
    places = [
        f"rank {rank} waits in collective {at[rank] + 1} of {len(program)}, {waiting[rank].title} "
        f"({waiting[rank].what})"
        if rank in waiting
        else f"rank {rank} has finished its {len(program)} collectives"
        for rank, program in enumerate(programs)
    ]
    for rank, record in waiting.items():
        for other, theirs in waiting.items():
            is_exchange = any(one.what.startswith("Exchange") for one in (record, theirs))
            if theirs.group == record.group and theirs.what != record.what and not is_exchange:
                return f"the ranks do not run parts of one model: {places[rank]}, and {places[other]}"
    return f"the ranks would wait for each other forever: {'; '.join(places)}"


def fingerprint(source: Source, files: Sequence[str]) -> str:
    """Return a digest of samples of a model file and the `files` beside it."""
    found = blake2b(digest_size=16)
    for file in ("", *files):
        data = source.bytes_of(file)
        found.update(len(data).to_bytes(8, "little"))
        step = max(_SAMPLE, len(data) // _SAMPLES)
        for start in range(0, len(data), step):
            found.update(data[start : start + _SAMPLE])
        found.update(data[-_SAMPLE:])
    return found.hexdigest()


def suspicion(models: Sequence[str], contents: Sequence[str]) -> str:
    """Return why the ranks, in order, seem to have each other's files; "" if they do not."""
    for rank, content in enumerate(contents):
        first = contents.index(content)
        if first < rank:
            return (
                f"ranks {first} and {rank} have the same file ({models[first]} and {models[rank]}), but "
                f"each rank of a model that was cut needs its own part"
            )
    numbers = [re.findall(r"\d+", os.path.join(*model.rsplit(os.sep, 2)[-2:])) for model in models]
    if len({re.sub(r"\d+", "#", model) for model in models}) > 1:
        return ""
    differing = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    order = [int(number) for number in differing[0]] if len(differing) == 1 else []
    if sorted(order) == list(range(len(models))) and order != sorted(order):
        has = ", ".join(f"rank {rank} has {model}" for rank, model in enumerate(models))
        return f"ranks seem to have each other's files: {has}"
    return ""
