"""Check, once at build time, that the ranks have matching parts of one model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pinnace.distributed.communicator import Communicator, Link, Ranks
from pinnace.distributed.files import suspicion
from pinnace.distributed.steps import Collective, Partition
from pinnace.errors import ConfigError, DistributedError, warn
from pinnace.types import Port


@dataclass(frozen=True)
class CollectiveRecord:
    """A collective in the form that ranks compare; all ranks of `group` must have the same.

    `edges` are those of an exchange: "to" or "source", the other rank, and a description of the tensor.
    """

    title: str
    group: Ranks
    what: str
    edges: tuple[tuple[str, int, str], ...] = ()


def group_of(collective: Collective, known: Mapping[str, Ranks], size: int, rank: int) -> Ranks:
    """Return the ranks that take part in a collective.

    Raises ConfigError if the group is unknown, if it lacks this rank, or if the file is for another rank.
    """
    everyone = tuple(range(size))
    if collective.ranks:
        group = collective.ranks
    elif not collective.group or collective.group.endswith("world_group"):
        group = everyone
    elif collective.group in known:
        group = known[collective.group]
    else:
        raise ConfigError(
            f"{collective}: the ranks of group {collective.group!r} are not known; name the file that "
            f"MindSpore wrote with GROUP_INFO_FILE as context.group_info_file"
        )
    if rank not in group or max(group) >= size or len(set(group)) < len(group):
        raise ConfigError(
            f"{collective}: group {collective.group!r} has the ranks {list(group)}, and this is rank {rank} "
            f"of {size}"
        )
    if max(collective.root, *collective.to, *collective.source, 0) >= len(group):
        raise ConfigError(f"{collective}: names a rank that is not among the {len(group)} of its group")
    _check_size(collective, len(group))
    if collective.own not in (-1, group.index(rank)):
        whose = group[collective.own] if collective.own < len(group) else collective.own
        raise ConfigError(
            f"{collective}: the file is the part of rank {whose}, but this is rank {rank}: ranks have each "
            f"other's files"
        )
    return group


def _check_size(collective: Collective, count: int) -> None:
    """Raise ConfigError if the shapes show that a file was partitioned for another number of ranks."""
    if collective.kind not in ("AllGather", "ReduceScatter", "AllToAll"):
        return
    shapes = (ports[0].shape for ports in (collective.takes, collective.gives))
    takes, gives = (shape[0] if shape else 1 for shape in shapes)
    wanted = {"AllGather": takes * count, "ReduceScatter": takes // count}.get(collective.kind, gives)
    if min(takes, gives) > 0 and (wanted != gives or (collective.kind == "AllToAll" and takes != count)):
        raise ConfigError(
            f"{collective}: takes {takes} rows and gives {gives}, but {count} ranks take part: the file was "
            f"cut for another number of ranks"
        )


def agree(
    ranks: Communicator,
    collectives: Sequence[Collective],
    groups: Sequence[Ranks],
    part: Partition,
    model: str,
    content: str,
) -> Link:
    """Return a link for the collectives of a model. Raises DistributedError in all ranks if they do not
    match.

    `content` is a digest of the file. Warns if ranks seem to have each other's files.
    """
    ranks.watch.begin(f"the comparison of {model}")
    own = {
        "model": model,
        "content": content,
        "part": asdict(part),
        "meets": [asdict(_meet(c, g)) for c, g in zip(collectives, groups, strict=True)],
    }
    told = [json.loads(text) for text in ranks.gather(json.dumps(own))]
    try:
        _compare_parts([Partition(**one["part"]) for one in told], [one["model"] for one in told])
        _Rehearsal([[_read(meet) for meet in one["meets"]] for one in told]).run()
    except DistributedError as error:
        ranks.watch.fail(error)
        raise
    if why := suspicion([one["model"] for one in told], [one["content"] for one in told]):
        warn(why)
    everywhere = sorted({tuple(meet["group"]) for one in told for meet in one["meets"] if not meet["edges"]})
    return ranks.link(everywhere)


def _meet(collective: Collective, group: Ranks) -> CollectiveRecord:
    c = collective
    ways = (("to", c.to, c.takes), ("source", c.source, c.gives))
    edges = [
        (way, group[rank], f"{_text(port)} tag {c.tag}")
        for way, ranks, ports in ways
        for rank, port in zip(ranks, ports, strict=False)
    ]
    reduction = f" {c.op}" if c.kind in ("AllReduce", "ReduceScatter") else ""
    root = f" from rank {c.root}" if c.kind == "Broadcast" else ""
    what = f"{c.kind}{reduction}{root} of {', '.join(map(_text, c.takes)) or 'nothing'}"
    return CollectiveRecord(str(collective), group, what, tuple(edges))


def _read(told: dict[str, object]) -> CollectiveRecord:
    group, edges = told["group"], told["edges"]
    assert isinstance(group, list)
    assert isinstance(edges, list)
    return CollectiveRecord(str(told["title"]), tuple(group), str(told["what"]), tuple(map(tuple, edges)))


def _text(port: Port) -> str:
    return f"{port.dtype.name.lower()}{list(port.shape)}"


def _compare_parts(parts: Sequence[Partition], models: Sequence[str]) -> None:
    for rank, part in enumerate(parts):
        if part.size and (part.size != len(parts) or part.rank != rank):
            raise DistributedError(
                f"rank {rank} of {len(parts)} has {models[rank]}, which is the part for rank {part.rank} "
                f"of {part.size}"
            )
        if part.model != parts[0].model:
            raise DistributedError(
                f"ranks 0 and {rank} have parts of different models: {models[0]} and {models[rank]}"
            )


class _Rehearsal:
    """Simulates the collectives of all ranks, to find deadlocks and mismatches."""

    def __init__(self, programs: Sequence[Sequence[CollectiveRecord]]) -> None:
        self._programs = programs
        self._at = [0] * len(programs)
        self._edges = [list(meet.edges) if (meet := self._head(r)) else [] for r in range(len(programs))]

    def run(self) -> None:
        """Raise DistributedError if ranks would deadlock or exchange different tensors."""
        ranks = range(len(self._programs))
        while any(self._moves(rank) for rank in ranks):
            pass
        stuck = [rank for rank in ranks if self._head(rank)]
        if stuck:
            places = "; ".join(f"rank {rank} {self._place(rank)}" for rank in ranks)
            raise DistributedError(f"the ranks would wait for each other forever: {places}")

    def _head(self, rank: int) -> CollectiveRecord | None:
        program, at = self._programs[rank], self._at[rank]
        return program[at] if at < len(program) else None

    def _place(self, rank: int) -> str:
        meet, count = self._head(rank), len(self._programs[rank])
        if meet is None:
            return f"has finished its {count} collectives"
        return f"waits in collective {self._at[rank] + 1} of {count}, {meet.title} ({meet.what})"

    def _next(self, rank: int) -> None:
        self._at[rank] += 1
        meet = self._head(rank)
        self._edges[rank] = list(meet.edges) if meet else []

    def _moves(self, rank: int) -> bool:
        meet = self._head(rank)
        if meet is None:
            return False
        return self._exchanges(rank) if meet.what.startswith("Exchange") else self._meets(rank, meet)

    def _meets(self, rank: int, meet: CollectiveRecord) -> bool:
        heads = [self._head(other) for other in meet.group]
        for other, head in zip(meet.group, heads, strict=True):
            if head is None or head.what.startswith("Exchange"):  # done already, or not there yet
                continue
            if head.group == meet.group and head.what != meet.what:
                raise DistributedError(
                    f"the ranks do not run parts of one model: rank {rank} {self._place(rank)}, and rank "
                    f"{other} {self._place(other)}"
                )
        if any(head is None or (head.group, head.what) != (meet.group, meet.what) for head in heads):
            return False
        for other in meet.group:
            self._next(other)
        return True

    def _exchanges(self, rank: int) -> bool:
        moved = False
        for way, other, what in list(self._edges[rank]):
            back = ("source" if way == "to" else "to", rank, what)
            if back in self._edges[other]:
                self._edges[other].remove(back)
                self._edges[rank].remove((way, other, what))
                moved = True
        for place in {rank, *range(len(self._programs))}:
            head = self._head(place)
            if head is not None and head.what.startswith("Exchange") and not self._edges[place]:
                self._next(place)
                moved = True
        return moved
