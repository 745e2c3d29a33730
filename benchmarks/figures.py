"""Measured figures and their targets.

A figure is a number of this run with its spread; a target is a bound on it. Targets are ratios or bytes, never rates,
because a rate depends on the machine. A document lists the figures that were not measured, and by how much a figure
misses its target.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some rounds, and the lower and upper quartile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """The spread of at least one value."""
        known = sorted(values)
        if len(known) == 1:
            return cls(known[0], known[0], known[0])
        low, median, high = statistics.quantiles(known, n=4, method="inclusive")
        return cls(median, low, high)


def percentile(values: Sequence[float], rank: int) -> float:
    """The value below which `rank` percent of the values lie."""
    return statistics.quantiles(values, n=100, method="inclusive")[rank - 1] if len(values) > 1 else values[0]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `context` contains the numbers behind it, such as absolute numbers of this machine."""

    name: str
    spread: Spread
    unit: str = ""
    """B, ms, /s; nothing for a ratio."""
    context: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the median of a figure."""

    bound: float
    most: bool = False
    """True when less is better."""

    def met(self, value: float) -> bool:
        return value <= self.bound if self.most else value >= self.bound

    def share(self, value: float) -> float:
        """Return the reached share of the target: 1 or more if the target is met."""
        if self.most:
            return self.bound / value if value > 0 else float("inf")
        return value / self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.most else '≥'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers that explain figures without having targets of their own."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(slots=True)
class Findings:
    """The results of a benchmark."""

    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        self.figures += other.figures
        self.tables += other.tables
