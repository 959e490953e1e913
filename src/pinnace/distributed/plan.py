"""The plan of a rank: segments that an engine runs, and collectives between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinnace.engines.protocol import Executable
from pinnace.types import Array, Interface, Port


@dataclass(frozen=True)
class Partition:
    """The position of a file's part in a partitioned model; `pinnace shard` writes it, MindSpore does not."""

    model: str = ""
    rank: int = 0
    size: int = 0


@dataclass(frozen=True, eq=False)
class Collective:
    """One collective: a node of the domain `pinnace.distributed`.

    `takes` and `gives` are values of the graph. `group` is MindSpore's name, `ranks` its members if the file
    lists them. `op` is a reduction, `root` the rank whose tensor a Broadcast sends, `to` and `source` are the
    ranks that an Exchange sends its inputs to, and receives its outputs from: positions in the group, as is
    `own`, the rank that the file is for, -1 if unknown.
    """

    kind: str
    name: str
    takes: tuple[Port, ...]
    gives: tuple[Port, ...]
    group: str = ""
    ranks: tuple[int, ...] = ()
    op: str = "sum"
    root: int = 0
    to: tuple[int, ...] = ()
    source: tuple[int, ...] = ()
    tag: int = 0
    own: int = -1

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else self.kind


@dataclass(frozen=True, eq=False)
class Segment:
    """A graph that an engine runs between collectives; its ports have the whole graph's names of values."""

    ports: Interface


Step = Segment | Collective


@dataclass(frozen=True)
class Plan:
    """Steps in order; `constants` are weights that are inputs of a collective, or outputs."""

    partition: Partition
    steps: tuple[Step, ...]
    constants: dict[str, Array]

    @property
    def collectives(self) -> tuple[Collective, ...]:
        return tuple(step for step in self.steps if isinstance(step, Collective))

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(step for step in self.steps if isinstance(step, Segment))


@dataclass(frozen=True)
class RankPart:
    """One rank's part of a model, before the ranks meet; `segments` are those of the plan, in order."""

    name: str
    plan: Plan
    interface: Interface
    first_state: Sequence[Array]
    segments: Sequence[Executable]
