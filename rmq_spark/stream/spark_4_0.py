"""The stream reader of Spark 4.0 and 4.1, which passes neither the start of a batch nor a limit, and hides the trigger.

What Spark has committed follows from the order of its calls. A query with a checkpoint begins with `partitions(N, N)`:
batch N is in its log, and either committed or about to be repeated. Batch N is committed when Spark calls `commit(N)`
or `partitions(N, N + 1)`; when it calls `latestOffset()` after `partitions(N - 1, N)`; and when it calls that again
after it got N for a second time, which is the only sign for an idle query that was restarted, and for a handler that
does not read its rows. A query without that first call has a new checkpoint.

Under `availableNow`, Spark calls `latestOffset()` once for the whole run: it processes one batch, which the next run
acks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import InputPartition

from rmq_core import ConfigurationError
from rmq_spark.place.options import WRAPPER_REFUSED
from rmq_spark.stream import options
from rmq_spark.stream.batch_leases import Offset
from rmq_spark.stream.reader import LeasedStreamReader
from rmq_spark.traces import without_trace


class Spark40StreamReader(LeasedStreamReader):
    """Streams a queue's messages; `availableNow` processes one batch, whose lease stays until the next run."""

    _end: Offset | None = None
    """The last offset that Spark has named or been options."""
    _ended = False
    """Whether Spark commits that offset before it calls `latestOffset()` again."""

    @without_trace
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Ack what Spark has committed; claim the next batch if messages are ready."""
        begin = self._end or self._fresh
        leases = self._leases_of(begin)
        if self._ended:
            leases.finish(begin.seq)
        most = self._most(self._options[options.MOST_MESSAGES], self._options[options.MOST_BYTES])
        self._end = self._claim(leases, begin, most, self._options[options.POLL])
        self._ended = self._end == begin
        return self._end.plain

    @without_trace
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return a batch's partitions, as for any Spark, and note how far Spark has come."""
        until = self._offset(end)
        if start != end:
            self._end, self._ended = until, True
        elif self._end is None:
            self._end = until
        elif self._end.stream != until.stream:
            self._refuse(self._end)
        return super().partitions(start, end)

    def _refuse(self, claimed: Offset) -> None:
        """Give back what was claimed for a stream that does not exist, and raise ConfigurationError."""
        if claimed.seq:
            self._queue.release(self._leases_of(claimed).lease(claimed.seq))
        raise ConfigurationError(WRAPPER_REFUSED)
