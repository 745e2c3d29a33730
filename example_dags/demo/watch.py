"""Report the state of the queue and of Spark's tasks, and how a retry gets the lease of a killed driver."""

from __future__ import annotations

import time
from pathlib import Path

from example_dags.demo.progress import Progress
from rmq_core import LeasedQueue
from rmq_core.reports import LeaseInfo


class QueueWatch:
    """Poll one queue.

    The driver creates the file `marker` just before it is killed, and writes into the file `tasks` how many of its
    tasks are done.
    """

    def __init__(
        self, who: str, queue: LeasedQueue, progress: Progress, marker: Path | None, tasks: Path | None = None
    ) -> None:
        self._who, self._queue, self._progress, self._marker, self._tasks = who, queue, progress, marker, tasks
        self._held: LeaseInfo | None = None
        self._killed_at: float | None = None
        self.crash: str | None = None
        self.shards: dict[int, int] = {}
        """By the slot of each shard, how many of the queue's messages a lease held there."""

    def poll(self) -> None:
        """Report the changes since the last poll."""
        stats = self._queue.stats()
        counts = f"{stats.ready:,} items ready to be claimed, {stats.leased:,} held under a lease, {stats.dead:,} dead"
        self._progress.watch(self._who, "queue", counts)
        if self._killed_at is None and self._marker and self._marker.exists():
            self._killed_at = time.monotonic()
            self._progress.say(self._who, "the Spark driver was killed with SIGKILL in mid-job")
            if self._tasks:
                self._tasks.unlink(missing_ok=True)  # the retry starts with no task done
        for shard in self._queue.admin.shards():
            if shard.stats:
                self.shards[shard.slot] = max(self.shards.get(shard.slot, 0), shard.stats.leased)
        leases = self._queue.admin.leases()
        for lease in leases:
            if self._held is None or lease.fence != self._held.fence:
                self._progress.say(self._who, f"the lease of {lease.count:,} items {self._change(lease)}")
                self._held = lease
        if leases:
            self._progress.still(self._who, self._spark())
        else:
            self._report_ack()

    def _spark(self) -> str:
        """Say how many of Spark's tasks are done."""
        done, _, total = (self._tasks.read_text() if self._tasks and self._tasks.exists() else "").partition(" ")
        return f"Spark: {done} of {total} tasks done so far" if total else "Spark is starting"

    def _report_ack(self) -> None:
        """Say how many items were acked, when the last lease is gone because it was acked."""
        if self._held is not None and (record := self._queue.settled(self._held.id)) is not None:
            self._progress.watch(self._who, "acked", f"{record.acked:,} items, now that their results are written")

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
