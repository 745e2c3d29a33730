"""Metrics of a stream, reported after each of its batches: lag, rate, and the time until its lease expires.

`RmqMetricsListener` finds the streams of this package among a session's queries by the offsets they report. It reports
to a callback, to OpenTelemetry, or to both; Prometheus can scrape OpenTelemetry's exporter.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from rmq_core import ConfigurationError, RedisMessageQueueError, RedisSettings
from rmq_core.reports import LeaseInfo, QueueStats
from rmq_spark.place.source import Source, SourceQueue
from rmq_spark.stream.batch_leases import Offset

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamMetrics:
    """Metrics of a stream after one of its batches.

    lag: messages that are ready; oldest_s: seconds for which the oldest of them has been ready. isolated: ready
    messages that failed together before; batches get them apart from the others and in halves. leased: messages under
    leases of all consumers. rows, rows_per_s: of the batch. lease_margin_s: seconds until the lease of this stream
    expires, None without a lease. With heartbeats it stays above two thirds of the lease's time.
    """

    queue: str
    consumer: str
    batch: int
    rows: int
    rows_per_s: float
    lag: int
    oldest_s: float | None
    leased: int
    dead: int
    lease_margin_s: float | None
    isolated: int = 0


OnMetrics: TypeAlias = Callable[[StreamMetrics], object]
GAUGES = {
    "rmq.stream.lag": ("lag", "{message}", "Messages that are ready"),
    "rmq.stream.isolated": ("isolated", "{message}", "Ready messages that are tried apart from the others"),
    "rmq.stream.oldest": ("oldest_s", "s", "How long the oldest ready message has been ready"),
    "rmq.stream.rate": ("rows_per_s", "{message}/s", "Messages per second of the last batch"),
    "rmq.stream.lease_margin": ("lease_margin_s", "s", "Time until the stream's lease would expire"),
    "rmq.stream.dead": ("dead", "{message}", "Dead letters"),
}


class RmqMetricsListener(StreamingQueryListener):
    """Report metrics of this package's streams: `spark.streams.addListener(RmqMetricsListener(url, print))`.

    redis: a URL or RedisSettings, read after each batch. on_metrics: called with StreamMetrics; its errors are logged.
    meter: an OpenTelemetry Meter, which gets gauges with the attributes `queue` and `consumer`. discipline: that of the
    queues.
    """

    def __init__(
        self,
        redis: RedisSettings | str,
        on_metrics: OnMetrics | None = None,
        *,
        meter: Any = None,
        discipline: str = "leased",
    ) -> None:
        if on_metrics is None and meter is None:
            raise ConfigurationError("give on_metrics, meter or both: without them no metrics are reported")
        self._settings = RedisSettings.from_url(redis) if isinstance(redis, str) else redis
        self._discipline = discipline
        self._on_metrics = on_metrics
        gauges = GAUGES.items() if meter is not None else ()
        self._gauges = [(field, meter.create_gauge(name, unit, text)) for name, (field, unit, text) in gauges]
        self._queues: dict[str, SourceQueue] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: a query has no metrics before its first batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report each source of the query that belongs to this package."""
        progress = event.progress
        for source in progress.sources:
            offset = offset_of(source.endOffset)
            if offset is not None:
                self.report(offset, progress.batchId, source.numInputRows, _number(source.processedRowsPerSecond))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002  Spark's name
        """Close the connections; another query opens its own."""
        while self._queues:
            self._queues.popitem()[1].close()

    def report(self, offset: Offset, batch: int, rows: int, rows_per_s: float) -> None:
        """Read from Redis and report to callback and gauges. Log errors, because a listener must not fail its query."""
        try:
            metrics = self._look(offset, batch, rows, rows_per_s)
            if self._on_metrics is not None:
                self._on_metrics(metrics)
        except RedisMessageQueueError as error:
            log.warning("no metrics of queue %r: %s", offset.queue, error)
        except Exception:
            log.exception("on_metrics raised")
        else:
            about = {"queue": metrics.queue, "consumer": metrics.consumer}
            for field, gauge in self._gauges:
                if (value := getattr(metrics, field)) is not None:
                    gauge.set(value, about)

    def _look(self, offset: Offset, batch: int, rows: int, rows_per_s: float) -> StreamMetrics:
        if offset.queue not in self._queues:
            self._queues[offset.queue] = Source(self._settings, offset.queue, self._discipline).open()
        queue = self._queues[offset.queue]
        stats: QueueStats = queue.stats()
        infos = (queue.lease_info(offset.at(seq).lease_id) for seq in (offset.seq, offset.seq + 1))
        return StreamMetrics(
            offset.queue, offset.consumer, batch, rows, rows_per_s, stats.ready, stats.oldest_age, stats.leased,
            stats.dead, margin_s([info for info in infos if info is not None], datetime.now(UTC)),
            stats.isolated,
        )  # fmt: skip


def offset_of(text: str | None) -> Offset | None:
    """Return the offset in a query's progress, or None when the source is not of this package."""
    try:
        plain = json.loads(text or "")
        return Offset(plain["queue"], plain["consumer"], plain["stream"], plain["seq"])
    except (ValueError, KeyError, TypeError):
        return None


def margin_s(leases: list[LeaseInfo], now: datetime) -> float | None:
    """Return the seconds until the first of these leases expires, or None when none of them ever expires."""
    left = [(info.deadline - now).total_seconds() for info in leases if info.deadline is not None]
    return min(left, default=None)


def _number(rate: float | None) -> float:
    """Return a finite rate: for a batch that took no time, Spark reports no rate, or one that is not finite."""
    return 0.0 if rate is None or not math.isfinite(rate) else rate
