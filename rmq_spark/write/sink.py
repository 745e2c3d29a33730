"""Publishing a DataFrame: `df.write.format("rmq").mode("append")`, and what batch and stream have in common.

`delivery=staged`, the default: tasks put their rows aside, and only when all of them have succeeded does the driver
publish what the successful attempts staged; a failed job publishes nothing. `delivery=direct`: tasks publish as they
go, which is faster, seen at once, and repeated by a task that is tried again, unless `dedupKey` tells its rows apart.
Only so can rows go to the `shards` of a logical queue, for nothing is published to several queues in one step.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, NewMessage, Overflow, Stage, Unsupported
from rmq_spark.place.options import Option, OptionValues, duration, flag, one_of, text, whole
from rmq_spark.place.shards import Payload, Router, open_shards
from rmq_spark.place.source import DISCIPLINE, PLACE, SHARDS, Source
from rmq_spark.schema import ArrowBatch
from rmq_spark.write.columns import SinkColumns, columns_of
from rmq_spark.write.settling import OPERATION, RmqSettler, settler_of

log = logging.getLogger(__name__)

DELIVERY = one_of("delivery", "staged", "direct").or_else("staged")
DEDUP_KEY = text("dedupKey", "the name of a column").or_else(None)
DEDUP_WINDOW = duration("dedupWindow").or_else(3600.0)
JSON = flag("json").or_else(default=False)
MAX_READY = whole("maxReady").or_else(None)
WAIT_FOR_ROOM = duration("waitForRoom", 0).or_else(0.0)
SINK_ID = text("sinkId").or_else(None)
KEEP_STAGED = duration("keepStaged", 1).or_else(86400.0)
OPTIONS: tuple[Option[Any], ...] = (
    *PLACE, OPERATION, DELIVERY, DEDUP_KEY, DEDUP_WINDOW, JSON, MAX_READY, WAIT_FOR_ROOM, SINK_ID, KEEP_STAGED,
)  # fmt: skip
QUERY_ID = "sql.streaming.queryId"
"""The local property under which Spark tells a task its query; it is the same after a restart from the checkpoint."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver: what it staged, if it did, and of which streaming query it is a part."""

    stage: Stage | None = None
    query: str = ""


@dataclass(frozen=True)
class Sink:
    """Where rows go and how. Pickled to the executors with the credentials, which are in no plan and no page."""

    place: Source
    config: LeasedConfig
    columns: SinkColumns
    direct: bool
    sink_id: str | None
    keep_s: float
    shards: int | None = None

    def write(self, batches: Iterator[ArrowBatch]) -> Written:
        """Publish the rows of a task, or stage them."""
        found = map(self.columns.messages, batches)
        if self.shards is not None:
            self._route(found, self.shards)
            return Written()
        messages = chain.from_iterable(found)
        with self.open() as queue:
            if not self.direct:
                return Written(queue.stage(messages, keep=self.keep_s), _query())
            queue.publish_many(messages)
        return Written()

    def publish(self, written: Iterable[WriterCommitMessage | None], sink: str | None, batch: int) -> None:
        """Publish what tasks staged, unless this batch of the sink was published before."""
        if self.direct:
            return
        with self.open() as queue:
            published = queue.publish_staged(stages_of(written), sink=sink, batch=batch)
        if not published:
            log.warning(
                "batch %d of sink %r was published before: these rows are dropped; if they are others, give them"
                " another sinkId, such as the name of a claimed batch", batch, sink,
            )  # fmt: skip

    def forget(self, written: Iterable[WriterCommitMessage | None]) -> None:
        """Drop what tasks staged, as far as they told; what others staged expires."""
        if not self.direct:
            with self.open() as queue:
                queue.drop_staged(stages_of(written))

    def open(self) -> LeasedQueue:
        """The queue of the sink."""
        return LeasedQueue(self.place.settings, self.place.queue, self.config)

    def _route(self, batches: Iterator[Iterator[Payload | NewMessage]], shards: int) -> None:
        context = TaskContext.get()
        router = Router(shards, first=context.partitionId() if context else 0)
        with open_shards(self.place.settings, self.place.queue, shards, self.config) as queues:
            for messages in batches:
                for shard, some in router.sorted(messages).items():
                    queues[shard].publish_many(some)


class SinkWriter:
    """What writers of batches and of streams have in common."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[ArrowBatch]) -> Written:
        """The rows of one task."""
        return self._sink.write(iterator)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: ARG002, N803
        """The job, or the micro-batch, has failed."""
        self._sink.forget(messages)


class RmqWriter(SinkWriter, DataSourceArrowWriter):
    """Writes a DataFrame to a queue. With `sinkId`, what was published under it once is not published again."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks have succeeded."""
        self._sink.publish(messages, self._sink.sink_id, 0)


def writer_of(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> RmqWriter | RmqSettler:
    """The writer that `format("rmq")` uses. Raises ConfigurationError before any job starts."""
    if overwrite:
        raise ConfigurationError('a queue is not overwritten: use mode("append")')
    if OPERATION.value(given.get(OPERATION.name)) != "publish":
        return settler_of(given, schema)
    return RmqWriter(sink_of(given, schema))


def sink_of(given: Mapping[str, str], schema: StructType) -> Sink:
    """The sink that options and schema describe."""
    options = OptionValues(given, OPTIONS)
    if options[DISCIPLINE] != "leased":
        raise Unsupported(options[DISCIPLINE], 'staging (needed by a sink of format("rmq"))', ("leased",))
    direct = options[DELIVERY] == "direct"
    _check_used(options, direct=direct)
    return Sink(
        Source.of(options, sharded=direct),
        _config(options),
        columns_of(schema, options[DEDUP_KEY], as_json=options[JSON]),
        direct=direct,
        sink_id=options[SINK_ID],
        keep_s=options[KEEP_STAGED],
        shards=options[SHARDS],
    )


def stages_of(written: Iterable[WriterCommitMessage | None]) -> list[Stage]:
    """What the tasks of a job staged, in the order of its partitions."""
    return [each.stage for each in written if isinstance(each, Written) and each.stage]


def _check_used(options: OptionValues, *, direct: bool) -> None:
    """Refuse what would do nothing: who gives it counts on what it does."""
    if direct:
        options.refuse(SINK_ID, "delivery=direct publishes as tasks run; use delivery=staged, or dedupKey")
        options.refuse(KEEP_STAGED, "delivery=direct stages nothing; leave it out, or use delivery=staged")
    if options[MAX_READY] is None:
        options.refuse(WAIT_FOR_ROOM, "there is room without end unless maxReady says how much; give that too")
    if options[DEDUP_KEY] is None:
        options.refuse(DEDUP_WINDOW, "no row has a key; name the column of keys with dedupKey, or leave it out")


def _config(options: OptionValues) -> LeasedConfig:
    overflow = Overflow.BLOCK(options[WAIT_FOR_ROOM]) if options[WAIT_FOR_ROOM] else Overflow.RAISE
    return LeasedConfig(dedup_window=options[DEDUP_WINDOW], max_ready=options[MAX_READY], overflow=overflow)


def _query() -> str:
    context = TaskContext.get()
    return (context.getLocalProperty(QUERY_ID) if context else None) or ""
