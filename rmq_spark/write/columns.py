"""The columns that a sink understands, and Arrow batches of them as messages.

`payload` (or `value`, as Kafka's sink calls it) is text or bytes; a message may have its own `message_id`, `headers`
and `delay_ms`, and the option `dedupKey` names the column of its deduplication key. The column of a field that is a
header decides that header, whatever `headers` holds. `OF_DELIVERY` is left out. Any other column raises
ConfigurationError, because it would be lost silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.types import BinaryType, DataType, LongType, MapType, StringType, StructType

from rmq_core import ConfigurationError, NewMessage, PayloadError
from rmq_core.orchestrate import with_publisher
from rmq_spark.schema import WHOLE, WRITTEN, ArrowBatch, Column

if TYPE_CHECKING:
    import pyarrow as pa

Payload: TypeAlias = str | bytes | dict[str, Any] | list[Any]
PAYLOADS = ("payload", "value")
OF_DELIVERY = frozenset(("deliveries", "enqueued_at", "lease", "queue"))
"""Columns of a message that was read which say nothing about the one that is published."""
TEXTS = (StringType, BinaryType)
_WORDS = {
    StringType: "a string",
    BinaryType: "binary",
    MapType: "a map of strings to strings",
    LongType: "a whole number",
}
_NOBODY: Mapping[str, str] = {}


@dataclass(frozen=True)
class SinkColumns:
    """The columns that a sink publishes. json: payloads are JSON texts and are published as objects or arrays."""

    payload: str
    own: tuple[str, ...] = ()
    dedup_key: str | None = None
    json: bool = False

    @property
    def names(self) -> set[str]:
        """The names of the columns."""
        return {self.payload, *self.own} | ({self.dedup_key} if self.dedup_key else set())

    def payloads(self, batches: Iterator[ArrowBatch]) -> pa.RecordBatchReader | None:
        """Return the payloads as a table of one column; None if messages have more than that, or if there are none."""
        if self.own or self.dedup_key is not None or self.json or not (first := next(batches, None)):
            return None
        import pyarrow as pa  # takes 300 ms, which only executors need

        def column(batch: ArrowBatch) -> ArrowBatch:
            return pa.RecordBatch.from_arrays([self._payload(batch)], ["payload"])

        return pa.RecordBatchReader.from_batches(column(first).schema, map(column, chain([first], batches)))

    def messages(self, batch: ArrowBatch, publisher: Mapping[str, str] = _NOBODY) -> Iterator[Payload | NewMessage]:
        """Return the rows of a batch as messages, in order. Raises PayloadError for a row without a payload.

        publisher: headers that are added to messages with headers of their own, which may be copied from others.
        """
        payloads = self._payloads(batch)
        if not self.own and self.dedup_key is None:
            return payloads
        own: dict[str, Iterator[Any]] = {}
        for column in map(WRITTEN.__getitem__, self.own):  # `headers` comes before the columns of headers
            values = _own(batch, column)
            if column.header:
                values = map(partial(_with, column.header), own.get("headers", repeat(None)), values)
            own[column.field] = values
        if self.dedup_key is not None:
            own["dedup_key"] = map(_key, _values(batch, self.dedup_key))
        made = map(NewMessage, payloads, *(own.get(field, repeat(None)) for field in NewMessage._fields[1:]))
        return map(partial(with_publisher, publisher=publisher), made) if publisher and "headers" in own else made

    def _payload(self, batch: ArrowBatch) -> pa.Array:
        column = batch.column(self.payload)
        if column.null_count:
            raise PayloadError(f"column {self.payload} is null in {column.null_count} rows: filter them out")
        return column

    def _payloads(self, batch: ArrowBatch) -> Iterator[Payload]:
        values: Iterator[Payload] = iter(self._payload(batch).to_pylist())
        return map(_parsed, values) if self.json else values


def columns_of(schema: StructType, dedup_key: str | None = None, *, as_json: bool = False) -> SinkColumns:
    """Return the columns of a DataFrame that a sink publishes. Raises ConfigurationError for unsupported columns."""
    given = {field.name: field.dataType for field in schema.fields}
    payload = _payload_of(given)
    own = [name for name in WRITTEN if name in given]
    _check(given, payload, TEXTS)
    if dedup_key is not None:
        _check(given, dedup_key, (*TEXTS, *WHOLE))
    for name in own:
        _check(given, name, WRITTEN[name].written)
    known = {payload, dedup_key, *WRITTEN, *OF_DELIVERY}
    if unknown := [name for name in given if name not in known]:
        raise ConfigurationError(
            f"column {unknown[0]!r} would not be published: a message has {payload}, {', '.join(WRITTEN)} and the"
            " column that dedupKey names; drop the others, or put them into the payload with to_json(struct(...))"
        )
    return SinkColumns(payload, tuple(own), dedup_key, as_json)


def _payload_of(given: Mapping[str, DataType]) -> str:
    found = [name for name in PAYLOADS if name in given]
    if len(found) != 1:
        hint = "make one with to_json(struct(...)).alias('payload')" if not found else "drop one of them"
        raise ConfigurationError(f"one of the columns {' and '.join(PAYLOADS)} is needed: {hint}")
    return found[0]


def _check(given: Mapping[str, DataType], name: str, allowed: tuple[type[DataType], ...]) -> None:
    if name not in given:
        raise ConfigurationError(f"there is no column {name!r}, which the option dedupKey names")
    kind = given[name]
    strings = not isinstance(kind, MapType) or (kind.keyType, kind.valueType) == (StringType(), StringType())
    if not isinstance(kind, allowed) or not strings:
        wanted = " or ".join(word for known, word in _WORDS.items() if known in allowed)
        raise ConfigurationError(f"column {name!r} must be {wanted}, not {kind.simpleString()}: cast it")


def _own(batch: ArrowBatch, column: Column) -> Iterator[Any]:
    values, published = _values(batch, column.name), column.published
    return values if published is None else (None if value is None else published(value) for value in values)


def _with(header: str, headers: Mapping[str, str] | None, text: str | None) -> Mapping[str, str] | None:
    """Return headers with this text of a header, or without the header if the text is null or empty."""
    if text:
        return {**(headers or {}), header: text}
    return headers and {name: value for name, value in headers.items() if name != header}


def _values(batch: ArrowBatch, name: str) -> Iterator[Any]:
    return iter(batch.column(name).to_pylist())


def _key(value: Any) -> str | bytes | None:
    return str(value) if isinstance(value, int) else value


def _parsed(text: Any) -> Payload:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise PayloadError(
            f"a payload is not JSON: {error}; leave out the option json, or filter such rows out"
        ) from None
    if not isinstance(parsed, dict | list):
        raise PayloadError(f"a JSON payload must be an object or an array, not {type(parsed).__name__}")
    return parsed
