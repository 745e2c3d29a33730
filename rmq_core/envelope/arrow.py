"""Messages as columns of Arrow, and JSON payloads as columns of a schema. Needs the extra `arrow`.

Nothing else in the core imports pyarrow or numpy, which take longer to load than all of it: `codec.arrow_columns` loads
this module when it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rmq_core.envelope.codec import MESSAGE_FIELDS, Columns, Message, chunks, header_items, header_texts, message_of
from rmq_core.envelope.payloads import KINDS, decode_payload
from rmq_core.errors import ConfigurationError, MalformedMessage, PayloadError

_TEXTS = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
_TYPES = {str: pa.string(), int: pa.int32(), datetime: pa.timestamp("us", "UTC")}
_FIELDS = {"message_id" if field.name == "id" else field.name: field for field in MESSAGE_FIELDS}
_STORED = {str: pa.binary(), datetime: pa.timestamp("ms", "UTC")}
_PLAIN = [(name, _TYPES[field.type]) for name, field in _FIELDS.items()]
SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            _PLAIN[0], ("payload", pa.binary()), ("headers", _TEXTS), *_PLAIN[1:], ("index", pa.int64()),
            ("lease", pa.string()), ("queue", pa.string()),
        )
    ]
)  # fmt: skip
"""The columns of messages of a lease."""
_LARGE = pa.large_binary()
_PIECE_BYTES = 2 << 20
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_BEGINNING = 96
_IS_KIND = np.isin(np.arange(256), [ord(kind) for kind in KINDS])
_SPACE, _ZERO = ord(" "), ord("0")


def batch_of(
    envelopes: Sequence[bytes], indexes: Sequence[int], delivered: int, lease_id: str, queue: str
) -> pa.RecordBatch:
    """Return messages of a lease as columns; `delivered` counts the deliveries of this lease.

    Raises MalformedMessage and UnknownPayloadKind. All are split together, or one by one if one of them is unusual.
    """
    if found := _split(envelopes, indexes, delivered):
        return _batch(found, lease_id, queue)
    messages = [message_of(each, at, lease_id, delivered) for each, at in zip(envelopes, indexes, strict=True)]
    for message in messages:
        if message.kind not in KINDS:  # a table does not show it
            decode_payload(message.kind, message.raw)  # raises
    return messages_of(messages, queue)


def table_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return batches of messages as one table."""
    return pa.Table.from_batches(batches, SCHEMA)


def messages_of(messages: Sequence[Message], queue: str) -> pa.RecordBatch:
    """Return decoded messages of one lease as columns."""
    headers = [list(header_texts(message.headers.items())) for message in messages]
    own = {name: _column(map(field.of, messages), name) for name, field in _FIELDS.items()}
    rest = {
        "payload": pa.array([message.raw for message in messages], pa.binary()),
        "headers": pa.array(headers, _TEXTS),
        "index": pa.array([message.index for message in messages], pa.int64()),
        "lease": pa.array([message.lease_id for message in messages], pa.string()),
        "queue": pa.repeat(queue, len(messages)),
    }
    return _in_order(own | rest)


