"""The columns of messages, one entry each in `COLUMNS`, from which all readers and writers derive their columns.

A plain field of a message has its entry through `MESSAGE_FIELDS`; any other column needs one here. Spark compares a
batch with the declared schema: names, order, types and nullability. Both are built from the same entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyspark.sql import types as T

from rmq_core import Message
from rmq_core.messages import MESSAGE_FIELDS, MessageField, header_texts
from rmq_spark.versions import in_utc

if TYPE_CHECKING:
    import pyarrow as pa

ArrowBatch: TypeAlias = "pa.RecordBatch"
"""Rows that executors receive from Spark, or return to it."""


class BrowsedMessage(NamedTuple):
    """A message with its state, its queue and its lease."""

    message: Message
    state: str
    queue: str
    due: datetime | None = None
    lease: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column and how it is read and written.

    leased: whether it is a column of messages of a lease. browsed: returns its value in a browsed message, which may be
    null if `nullable`. filtered: whether browsing accepts filters on it.
    field: the field of `NewMessage` that a sink fills with it. header: the header there, if it is that of one. written:
    the types that the sink accepts. published: converts a value that is not null to the one `NewMessage` expects; None
    when no conversion is needed.
    """

    name: str
    kind: T.DataType
    leased: bool = False
    browsed: Callable[[BrowsedMessage], Any] | None = None
    nullable: bool = False
    filtered: bool = False
    field: str = ""
    header: str = ""
    written: tuple[type[T.DataType], ...] = ()
    published: Callable[[Any], Any] | None = None


TEXT, TIME = T.StringType(), T.TimestampType()
WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_KINDS = {str: TEXT, int: T.IntegerType(), datetime: TIME}


def _plain(field: MessageField) -> Column:
    kind, filtered = _KINDS[field.type], field.type is not datetime
    return Column(
        field.name, kind, True, lambda at: field.of(at.message), filtered=filtered,
        field="headers" if field.header else "", header=field.header, written=(T.StringType,),
    )  # fmt: skip


_ID, *_OTHERS = map(_plain, MESSAGE_FIELDS)
COLUMNS = (
    replace(_ID, name="message_id", field="id"),
    Column("payload", T.BinaryType(), True, lambda at: at.message.raw),
    Column(
        "headers", T.MapType(TEXT, TEXT, valueContainsNull=False), True,
        lambda at: header_texts(at.message.headers.items()), field="headers", written=(T.MapType,), published=dict,
    ),
    *_OTHERS,
    Column("state", TEXT, False, lambda at: at.state, filtered=True),
    Column("due_at", TIME, False, lambda at: at.due, nullable=True),
    Column("lease", TEXT, True, lambda at: at.lease, nullable=True, filtered=True),
    Column("reason", TEXT, False, lambda at: _last_reason(at.message), nullable=True, filtered=True),
    Column("queue", TEXT, True, lambda at: at.queue, filtered=True),
    Column("delay_ms", T.LongType(), field="delay", written=WHOLE, published=lambda delay_ms: delay_ms / 1000),
)  # fmt: skip
"""Only delayed messages have `due_at`, only leased ones `lease`; `reason` is that of the last failed delivery."""
LEASED = frozenset(column.name for column in COLUMNS if column.leased)
BROWSED = {column.name: column.browsed for column in COLUMNS if column.browsed}
FILTERED = frozenset(column.name for column in COLUMNS if column.filtered)
WRITTEN = {column.name: column for column in COLUMNS if column.field}
MESSAGE_SCHEMA = T.StructType([T.StructField(each.name, each.kind, nullable=False) for each in COLUMNS if each.leased])
BROWSE_SCHEMA = T.StructType([T.StructField(each.name, each.kind, each.nullable) for each in COLUMNS if each.browsed])


def leased_batch(messages: ArrowBatch, schema: T.StructType = MESSAGE_SCHEMA) -> ArrowBatch:
    """Return messages that `read_arrow` returned as one Arrow batch of this exact schema."""
    return _batch(schema, lambda name, kind: messages.column(name).cast(kind))


def browsed_row(seen: BrowsedMessage) -> dict[str, Any]:
    """Return the row of a browsed message."""
    return {name: value(seen) for name, value in BROWSED.items()}


def browsed_batch(rows: Sequence[Mapping[str, Any]], schema: T.StructType = BROWSE_SCHEMA) -> ArrowBatch:
    """Return rows of `browsed_row` as one Arrow batch of exactly this schema."""
    import pyarrow as pa  # takes 300 ms, which only executors need

    return _batch(schema, lambda name, kind: pa.array([row[name] for row in rows], kind))


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark compares with that of the batches it reads."""
    from pyspark.sql.pandas.types import to_arrow_schema  # takes 300 ms, which only executors need

    return to_arrow_schema(schema, **in_utc())


def _batch(schema: T.StructType, array: Callable[[str, pa.DataType], pa.Array]) -> ArrowBatch:
    import pyarrow as pa

    found = arrow_schema(schema)
    return pa.RecordBatch.from_arrays([array(field.name, field.type) for field in found], schema=found)


def _last_reason(message: Message) -> str | None:
    return message.history[-1].reason if message.history else None
