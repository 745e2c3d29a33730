"""The columns of messages, one entry each in `COLUMNS`, from which all readers and writers derive their columns.

A plain field of a message has its entry through `MESSAGE_FIELDS`; any other column needs one here. Spark compares a
batch with the declared schema: names, order, types and nullability. Both are built from the same entries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyspark.sql import types as T

from rmq_core import Message
from rmq_core.messages import MESSAGE_FIELDS, Columns, MessageField, header_items
from rmq_spark.versions import in_utc

if TYPE_CHECKING:
    import pyarrow as pa

ArrowBatch: TypeAlias = "pa.RecordBatch"
"""Rows that executors receive from Spark, or return to it."""


class LeasedMessages(NamedTuple):
    """Messages of a lease, as one list per field."""

    fields: Columns
    lease: str
    queue: str


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

    leased: returns its values in the messages of a lease, as they are stored, or one value for all. browsed: returns
    its value in a browsed message, which may be null if `nullable`. filtered: whether browsing accepts filters on it.
    field: the field of `NewMessage` that a sink fills with it. header: the header there, if it is that of one. written:
    the types that the sink accepts. published: converts a value that is not null to the one `NewMessage` expects; None
    when no conversion is needed.
    """

    name: str
    kind: T.DataType
    leased: Callable[[LeasedMessages], Any] | None = None
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
        field.name, kind, lambda of: field.values(of.fields), lambda at: field.of(at.message), filtered=filtered,
        field="headers" if field.header else "", header=field.header, written=(T.StringType,),
    )  # fmt: skip


_ID, *_OTHERS = map(_plain, MESSAGE_FIELDS)
COLUMNS = (
    replace(_ID, name="message_id", field="id"),
    Column("payload", T.BinaryType(), lambda of: of.fields.payloads, lambda at: at.message.raw),
    Column(
        "headers", T.MapType(TEXT, TEXT, valueContainsNull=False), lambda of: of.fields.headers,
        lambda at: _texts(at.message.headers.items()), field="headers", written=(T.MapType,), published=dict,
    ),
    *_OTHERS,
    Column("state", TEXT, None, lambda at: at.state, filtered=True),
    Column("due_at", TIME, None, lambda at: at.due, nullable=True),
    Column("lease", TEXT, lambda of: of.lease, lambda at: at.lease, nullable=True, filtered=True),
    Column("reason", TEXT, None, lambda at: _last_reason(at.message), nullable=True, filtered=True),
    Column("queue", TEXT, lambda of: of.queue, lambda at: at.queue, filtered=True),
    Column("delay_ms", T.LongType(), field="delay", written=WHOLE, published=lambda delay_ms: delay_ms / 1000),
)  # fmt: skip
"""Only delayed messages have `due_at`, only leased ones `lease`; `reason` is that of the last failed delivery."""
LEASED = {column.name: column.leased for column in COLUMNS if column.leased}
BROWSED = {column.name: column.browsed for column in COLUMNS if column.browsed}
FILTERED = frozenset(column.name for column in COLUMNS if column.filtered)
WRITTEN = {column.name: column for column in COLUMNS if column.field}
MESSAGE_SCHEMA = T.StructType([T.StructField(each.name, each.kind, nullable=False) for each in COLUMNS if each.leased])
BROWSE_SCHEMA = T.StructType([T.StructField(each.name, each.kind, each.nullable) for each in COLUMNS if each.browsed])


def leased_batch(messages: LeasedMessages, schema: T.StructType = MESSAGE_SCHEMA) -> ArrowBatch:
    """Return messages of a lease as one Arrow batch of this exact schema. Raises MalformedMessage for bad headers."""
    rows = len(messages.fields.ids)
    return _batch(schema, lambda name, kind: _array(LEASED[name](messages), kind, rows))


def json_text(value: Any) -> bytes:
    """Return a text, or the JSON of any other JSON value, in UTF-8, as Spark does.

    JSON can name half of a surrogate pair, such as half of an emoji, which UTF-8 cannot hold: it becomes `?` in a text,
    and stays an escape in JSON.
    """
    if isinstance(value, str):
        return value.encode(errors="replace")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="backslashreplace")


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


def _array(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Convert stored values: texts in UTF-8, maps in JSON, times in milliseconds; or one text for all rows."""
    import pyarrow as pa

    if isinstance(values, str):
        return pa.repeat(pa.scalar(values), rows)
    if pa.types.is_map(kind):
        return _maps(values, kind)
    if pa.types.is_string(kind):
        return pa.array(values, pa.binary()).cast(kind)  # checks UTF-8 without a str for each
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.timestamp("ms", "UTC")).cast(kind)
    return pa.array(values, kind)


def _maps(headers: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Return headers as an Arrow map. Most messages have the same headers, so each distinct text is decoded once."""
    import pyarrow as pa

    known = {text: _texts(header_items(text)) for text in set(headers)}
    if len(known) != 1:
        return pa.array([known[text] for text in headers], kind)
    (items,) = known.values()
    ends = [len(items) * row for row in range(len(headers) + 1)]
    names, values = (pa.array([item[at] for item in items] * len(headers), pa.string()) for at in (0, 1))
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), names, values, type=kind)


def _texts(items: Iterable[tuple[str, Any]]) -> list[tuple[bytes, bytes]]:
    """Return headers as texts: other programs may have stored any JSON value under a name."""
    return [(json_text(name), json_text(value)) for name, value in items]


def _last_reason(message: Message) -> str | None:
    return message.history[-1].reason if message.history else None
