"""Groups of ranks that collectives name, and MindSpore's file of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pinnace.distributed.communicator import Ranks
from pinnace.distributed.plan import Collective
from pinnace.errors import ConfigError

_GROUPS = """\
message ParallelGroupRanks
  1 dim repeated uint32
message ParallelGroupItem
  1 group_name string
  2 parallel_group_ranks ParallelGroupRanks
message ParallelGroupMap
  1 parallel_group_item repeated ParallelGroupItem
"""
"""The messages of a file of groups, as a field table (`formats/messages.py`)."""


def groups_of(path: str) -> dict[str, Ranks]:
    """Read the groups of a file by MindSpore (GROUP_INFO_FILE), ranks by name; {} for "". Raises ConfigError.

    The file is the message ParallelGroupMap of its node_strategy.proto.
    """
    if not path:
        return {}
    from google.protobuf.message import DecodeError

    from pinnace.formats.messages import message_class

    try:
        read = message_class(_GROUPS, "groups", "ParallelGroupMap").FromString(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read group_info_file {path}: {error.strerror}") from None
    except (DecodeError, UnicodeDecodeError):
        raise ConfigError(f"{path}: is not a group_info_file of MindSpore") from None
    return {item.group_name: tuple(item.parallel_group_ranks.dim) for item in read.parallel_group_item}


def group_of(collective: Collective, groups: Mapping[str, Ranks], size: int, rank: int) -> Ranks:
    """Return the ranks that take part in a collective.

    Raises ConfigError if the group is unknown, if it lacks this rank, or if the file is for another rank.
    """
    if collective.ranks:
        group = collective.ranks
    elif not collective.group or collective.group.endswith("world_group"):
        group = tuple(range(size))
    elif collective.group in groups:
        group = groups[collective.group]
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
        owner = group[collective.own] if collective.own < len(group) else collective.own
        raise ConfigError(
            f"{collective}: the file is the part of rank {owner}, but this is rank {rank}: ranks have each "
            f"other's files"
        )
    return group


def _check_size(collective: Collective, count: int) -> None:
    """Raise ConfigError if the shapes show that a file was partitioned for another number of ranks."""
    if collective.kind not in ("AllGather", "ReduceScatter", "AllToAll"):
        return
    shapes = (ports[0].shape for ports in (collective.takes, collective.gives))
    takes, gives = (shape[0] if shape else 1 for shape in shapes)
    fits = {
        "AllGather": gives == takes * count,
        "ReduceScatter": takes == gives * count,
        "AllToAll": takes == gives == count,
    }[collective.kind]
    if min(takes, gives) > 0 and not fits:
        raise ConfigError(
            f"{collective}: takes {takes} rows and gives {gives}, but {count} ranks take part: the file was "
            f"cut for another number of ranks"
        )
