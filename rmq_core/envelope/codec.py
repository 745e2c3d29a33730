r"""How a message is stored, and which fields it has: envelopes, ids, chunks of envelopes. Pure: no Redis, no clock.

An envelope is text that `redis-cli` shows: `<deliveries> <enqueued ms> <length of history> <history><body>`. Its body
`<id> <kind><length of headers> <headers><payload>` comes from the client. The scripts on the server write the part
before the body (`kernel/include/envelope.lua`), or check it if a client that publishes many messages has written it. A
line of history is `<nack|expired|unclaimed|edited|moved>\t<ms>\t<owner>\t<reason>\n`. If the message failed together
with others, the line has a suffix before its `\n`:
`\x1f<failures together> <isolated group> <how many of them a claim may take> <deliveries not blamed on it>`.
A later version may add suffixes that begin with `\x1f`. docs/reference/stored-format.md defines all of it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, overload

from rmq_core.envelope.payloads import decode_payload, readable
from rmq_core.errors import ConfigurationError, MalformedMessage, PayloadError
from rmq_core.policy import EXPIRES_HEADER, GROUP_HEADER, PRIORITY_HEADER, PUBLICATION_HEADER

Payload: TypeAlias = str | bytes | dict[str, Any] | list[Any] | int | float | bool | None
"""What a message is read as."""
Publishable: TypeAlias = object
"""A value that `publish` accepts: a Payload, or one that the codec encodes as one (docs/how-to/payloads.md)."""


if TYPE_CHECKING:  # before Python 3.13, only type checkers know the default of a type variable
    from typing_extensions import TypeVar as WithDefault

    P = WithDefault("P", default=Any)
    """What the messages of a queue are read as."""
else:
    P = TypeVar("P")


class ArrowStream(Protocol):
    """A column or a table that any library can read, as pyarrow, Polars, DuckDB and pandas have them."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class ArrowArray(Protocol):
    """The same in one piece."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object: ...


ArrowData: TypeAlias = ArrowStream | ArrowArray

_COMPRESSED = re.compile(rb" [A-Z]\d+ ")
_MARK = re.compile(rb"\x1f\d+ \d+ \d+ (\d+)[^\n]*\n\Z")


class Envelope(NamedTuple):
    """The parts of an envelope; `headers` is JSON, empty if there are none."""

    deliveries: int
    enqueued_ms: int
    history: bytes
    id: str
    kind: str
    headers: bytes
    payload: bytes


def split(envelope: bytes) -> Envelope:
    """Split an envelope into its parts. Raises MalformedMessage for bytes that are no envelope."""
    return Envelope(*_parts(envelope))


def _parts(envelope: bytes) -> tuple[int, int, bytes, str, str, bytes, bytes]:
    try:
        deliveries, enqueued, length, rest = envelope.split(b" ", 3)
        history = b""
        if length != b"0":
            history, rest = rest[: int(length)], rest[int(length) :]
        message_id, kind, rest = rest.split(b" ", 2)
        headers = b""
        if kind[1:] != b"0":
            size = _length(kind[1:])
            headers, rest = rest[:size], rest[size:]
        return int(deliveries), int(enqueued), history, message_id.decode(), chr(kind[0]), headers, rest
    except (ValueError, IndexError) as error:
        raise _malformed(envelope) from error


def body(message_id: str, kind: str, payload: bytes, headers: bytes = b"") -> bytes:
    """Return the part of an envelope that the client writes."""
    return b"%b %b%d %b%b" % (message_id.encode(), kind.encode(), len(headers), headers, payload)


def bodies(
    ids: Sequence[str], kind: str, payloads: Sequence[bytes], headers: bytes = b"", stamp: bytes = b""
) -> list[bytes]:
    """Return `stamp` plus body for each of many payloads of one kind with the same headers."""
    rest = b" %b%d %b" % (kind.encode(), len(headers), headers)
    return [b"%b%b%b%b" % (stamp, own.encode(), rest, data) for own, data in zip(ids, payloads, strict=True)]


def stamp(enqueued_ms: int, deliveries: int = 0) -> bytes:
    """Return the part of an envelope before the body, for a message without a history."""
    return b"%d %d 0 " % (deliveries, enqueued_ms)


class Failure(NamedTuple):
    """One failed delivery: `nack`, or `expired` if its holder did not settle it in time.

    Three kinds are none: `unclaimed`, the message expired while it waited; `edited`, an operator redrove it with
    another payload or other headers; `moved`, an operator moved it to the dead letters.
    """

    kind: str
    at: datetime
    owner: str
    reason: str


def failures_of(history: bytes) -> tuple[Failure, ...]:
    """Return the failures of a history, one for each line. Raises MalformedMessage if it is damaged."""
    try:
        return tuple(map(_failure, history.removesuffix(b"\n").split(b"\n"))) if history else ()
    except ValueError as error:
        raise MalformedMessage("a stored entry has a damaged history") from error


def may_be_compressed(envelope: bytes) -> bool:
    """Return whether the payload of a stored envelope may be compressed, without decoding it."""
    return _COMPRESSED.search(envelope) is not None


def stored_deliveries(envelope: bytes) -> int:
    """Return the deliveries of a stored envelope without decoding the rest. Raises MalformedMessage."""
    try:
        return int(envelope[: envelope.index(b" ")])
    except ValueError as error:
        raise _malformed(envelope) from error


def unblamed(history: bytes) -> int:
    """Return how many deliveries do not count against a message, from the newest line of its history."""
    mark = _MARK.search(history)
    return int(mark[1]) if mark else 0


def header_items(headers: bytes) -> Iterable[tuple[str, str]]:
    """Return the names and values of headers stored as JSON, nothing for empty bytes. Raises MalformedMessage."""
    if not headers:
        return ()
    try:
        items: Iterable[tuple[str, str]] = json.loads(headers).items()
    except (ValueError, AttributeError) as error:
        raise MalformedMessage(f"the headers of a stored entry, {len(headers)} bytes, are damaged") from error
    return items


def json_text(value: Any) -> bytes:
    """Return a text, or the JSON of any other JSON value, in UTF-8, as Spark does.

    JSON can name half of a surrogate pair, such as half of an emoji, which UTF-8 cannot hold: it becomes `?` in a text,
    and stays an escape in JSON.
    """
    if isinstance(value, str):
        return value.encode(errors="replace")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="backslashreplace")


def header_texts(items: Iterable[tuple[str, Any]]) -> list[tuple[bytes, bytes]]:
    """Return headers as texts: other programs may have stored any JSON value under a name."""
    return [(json_text(name), json_text(value)) for name, value in items]


# Not a NamedTuple: type checkers do not know that a tuple can be a descriptor, and `message.tenant` has to be a str.
@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message that is one plain value; all code that shows messages shows each of these.

    type: the type of the value. of: returns the value of a Message, or of a Job if it is a header. column: the field of
    Columns that holds the value, in milliseconds for a datetime. header: the header that holds it, if it is the text of
    one.
    """

    name: str
    type: type
    of: Callable[[Any], Any]
    column: str
    header: str = ""

    @classmethod
    def of_header(cls, name: str, header: str) -> MessageField:
        """Return a field that is the text of a header; it is empty where the header is missing or holds no text."""
        return cls(name, str, lambda message: _text(message.headers, header), "headers", header)

    def values(self, columns: Columns) -> Sequence[Any]:
        """Return the values of the field in many messages, as they are stored. Raises MalformedMessage."""
        stored: Sequence[Any] = getattr(columns, self.column)
        if not self.header:
            return stored
        named = json.dumps(self.header).encode()  # most messages lack the header, and need not be parsed
        return [_text(dict(header_items(each)), self.header).encode() if named in each else b"" for each in stored]

    @overload
    def __get__(self, message: None, owner: object = None) -> MessageField: ...
    @overload
    def __get__(self, message: object, owner: object = None) -> str: ...
    def __get__(self, message: object, owner: object = None) -> Any:
        """Return the value in the message of which the field is an attribute."""
        return self if message is None else self.of(message)


