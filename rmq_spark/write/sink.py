"""Publishing a DataFrame: `df.write.format("rmq").mode("append")`, and what batch and stream have in common.

`delivery=staged` (default): tasks stage rows; when all tasks succeed, the driver publishes what the successful attempts
staged. A failed job publishes nothing. `delivery=direct`: tasks publish as they run: faster and visible at once, but a
retried task publishes duplicates unless `dedupKey` is set. A queue in shards needs `direct`, as no step publishes in
several slots.
The driver keeps a `publication` open while rows are published: in staged delivery, during the commit; else from before
the first task to the end of the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmq_core import (
    ConfigurationError,
    LeasedConfig,
    LeasedQueue,
    Overflow,
    QueueUnavailable,
    Stage,
    Unsupported,
)
from rmq_core.orchestrate import kept_open
from rmq_spark.place.options import Option, OptionValues, duration, flag, one_of, text, whole
from rmq_spark.place.source import DISCIPLINE, PLACE, Source, publisher_headers
from rmq_spark.schema import WRITTEN, ArrowBatch
from rmq_spark.write.columns import SinkColumns, columns_of
from rmq_spark.write.settling import OPERATION, RmqSettler, settler_of

log = logging.getLogger(__name__)

DELIVERY = one_of("delivery", "staged", "direct").or_else("staged")
DEDUP_KEY = text("dedupKey", "the name of a column").or_else(None)
DEDUP_WINDOW = duration("dedupWindow").or_else(3600.0)
JSON = flag("json").or_else(default=False)
MAX_READY = whole("maxReady").or_else(None)
PUBLISHER = flag("publisherHeader").or_else(default=False)
WAIT_FOR_ROOM = duration("waitForRoom", 0).or_else(0.0)
SINK_ID = text("sinkId").or_else(None)
KEEP_STAGED = duration("keepStaged", 1).or_else(86400.0)
PUBLICATION = text("publication", "what the rows are a part of, such as a month").or_else(None)
OPTIONS: tuple[Option[Any], ...] = (
    *PLACE, OPERATION, DELIVERY, DEDUP_KEY, DEDUP_WINDOW, JSON, MAX_READY, WAIT_FOR_ROOM, SINK_ID, KEEP_STAGED,
    PUBLISHER, PUBLICATION,
)  # fmt: skip
QUERY_ID = "sql.streaming.queryId"
"""Spark's local property with the streaming query id, stable across restarts from a checkpoint."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's commit message: its stage, if any, and its streaming query id."""

    stage: Stage | None = None
    query: str = ""


@dataclass(frozen=True)
class Sink:
    """Sink settings. Pickled to executors with the credentials, which no plan or UI shows.

    named: whether messages carry a header with the Spark application's id.
    """

    place: Source
    config: LeasedConfig
    columns: SinkColumns
    direct: bool
    sink_id: str | None
    keep_s: float
    named: bool = True
    publication: str | None = None

    def write(self, batches: Iterator[ArrowBatch]) -> Written:
        """Publish or stage a task's rows."""
        headers = {**(publisher_headers() if self.named else {}), **self._counted()}
        found = (self.columns.messages(batch, headers) for batch in batches)
        column = self.columns.payloads(batches)
        messages = chain.from_iterable(found) if column is None else column
        with self.open() as queue:
            if not self.direct:
                return Written(queue.stage(messages, headers=headers, keep=self.keep_s), _query())
            queue.publish_many(messages, headers=headers)
        return Written()

    def _counted(self) -> dict[str, str]:
        """Return the header that says what the rows are a part of. Tasks open nothing: Spark may kill any of them."""
        return {} if self.publication is None else {WRITTEN["publication"].header: self.publication}

    def begin(self) -> None:
        """Open the publication if tasks publish. Raises ConfigurationError if the queue counts none, or stages none."""
        if self.direct and self.publication is None:
            return
        with self.open() as queue:
            if not self.direct:
                queue.drop_staged(())  # as any use of stages, refused in shards
            if self.publication is not None:
                (queue.open_publication if self.direct else queue.publication)(self.publication)

    def end(self) -> None:
        """Let a publication end that `begin` has opened."""
        if self.direct and self.publication is not None:
            with self.open() as queue, suppress(QueueUnavailable):  # it ends some minutes later then
                queue.close_publication(self.publication)

    def publish(self, written: Iterable[WriterCommitMessage | None], sink: str | None, batch: int) -> None:
        """Publish the tasks' stages, unless this sink has already published the batch."""
        if self.direct:
            return
        with self.open() as queue, kept_open(queue, self.publication):
            published = queue.publish_staged(stages_of(written), sink=sink, batch=batch)
        if not published:
            log.warning(
                "batch %d of sink %r was published before: these rows are dropped; if they are different rows, give"
                " them another sinkId, such as the name of a claimed batch", batch, sink,
            )  # fmt: skip

    def forget(self, written: Iterable[WriterCommitMessage | None]) -> None:
        """Drop the reported stages of a failed job; unreported ones expire."""
        if stages := stages_of(written):
            with self.open() as queue:
                queue.drop_staged(stages)

    def open(self) -> LeasedQueue:
        """Open the sink's queue."""
        return LeasedQueue(self.place.settings, self.place.queue, self.config)


