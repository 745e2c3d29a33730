"""The stream reader of Spark 4.2 and later, which passes the start of a batch, a limit and the trigger.

Spark calls `latestOffset(start)` once its commit log has everything up to `start`; that call acks those batches and
claims the next. `commit` comes later, in the next batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rmq_spark.stream import options
from rmq_spark.stream.reader import LeasedStreamReader
from rmq_spark.traces import without_trace


class Spark42StreamReader(LeasedStreamReader, SupportsTriggerAvailableNow):
    """Streams a queue's messages; `availableNow` processes all that are ready at its start, batch by batch."""

    _budget: float = math.inf
    _patient = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit from the options. A limit in bytes replaces that in rows, as Spark accepts only one."""
        most_bytes = self._options[options.MOST_BYTES]
        return ReadMaxRows(self._options[options.MOST_MESSAGES]) if most_bytes is None else ReadMaxBytes(most_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on, claim at most the messages ready now, without waiting for more."""
        self._budget, self._patient = self._backlog().ready, False

    @without_trace
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Ack everything up to `start`, which Spark has committed; claim the next batch if messages are ready."""
        begin = self._offset(start)
        leases = self._leases_of(begin)
        leases.finish(begin.seq)
        end = self._claim(leases, begin, self._under(limit), self._options[options.POLL] if self._patient else 0)
        if end != begin:
            lease = leases.lease(end.seq)
            self._budget -= 0 if lease.takeovers else lease.count
        return end.plain

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the lag, which Spark shows as `latestOffset` of the source in the progress of the query.

        ready: messages that no batch has claimed yet; oldest_s: whole seconds for which the oldest has been ready.
        """
        backlog = self._backlog()
        oldest = {} if backlog.oldest_age is None else {"oldest_s": int(backlog.oldest_age)}
        return {"ready": backlog.ready, **oldest}

    def _under(self, limit: ReadLimit) -> int:
        """Return the largest number of messages for the next batch."""
        most = self._budget
        if not isinstance(limit, ReadAllAvailable):
            most = min(most, self._options[options.MOST_MESSAGES])
        if isinstance(limit, ReadMaxRows):
            most = min(most, limit.max_rows)
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options[options.MOST_BYTES]
        return self._most(most, most_bytes)
