"""Groups the dead letters in a list by the reasons of their newest failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rmq_core.envelope.reasons import group_of_reason, last_failure
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.selecting import PAGE, Changes
from rmq_core.policy import moment
from rmq_core.reports import OnProgress, ReasonGroup


def reasons_in(key: bytes, progress: OnProgress | None = None) -> Exchange[list[ReasonGroup]]:
    """Group the dead letters in a list, the newest first, by reason; the largest group comes first."""
    groups, changes = _Groups(), Changes(progress=progress)
    while not changes.over:
        total, *flat = yield script("kernel/list_failures", list=key, offset=changes.scanned, most=PAGE)
        groups.add(flat[::2], flat[1::2])
        changes.scanned += len(flat) // 2
        changes.report(max(total, changes.scanned))
        if not flat or changes.scanned >= total:
            break
    return groups.found()


class _Groups:
    """Counts failures by reason."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._newest: dict[str, tuple[int, str]] = {}
        self._oldest: dict[str, int] = {}

    def add(self, ids: Sequence[bytes], lines: Sequence[bytes]) -> None:
        for message_id, line in zip(ids, lines, strict=True):
            failure = last_failure(line)
            reason, at_ms = group_of_reason(failure.reason), failure.at_ms
            self._counts[reason] += 1
            if at_ms > self._newest.get(reason, (-1, ""))[0]:
                self._newest[reason] = at_ms, message_id.decode(errors="replace")
            if at_ms:
                self._oldest[reason] = min(at_ms, self._oldest.get(reason, at_ms))

    def found(self) -> list[ReasonGroup]:
        return [
            ReasonGroup(reason, count, moment(oldest) if oldest else None, moment(newest) if newest else None, example)
            for reason, count in self._counts.most_common()
            for oldest, (newest, example) in [(self._oldest.get(reason), self._newest[reason])]
        ]