def payloads_in(given: Any, most: int) -> Iterator[pa.Array]:
    """Yield the payloads of a column, or of a table whose only column is `payload`, in slices of at most `most`.

    Each is of the type `large_string` or `large_binary`.
    Raises PayloadError for a table with other columns, and for a column that has neither texts nor bytes.
    """
    for part in given if isinstance(given, pa.RecordBatchReader) else pa.chunked_array(given).chunks:
        column = part.to_struct_array() if isinstance(part, pa.RecordBatch) else part
        if pa.types.is_struct(column.type):
            names = [field.name for field in column.type]
            if names != ["payload"]:
                raise PayloadError(
                    f"a table of payloads must have one column, 'payload', not {names}: select it, or publish"
                    " table.to_pylist() to store each row as a JSON object"
                )
            (column,) = column.flatten()
        if column.type not in (*_STRINGS, *_BYTES):
            raise PayloadError(f"a column of payloads must have texts or bytes, not {column.type}")
        column = column.cast(pa.large_string() if column.type in _STRINGS else _LARGE)  # so all types have a size
        step = max(1, min(most, _PIECE_BYTES * len(column) // (column.nbytes or 1)))
        for first in range(0, len(column), step):
            yield column.slice(first, step)


def packed(payloads: pa.Array, ids: Sequence[str], headers: bytes, stamp: bytes, most: int) -> pa.Buffer | None:
    r"""Return new messages as arguments of a command, `$<length>\r\n<envelope>\r\n` for each.

    Return None if a payload is null or has more than `most` bytes.
    """
    kind = b"b" if payloads.type == _LARGE else b"s"
    bodies, names = payloads.cast(_LARGE), pa.array(ids, pa.large_string()).cast(_LARGE)
    sizes = pc.binary_length(bodies)
    if payloads.null_count or pc.max(sizes).as_py() > most:
        return None
    rest = b" %b%d %b" % (kind, len(headers), headers)
    sizes = pc.add(pc.add(sizes, pc.binary_length(names)), len(stamp) + len(rest))
    lengths = sizes.cast(pa.large_string()).cast(_LARGE)
    begin, after, end, nothing = (pa.scalar(text, _LARGE) for text in (b"$", b"\r\n" + stamp, b"\r\n", b""))
    joined = pc.binary_join_element_wise(begin, lengths, after, names, pa.scalar(rest, _LARGE), bodies, end, nothing)
    return joined.buffers()[2]


def _in_order(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _column(values: Iterable[Any], name: str, stored: pa.DataType | None = None) -> pa.Array:
    """Return values as a column; `stored` is their type if it is another one."""
    kind = SCHEMA.field(name).type
    try:
        return pa.array(values, stored or kind).cast(kind)  # checks UTF-8 without a str for each
    except (ValueError, OverflowError) as error:
        raise MalformedMessage(f"a stored entry has a {name} that cannot be a column: {error}") from error


def _batch(found: Columns, lease_id: str, queue: str) -> pa.RecordBatch:
    """Return the columns. Most messages have the same headers, so each distinct text of headers is decoded once."""
    rows, headers = len(found.ids), pa.array(found.headers, pa.binary()).dictionary_encode()
    distinct = found._replace(headers=headers.dictionary.to_pylist())
    own = {}
    for name, field in _FIELDS.items():
        values = _column(field.values(distinct), name, _STORED.get(field.type))
        own[name] = values.take(headers.indices) if field.header else values
    maps = [list(header_texts(header_items(text))) for text in distinct.headers]
    rest = {
        "payload": pa.array(found.payloads, pa.binary()),
        "headers": pa.array(maps, _TEXTS).take(headers.indices),
        "index": pa.array(_numpy(found.indexes)),
        "lease": pa.repeat(lease_id, rows),
        "queue": pa.repeat(queue, rows),
    }
    return _in_order(own | rest)


def _numpy(indexes: Sequence[int]) -> Any:
    if isinstance(indexes, range):
        return np.arange(indexes.start, indexes.stop, dtype=np.int64)
    return np.array(indexes, np.int64)


def _split(envelopes: Sequence[bytes], indexes: Sequence[int], delivered: int) -> Columns | None:
    """Split envelopes together; return None if one of them is unusual."""
    stored = pa.array(envelopes, pa.binary())
    found = _places(stored)
    if found is None:
        return None
    data, starts, spaces = found
    if len(past := np.flatnonzero((spaces[2] - spaces[1] != 2) | (data[spaces[1] + 1] != _ZERO))):
        try:
            envelopes = _without_history(envelopes, past)
        except ValueError:
            return None
        stored = pa.array(envelopes, pa.binary())
        if (found := _places(stored)) is None:
            return None
        data, starts, spaces = found
    deliveries = _numbers(data, starts, spaces[0], 9)
    enqueued = _numbers(data, spaces[0] + 1, spaces[1], 15)
    lengths = _numbers(data, spaces[3] + 2, spaces[4], 9)
    if deliveries is None or enqueued is None or lengths is None:
        return None
    if not _IS_KIND[data[spaces[3] + 1]].all():
        return None
    edges = np.frombuffer(stored.buffers()[1], np.int32, len(stored) + 1)
    shift = edges[:-1] - starts
    headers = spaces[4] + 1 + shift
    payloads = headers + lengths
    if (payloads > edges[1:]).any():
        return None
    return Columns(
        _pieces(stored, spaces[2] + 1 + shift, spaces[3] + shift), _pieces(stored, payloads, edges[1:]),
        _pieces(stored, headers, payloads), deliveries + delivered, enqueued, indexes,
    )  # fmt: skip


def _places(stored: Any) -> tuple[Any, Any, Any] | None:
    """Return the bytes of the beginnings of all envelopes, where each begins, and where its first five spaces are."""
    if not isinstance(stored, pa.Array) or not len(stored):  # two GiB make a ChunkedArray
        return None
    beginnings = pc.binary_slice(stored, 0, _BEGINNING)
    edges = np.frombuffer(beginnings.buffers()[1], np.int32, len(stored) + 1)
    data = np.frombuffer(beginnings.buffers()[2] or b"", np.uint8)
    spaces = np.flatnonzero(data[: edges[-1]] == _SPACE)
    first = np.searchsorted(spaces, edges[:-1])
    if first[-1] + 4 >= len(spaces) or (spaces[first + 4] >= edges[1:]).any():
        return None
    return data, edges[:-1], spaces[first + np.arange(5)[:, None]]


def _without_history(envelopes: Sequence[bytes], places: Any) -> list[bytes]:
    found = list(envelopes)
    for at in places:
        deliveries, enqueued, length, rest = found[at].split(b" ", 3)
        found[at] = b"%b %b 0 %b" % (deliveries, enqueued, rest[int(length) :])
    return found


def _numbers(data: Any, starts: Any, ends: Any, most: int) -> Any:
    """Return the whole numbers whose digits are at these places; None if one has other bytes, or over `most` digits."""
    sizes = ends - starts
    longest = int(sizes.max())
    if sizes.min() < 1 or longest > most:
        return None
    if sizes.min() == longest:  # as usual: the times of one age
        digits = data[starts + np.arange(longest)[:, None]] - _ZERO
        return None if (digits > 9).any() else 10 ** np.arange(longest - 1, -1, -1) @ digits
    values = np.zeros(len(starts), np.int64)
    for at in range(longest):
        live = at < sizes
        digits = data[np.where(live, starts + at, starts)] - _ZERO  # wraps around below 0
        if (digits > 9).any():
            return None
        values = np.where(live, values * 10 + digits, values)
    return values


def _pieces(stored: pa.Array, starts: Any, ends: Any) -> pa.Array:
    """Return a part of each value; `starts` and `ends` count from the beginning of all."""
    edges = np.empty(2 * len(starts), np.int32)
    edges[::2], edges[1::2] = starts, ends
    if len(starts) and (starts == ends).all():
        return pa.repeat(pa.scalar(b"", pa.binary()), len(starts))
    both = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), stored.buffers()[2]])
    return both.take(pa.array(np.arange(0, len(edges) - 1, 2, dtype=np.int32)))


