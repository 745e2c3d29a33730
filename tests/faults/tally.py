"""Counts of the faults a run injected, for the summary at its end."""

from __future__ import annotations

from collections import Counter

faults: Counter[str] = Counter()


def count(fault: str, times: int = 1) -> None:
    """Note that a fault was injected."""
    faults[fault] += times


def table() -> list[str]:
    """One line for each kind of fault."""
    return [f"{times:>8,}  {fault}" for fault, times in sorted(faults.items())]