class SinkWriter:
    """Shared base of the batch and stream writers."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[ArrowBatch]) -> Written:
        """Write one task's rows."""
        return self._sink.write(iterator)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: ARG002  Spark's signature
        """Drop a failed job's stages."""
        self._sink.forget(messages)
        self._sink.end()


class RmqWriter(SinkWriter, DataSourceArrowWriter):
    """Write a DataFrame to a queue; with a `sinkId`, only once for that id."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the stages."""
        self._sink.publish(messages, self._sink.sink_id, 0)
        self._sink.end()


def writer_of(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> RmqWriter | RmqSettler:
    """Build the writer for `format("rmq")`. Raises ConfigurationError before any job starts."""
    if overwrite:
        raise ConfigurationError('a queue cannot be overwritten: use mode("append")')
    if OPERATION.value(given.get(OPERATION.name)) != "publish":
        return settler_of(given, schema)
    sink = sink_of(given, schema)
    sink.begin()  # Spark makes the writer when the job starts
    return RmqWriter(sink)


def sink_of(given: Mapping[str, str], schema: StructType) -> Sink:
    """Build a Sink from options and schema."""
    options = OptionValues(given, OPTIONS)
    if options[DISCIPLINE] != "leased":
        raise Unsupported(options[DISCIPLINE], 'staging (needed by a sink of format("rmq"))', ("leased",))
    direct = options[DELIVERY] == "direct"
    columns = columns_of(schema, options[DEDUP_KEY], as_json=options[JSON])
    _check_used(options, columns, direct=direct)
    return Sink(
        Source.of(options), _config(options), columns, direct=direct, sink_id=options[SINK_ID],
        keep_s=options[KEEP_STAGED], named=options[PUBLISHER], publication=options[PUBLICATION],
    )  # fmt: skip


def stages_of(written: Iterable[WriterCommitMessage | None]) -> list[Stage]:
    """Return the stages of a job's tasks, in partition order."""
    return [each.stage for each in written if isinstance(each, Written) and each.stage]


def _check_used(options: OptionValues, columns: SinkColumns, *, direct: bool) -> None:
    """Raise ConfigurationError for options that would have no effect, or contradict others."""
    if "publication" in columns.own:
        options.refuse(PUBLICATION, "the column publication names it for each row; drop the column, or this option")
    if direct:
        options.refuse(SINK_ID, "delivery=direct cannot publish once; use delivery=staged, or dedupKey")
        options.refuse(KEEP_STAGED, "delivery=direct stages nothing; leave it out, or use delivery=staged")
    if options[MAX_READY] is None:
        options.refuse(WAIT_FOR_ROOM, "the queue is unbounded without maxReady; set maxReady too")
    if options[DEDUP_KEY] is None:
        options.refuse(DEDUP_WINDOW, "it has no effect without dedupKey; set dedupKey or omit this option")


def _config(options: OptionValues) -> LeasedConfig:
    overflow = Overflow.BLOCK(options[WAIT_FOR_ROOM]) if options[WAIT_FOR_ROOM] else Overflow.RAISE
    return LeasedConfig(dedup_window=options[DEDUP_WINDOW], max_ready=options[MAX_READY], overflow=overflow)


def _query() -> str:
    context = TaskContext.get()
    return (context.getLocalProperty(QUERY_ID) if context else None) or ""
