"""What a library took in slices that run by turns with slices of RMQ: rates and processor time, both as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.figures import Spread, percentile
from benchmarks.jobs_tally import Taken


@dataclass(slots=True)
class Laps:
    """What one library took, beside what RMQ took around it, per operation."""

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
        """What an operation took in the quickest tenth of the slices, in which nobody else wanted the processors."""
        return percentile(self.seconds, 10)

    @property
    def rate(self) -> str:
        return f"{1 / Spread.of(self.seconds).median:,.0f}/s"

    @property
    def shown(self) -> str:
        return f"{self.rate}, processor {Spread.of(self.work_ratios).median:.2f}"
