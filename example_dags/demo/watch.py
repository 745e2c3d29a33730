"""Report the state of the queue while an orchestrator works on it, and how a retry gets a killed driver's lease."""

from __future__ import annotations

import time
from pathlib import Path

from example_dags.demo.progress import Progress
from rmq_core import LeasedQueue, LeaseInfo


class QueueWatch:
    """Poll one queue. The driver creates the file `marker` just before it is killed."""

    def __init__(self, who: str, queue: LeasedQueue, progress: Progress, marker: Path | None) -> None:
        self._who, self._queue, self._progress, self._marker = who, queue, progress, marker
        self._held: LeaseInfo | None = None
        self._killed_at: float | None = None
        self.crash: str | None = None

    def look(self) -> None:
        """Report the changes since the last poll."""
        stats = self._queue.stats()
        self._progress.watch(self._who, "queue", f"{stats.ready:,} ready, {stats.leased:,} leased, {stats.dead:,} dead")
        if self._killed_at is None and self._marker and self._marker.exists():
            self._killed_at = time.monotonic()
            self._progress.say(self._who, "the Spark driver was killed with SIGKILL in mid-job")
        for lease in self._queue.leases():
            if self._held is None or lease.fence != self._held.fence:
                self._progress.say(self._who, f"the lease of {lease.count:,} items {self._change(lease)}")
                self._held = lease
        if stats.leased:
            self._progress.still(self._who, "Spark is at work")

    def _change(self, lease: LeaseInfo) -> str:
        """Describe how the lease changed its holder.

        Every change of the holder gets a new fencing number; only a retry counts as a takeover.
        """
        if self._held is None or lease.id != self._held.id:
            return f"was claimed as {lease.id}"
        if lease.takeovers > self._held.takeovers:
            return self._retried(lease)
        if self._killed_at is not None and self.crash is None:
            return "was taken back from the dead driver, to be kept for the retry"
        return "was adopted by the Spark driver"

    def _retried(self, lease: LeaseInfo) -> str:
        if self._killed_at is not None and self.crash is None:
            later = time.monotonic() - self._killed_at
            self.crash = (
                f"the Spark driver was killed with SIGKILL in mid-job; {later:.1f} s later the retry re-adopted the"
                f" same lease with all its {lease.count:,} items: {lease.id}"
            )
        return "was taken over by the retry"