class HeaderFields:
    """The fields that are headers, one line each, such as `tenant = MessageField.of_header("tenant", "rmq-tenant")`.

    `Message` and `Job` have them as attributes.
    """

    __slots__ = ()
    group = MessageField.of_header("group", GROUP_HEADER)
    priority = MessageField.of_header("priority", PRIORITY_HEADER)
    publication = MessageField.of_header("publication", PUBLICATION_HEADER)
    expires = MessageField.of_header("expires", EXPIRES_HEADER)


@dataclass(frozen=True, slots=True)
class MessageRef:
    """The position of a message in a lease; enough to settle it."""

    lease_id: str
    index: int
    id: str


@dataclass(frozen=True, slots=True)
class Message(HeaderFields, Generic[P]):
    """A message as delivered. `deliveries` is 1 for the first delivery; `index` is its place in the lease."""

    id: str
    raw: bytes
    """The bytes of the payload: UTF-8 of a str, canonical JSON of a dict or list. They are not compressed any more."""
    kind: str = field(repr=False)
    headers: Mapping[str, str]
    enqueued_ms: int = field(repr=False)
    deliveries: int
    index: int
    lease_id: str
    history: tuple[Failure, ...] = ()

    @property
    def enqueued_at(self) -> datetime:
        """When the server stored the message, in UTC."""
        return datetime.fromtimestamp(self.enqueued_ms / 1000, UTC)

    @property
    def ref(self) -> MessageRef:
        return MessageRef(self.lease_id, self.index, self.id)

    @property
    def payload(self) -> P:
        """The published payload, decoded at each access, so that changing it does not change the message."""
        decoded: P = decode_payload(self.kind, self.raw)
        return decoded


