"""The results of a library whose slices alternate with slices of RMQ: rates and processor time, both as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.figures import Spread, percentile
from benchmarks.jobs_tally import Taken


@dataclass(slots=True)
class Laps:
    """The time that one library took per operation, compared with the RMQ slices before and after."""

    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    work_ratios: list[float] = field(default_factory=list)

    def note(self, taken: Taken, ours: Sequence[Taken]) -> None:
        bare_s = sum(each.wall_s for each in ours) / len(ours)
        worked_s = sum(each.client_s + each.server_s for each in ours) / len(ours)
        self.seconds.append(taken.wall_s)
        self.ratios.append(taken.wall_s / bare_s)
        self.work_ratios.append((taken.client_s + taken.server_s) / worked_s)

    @property
    def ratio(self) -> Spread:
        return Spread.of(self.ratios)

    @property
    def quick_s(self) -> float:
        """Return the time of an operation in the quickest tenth of the slices, least disturbed by other processes."""
        return percentile(self.seconds, 10)

    @property
    def rate(self) -> str:
        return f"{1 / Spread.of(self.seconds).median:,.0f}/s"

    @property
    def shown(self) -> str:
        return f"{self.rate}, processor {Spread.of(self.work_ratios).median:.2f}"