VALUE, REASON = "value", "reason"
NOT_UTF8 = "payload is not UTF-8"
NOT_JSON = "payload is not JSON of the declared schema"


class JsonTables(NamedTuple):
    """Messages whose payload fits a schema, and those whose payload does not."""

    good: pa.Table
    """The columns of the message and `value`, a struct of the declared schema."""
    corrupt: pa.Table
    """The columns of the message and `reason`."""


def split_json(messages: pa.Table, schema: pa.Schema) -> JsonTables:
    """Parse payloads as `pyarrow.json` does, and separate those that fit from those that do not.

    A field that is missing is null, unless it is declared not nullable: then the payload is corrupt. A field that is
    not declared is left out. Raises ConfigurationError for a schema without fields, or that pyarrow cannot read.
    """
    options = _options(schema)
    texts = [payload.strip(b" \t\r\n") for payload in messages["payload"].to_pylist()]
    reasons = {at: reason for at, text in enumerate(texts) if (reason := _refused(text))}
    fitting: list[tuple[Sequence[int], pa.Table]] = []
    for chunk in chunks([at for at in range(len(texts)) if at not in reasons], lambda at: len(texts[at])):
        for places, rows in _read(texts, chunk, options):
            if rows is None:
                reasons |= dict.fromkeys(places, NOT_JSON)
            else:
                fitting.append((places, rows))
    good = [at for places, _ in fitting for at in places]
    read = pa.concat_tables([options.explicit_schema.empty_table(), *(rows for _, rows in fitting)]).combine_chunks()
    whole = np.ones(len(good), bool)
    for field in schema:
        if not field.nullable:
            missing = np.flatnonzero(read[field.name].is_null().to_numpy())
            for at in missing[whole[missing]]:
                reasons[good[at]] = f"payload has no {field.name!r}, which is NOT NULL"
            whole[missing] = False
    kept = pa.array(np.flatnonzero(whole))
    columns = [read[field.name].combine_chunks().take(kept) for field in schema]
    columns = [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in columns]
    value = pa.StructArray.from_arrays(columns, fields=list(schema))
    bad = sorted(reasons)
    rows = messages.take(pa.array(np.array(good, np.int64)[whole]))
    return JsonTables(
        rows.append_column(pa.field(VALUE, value.type, nullable=False), value),
        messages.take(pa.array(bad, pa.int64())).append_column(
            pa.field(REASON, pa.string(), nullable=False), pa.array([reasons[at] for at in bad], pa.string())
        ),
    )


def _options(schema: Any) -> pj.ParseOptions:
    if not isinstance(schema, pa.Schema) or not len(schema):
        raise ConfigurationError(f"schema must be a pyarrow.Schema with at least one field, not {schema!r}")
    wanted = pa.schema([field.with_nullable(True) for field in schema])
    options = pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    try:
        _parse([b"{}"], options)
    except (pa.ArrowInvalid, NotImplementedError) as error:
        raise ConfigurationError(f"schema has a type that pyarrow.json does not read: {error}") from error
    return options


def _refused(text: bytes) -> str | None:
    """Return why a payload cannot be a JSON object.

    Those that begin and end with braces cannot combine with each other: in JSON, no brace opens after one that closes.
    So as many rows as payloads are one row of each.
    """
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return NOT_UTF8
    return None if text[:1] == b"{" and text[-1:] == b"}" else NOT_JSON


def _read(texts: Sequence[bytes], places: list[int], options: Any) -> Iterator[tuple[list[int], pa.Table | None]]:
    """Yield places with their rows, or a place whose text does not fit with None. Halves what does not fit."""
    try:
        rows = _parse([texts[at] for at in places], options)
    except pa.ArrowInvalid:
        rows = None
    if rows is not None and len(rows) == len(places):
        yield places, rows
    elif len(places) == 1:
        yield places, None
    else:
        middle = len(places) // 2
        yield from _read(texts, places[:middle], options)
        yield from _read(texts, places[middle:], options)


def _parse(texts: Sequence[bytes], options: Any) -> pa.Table:
    data = b"\n".join(texts)
    reading = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return pj.read_json(pa.BufferReader(data), reading, options)