@dataclass(frozen=True, slots=True)
class TypedMessage(Message[P]):
    """A message of a queue that has a codec."""

    codec: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, message: Message[Any], codec: Any) -> Self:
        own: dict[str, Any] = {each.name: getattr(message, each.name) for each in fields(Message)}
        return cls(**own, codec=codec)

    @property
    def payload(self) -> P:
        """The published payload, as the codec makes it, at each access. Raises InvalidPayload."""
        made: P = self.codec.read(self.id, self.kind, self.raw)
        return made


class _Made(HeaderFields):
    """A message while it is made: assigning the fields of a frozen dataclass takes three times as long."""

    __slots__ = ("deliveries", "enqueued_ms", "headers", "history", "id", "index", "kind", "lease_id", "raw")

    def __init__(
        self, deliveries: int, enqueued_ms: int, history: tuple[Failure, ...], message_id: str, kind: str,
        headers: Mapping[str, str], raw: bytes, index: int, lease_id: str,
    ) -> None:  # fmt: skip
        self.id, self.raw, self.kind, self.headers, self.enqueued_ms = message_id, raw, kind, headers, enqueued_ms
        self.deliveries, self.index, self.lease_id, self.history = deliveries, index, lease_id, history


def message_of(envelope: bytes, index: int = 0, lease_id: str = "", delivered: int = 0) -> Message:
    """Decode a stored envelope; `delivered` counts the deliveries of its present lease. Raises MalformedMessage."""
    deliveries, enqueued_ms, history, message_id, kind, headers, raw = _parts(envelope)  # a NamedTuple takes longer
    if kind < "a":
        kind, raw = readable(kind, raw)
    made: Any = _Made(
        deliveries + delivered, enqueued_ms, failures_of(history) if history else (), message_id, kind,
        dict(header_items(headers)) if headers else {}, raw, index, lease_id,
    )  # fmt: skip
    made.__class__ = Message
    return made  # type: ignore[no-any-return]


MESSAGE_FIELDS = (
    MessageField("id", str, lambda message: message.id, "ids"),
    MessageField("deliveries", int, lambda message: message.deliveries, "deliveries"),
    MessageField("enqueued_at", datetime, lambda message: message.enqueued_at, "enqueued_ms"),
    *(each for each in vars(HeaderFields).values() if isinstance(each, MessageField)),
)
"""All plain fields. Payload, headers and history are not among them, because each tool shows those in its own way."""


def plain_fields(message: Message) -> dict[str, Any]:
    """Return the plain fields by name, as JSON has them: a time in ISO 8601, or None where it is not known."""
    return {field.name: _plain(field.of(message)) for field in MESSAGE_FIELDS}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat() if value.timestamp() else None  # an unknown time is stored as 0
    return value


class Columns(NamedTuple):
    """Messages field by field, as `arrow` splits them: a sequence per field with one entry per message.

    ids and payloads are the stored bytes (an id is UTF-8); headers is JSON, empty if there are none. See `Message` for
    the other fields.
    """

    ids: Sequence[bytes]
    payloads: Sequence[bytes]
    headers: Sequence[bytes]
    deliveries: Sequence[int]
    enqueued_ms: Sequence[int]
    indexes: Sequence[int]


