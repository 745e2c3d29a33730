"""Interleaved timing: every contender runs in short slices between two slices of its baseline.

A machine that slows down slows both, so the ratio of a slice to the baseline slices around it stays the same. The
figure is the median of these ratios, and the spread is their quartiles.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.figures import Spread


@dataclass(frozen=True, slots=True)
class Contender:
    """A slice of work of `units` operations; `before` and `after` prepare and clean up, untimed."""

    name: str
    run: Callable[[], Any]
    units: int
    before: Callable[[], Any] | None = None
    after: Callable[[], Any] | None = None


@dataclass(slots=True)
class Laps:
    """The rounds of one contender: seconds per operation, and rate over the baseline's rate."""

    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> Spread:
        return Spread.of(self.ratios)

    @property
    def rate(self) -> float:
        """Operations per second, at the median."""
        return 1 / Spread.of(self.seconds).median


def race(baseline: Contender, contenders: Sequence[Contender], rounds: int, warm: int = 1) -> dict[str, Laps]:
    """Return the laps of the baseline and of each contender, by name; each runs `warm` untimed slices before."""
    laps = {each.name: Laps() for each in (baseline, *contenders)}
    for each in (baseline, *contenders) * warm:
        _slice(each)
    for _ in range(rounds):
        before = _slice(baseline)
        for each in contenders:
            taken = _slice(each)
            after = _slice(baseline)
            _record(laps, baseline, each, (before, taken, after))
            before = after
    return laps


async def race_async(baseline: Contender, contenders: Sequence[Contender], rounds: int) -> dict[str, Laps]:
    """Do the same for contenders that return awaitables."""
    laps = {each.name: Laps() for each in (baseline, *contenders)}
    for each in (baseline, *contenders):
        await _slice_async(each)
    for _ in range(rounds):
        before = await _slice_async(baseline)
        for each in contenders:
            taken = await _slice_async(each)
            after = await _slice_async(baseline)
            _record(laps, baseline, each, (before, taken, after))
            before = after
    return laps


def _record(laps: dict[str, Laps], baseline: Contender, each: Contender, taken: tuple[float, float, float]) -> None:
    bare_s = (taken[0] + taken[2]) / 2
    laps[baseline.name].seconds.append(bare_s)
    laps[baseline.name].ratios.append(1.0)
    laps[each.name].seconds.append(taken[1])
    laps[each.name].ratios.append(bare_s / taken[1])


def _slice(each: Contender) -> float:
    if each.before:
        each.before()
    began = perf_counter()
    each.run()
    taken_s = perf_counter() - began
    if each.after:
        each.after()
    return taken_s / each.units


async def _slice_async(each: Contender) -> float:
    await _done(each.before)
    began = perf_counter()
    await each.run()
    taken_s = perf_counter() - began
    await _done(each.after)
    return taken_s / each.units


async def _done(step: Callable[[], Awaitable[Any]] | None) -> None:
    if step:
        await step()
