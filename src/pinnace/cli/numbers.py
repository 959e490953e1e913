"""Parsing of number lists on the command line."""

from __future__ import annotations

import typer


def usual_counts() -> list[int]:
    """Return 1 and the number of usable cores."""
    from pinnace.machine.cores import usable_core_count

    return sorted({1, usable_core_count()})


def rates(flag: str, text: str) -> list[float]:
    """Parse distinct numbers above 0 from "10,0.5"."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [0.0]
    if not all(0 < number < float("inf") for number in numbers):
        raise typer.BadParameter(f"{flag} {text}: expected numbers above 0 such as 10,50")
    return list(dict.fromkeys(numbers))


def counts(flag: str, text: str, least: int) -> list[int]:
    """Parse distinct whole numbers from "1,2,4"."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{flag} {text}: expected whole numbers such as 1,2,4") from None
    if min(numbers) < least:
        raise typer.BadParameter(f"{flag} {text}: every number must be at least {least}")
    return list(dict.fromkeys(numbers))