def arrow_columns() -> ModuleType:
    """Return the module that makes columns of Arrow. Raises ConfigurationError without the extra `arrow`."""
    try:
        from rmq_core.envelope import arrow  # takes 300 ms, and needs the extra
    except ImportError as error:
        raise ConfigurationError("columns of Arrow need pyarrow and numpy: pip install 'rmq[arrow]'") from error
    return arrow


def _text(headers: Mapping[str, Any], name: str) -> str:
    """Return the text of a header. Another program may have stored any JSON value, also half of a surrogate pair."""
    value = headers.get(name)
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _malformed(envelope: bytes) -> MalformedMessage:
    return MalformedMessage(f"a stored entry of {len(envelope)} bytes is not an RMQ envelope")


def _failure(line: bytes) -> Failure:
    kind, at_ms, owner, reason = line.partition(b"\x1f")[0].decode().split("\t", 3)
    return Failure(kind, datetime.fromtimestamp(int(at_ms) / 1000, UTC), owner, reason)


def _length(digits: bytes) -> int:
    if not digits.isdigit():
        raise ValueError(f"{digits!r} is no length")
    return int(digits)


S = TypeVar("S")
T = TypeVar("T")
_MOST, _MOST_BYTES = 1000, 4 << 20


def chunks(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most 1,000 items and 4 MiB; `size` returns the bytes of an item."""
    chunk: list[T] = []
    total = 0
    for item in items:
        if chunk and (len(chunk) >= _MOST or total + size(item) > _MOST_BYTES):
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += size(item)
    if chunk:
        yield chunk


def each(make: Callable[[S], T], items: Iterable[S], first: int = 0) -> Iterator[T]:
    """Yield `make(item)` for each item. A PayloadError names the index of its item, counted from `first`."""
    for index, item in enumerate(items, first):
        try:
            made = make(item)
        except PayloadError as error:
            error.name_index(index)
            raise
        yield made


_counter = itertools.count()
_leases = itertools.count(1)
_prefix = os.urandom(8).hex()


_nonces: deque[str] = deque()


class ThisProcess:
    """This process. `id` caches os.getpid(), which is a system call and too slow to make at every operation."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = os.getpid()


process = ThisProcess()


def nonce() -> str:
    """Return 64 random bits in hexadecimal, read in blocks of 256: a system call for each would slow down claims."""
    try:
        return _nonces.pop()
    except IndexError:
        drawn = os.urandom(8 * 256).hex()
        _nonces.extend(drawn[at : at + 16] for at in range(16, len(drawn), 16))
        return drawn[:16]


def new_id() -> str:
    """Return an id that is unique among all processes: 64 random bits of the process and a counter."""
    return f"{_prefix}-{next(_counter):x}"


def new_ids(count: int) -> list[str]:
    """Return `count` such ids."""
    return (f"{_prefix}-%x " * count % tuple(itertools.islice(_counter, count))).split()  # quicker than one by one


def anonymous_lease_id() -> str:
    """Return a unique lease id of a form that callers cannot choose; it is short because every lease stores it."""
    return f"~{_prefix}{next(_leases):x}"


def _renew() -> None:
    global _prefix  # noqa: PLW0603  a forked child must not repeat its parent's ids
    _nonces.clear()
    _prefix = nonce()
    process.id = os.getpid()


os.register_at_fork(after_in_child=_renew)


SPARK = ("spark-application-id",)
DAGSTER = ("dagster-job", "dagster-run-id", "dagster-step-key")
AIRFLOW = ("airflow-dag-id", "airflow-run-id", "airflow-task-id", "airflow-map-index", "airflow-loop-index")
PUBLISHERS: Mapping[str, tuple[str, ...]] = {"spark": SPARK, "dagster": DAGSTER, "airflow": AIRFLOW}
"""The headers by integration. A Spark job or a step may copy the headers of a message that an orchestrator published,
so the orchestrators come last."""


def publisher_of(headers: Mapping[str, str]) -> str:
    """Return who published a message, such as `dagster <job>/<run>/<step>`; '' if its headers do not say."""
    for integration, names in PUBLISHERS.items():
        if named := [headers[name] for name in names if name in headers]:
            return f"{integration} {'/'.join(named)}"
    return ""
