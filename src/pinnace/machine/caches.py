"""The caches of the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from pinnace.machine.cores import CPUS, allowed_cores, parse_cores


@dataclass(frozen=True)
class Cache:
    """A cache that the first usable core has; `kind` is "Data", "Instruction" or "Unified".

    `cores` is the number of cores that share it.
    """

    level: int
    kind: str
    bytes: int
    cores: int

    def __str__(self) -> str:
        size = f"{self.bytes >> 20} MiB" if self.bytes >= 1 << 20 else f"{self.bytes >> 10} KiB"
        shared = f" for {self.cores} cores" if self.cores > 1 else ""
        kind = {"Data": "d", "Instruction": "i"}.get(self.kind, "")
        return f"L{self.level}{kind} {size}{shared}"


def caches() -> list[Cache]:
    """Return the caches, the nearest first; [] if sysfs does not tell."""
    found = []
    for folder in sorted((CPUS / f"cpu{allowed_cores()[0]}" / "cache").glob("index[0-9]*")):
        try:
            level, kind, size, cores = (
                (folder / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list")
            )
        except OSError:
            continue
        found.append(Cache(int(level), kind, int(size.removesuffix("K")) << 10, len(parse_cores(cores))))
    return found
