"""The settings, keys and entries of a stream queue, and the state that its operations share. No IO.

All keys are in the cluster slot of the stream, which another program may have created.

rmq:{q}:stream               stream  what `open_queue(redis, "q", "streams")` opens; entries have one field, `data`
rmq:{q}:stream:slot:<c>/<n>  string  last call and reply of a client's call slot; expires
rmq:{q}:stream:history       hash    counts and latencies per minute and hour, totals, marks; expires
orders                       stream  a stream of any other key, named by QueueConfig.stream_key
{orders}:slot:<c>/<n>        string  its call slots
{orders}:history             hash    its history

Entries that are delivered and not acknowledged are in the group's own list of pending entries. A native consumer holds
entries under its `consumer_name`. A lease holds them under its token, as a consumer of the group that is removed when
the lease is settled. A `consumer_name` never begins with `~`; tokens do. The consumer `~` holds nacked and
released entries.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

from rmq_core.envelope import codec
from rmq_core.envelope.codec import new_id
from rmq_core.envelope.payloads import encode_payload
from rmq_core.errors import ConfigurationError, PayloadError, QueueError, RedisMessageQueueError, ScriptFailed
from rmq_core.events import OnEvent
from rmq_core.exchange import text_of
from rmq_core.exchange.scripts import Laid
from rmq_core.kernel.keys import check_name
from rmq_core.observe.fact import Observer, Sink, emitting
from rmq_core.policy import whole
from rmq_core.protocol import Capabilities

_TAG = re.compile(r"[^{]*\{[^}]+\}")
BACK = "~"
"""The consumer that holds nacked and released entries until another consumer or lease claims them."""


def stream_of(name: str) -> str:
    """Return the key of the stream of a named queue."""
    return f"rmq:{{{check_name('name', name)}}}:stream"


@dataclass(frozen=True, slots=True)
class StreamKeys(Laid):
    """The keys of one stream; its other keys begin with `prefix`."""

    key: str
    prefix: bytes = field(init=False)
    stream: bytes = field(init=False)

    def __post_init__(self) -> None:
        if _TAG.match(self.key):
            tagged = self.key
        elif "{" in self.key or "}" in self.key:
            raise ConfigurationError(f"stream_key {self.key!r} has braces that are no hash tag; use it without them")
        else:
            tagged = f"{{{self.key}}}"
        object.__setattr__(self, "stream", self.key.encode())
        object.__setattr__(self, "prefix", tagged.encode() + b":")


CAPABILITIES = Capabilities(
    fenced=True, extend=True, auto_reclaim=True, partial_settle=True, batch=True, payload="dict"
)


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Settings of a StreamQueue and a QueueConsumer.

    consumer_name: unique among all readers of the group; two readers that share it treat each other's messages as their
    own. claim_idle_ms: a message is stale when it was delivered this long ago or longer and is not acknowledged.
    block_ms: how long a read blocks in Redis. max_read_count: at most how many entries a read returns.
    claim_skip_own_messages: `claim_stale` skips messages that this consumer itself holds.
    """

    stream_key: str
    consumer_group: str
    consumer_name: str
    claim_idle_ms: int = 60_000
    block_ms: int = 5000
    max_read_count: int = 1
    claim_skip_own_messages: bool = False

    def __post_init__(self) -> None:
        for name in ("stream_key", "consumer_group", "consumer_name"):
            _check_text(name, getattr(self, name))
        for name in ("claim_idle_ms", "block_ms", "max_read_count"):
            positive(name, getattr(self, name))
        if self.consumer_name.startswith(BACK):
            raise ConfigurationError(f"consumer_name must not begin with {BACK!r}: tokens of leases do")

    @classmethod
    def named(
        cls, name: str, consumer_group: str = "rmq", consumer_name: str | None = None, **settings: Any
    ) -> QueueConfig:
        """Return the config of `open_queue(redis, name, "streams")`; by default, the consumer gets a unique name."""
        return cls(stream_of(name), consumer_group, consumer_name or new_id(), **settings)


def positive(name: str, value: int) -> int:
    """Return the value. Raises ConfigurationError with `name` unless it is above 0: 0 would block for ever."""
    if value == 0 and not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be > 0")
    return whole(name, value, minimum=1)


def _check_text(name: str, value: str) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ConfigurationError(f"{name} must be a text without control characters, not {value!r}")


FIELD = b"data"


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """An entry as delivered to a consumer of a group. `id` is the entry's; acknowledge with the whole message."""

    stream: str
    group: str
    id: str
    payload: dict[str, Any] = field(hash=False)


class BacklogStats(NamedTuple):
    """The backlog of a group, read in one atomic step at a bounded cost.

    length: entries in the stream, acknowledged ones too. undelivered: entries not yet delivered to the group; where the
    server does not count them (before Redis 7), at most 1,000 are counted. pending: delivered and not acknowledged.
    stale: pending entries that are idle for `claim_idle_ms`, counted up to 1,000. oldest_idle_ms: time since the last
    delivery of the oldest pending entry.
    """

    length: int
    undelivered: int
    pending: int
    stale: int
    oldest_idle_ms: int | None


class StreamEntry(NamedTuple):
    """An entry of a stream, undecoded."""

    id: str
    data: bytes | None


def encode(payload: Any) -> bytes:
    """Return the `data` of an entry: canonical UTF-8 JSON of an object. Raises PayloadError for any other payload."""
    kind, data = encode_payload(payload)
    if kind != "j" or not data.startswith(b"{"):
        raise PayloadError(f"payload must be a dict, not {type(payload).__name__}: a stream holds JSON objects")
    return data


def read_entries(reply: Any) -> list[StreamEntry]:
    """Return the entries of an XREADGROUP reply of one stream, whatever shape the protocol and client give it."""
    streams = list(reply.values()) if isinstance(reply, Mapping) else [part[1] for part in reply or ()]
    found = streams[0] if streams else []
    wrapped = found and isinstance(found[0][0], list | tuple)  # redis-py's form of a RESP3 map
    return entries_of(found[0] if wrapped else found)


def entries_of(reply: Any) -> list[StreamEntry]:
    """Return the entries of an XCLAIM reply; some servers return nil in the place of a deleted entry."""
    return [StreamEntry(text_of(entry[0]), _data(entry[1])) for entry in reply or () if entry and entry[0]]


def decode(stream: str, group: str, entry: StreamEntry) -> QueueMessage:
    """Return the message of an entry. Raises QueueError if it is malformed; the text says how to remove the entry."""
    try:
        payload = json.loads(entry.data) if entry.data is not None else None
    except ValueError as error:
        raise _malformed(stream, entry.id, "its field data is not JSON") from error
    if not isinstance(payload, dict):
        raise _malformed(stream, entry.id, "it has no field data" if entry.data is None else "its data is no object")
    return QueueMessage(stream, group, entry.id, payload)


def sorted_out(stream: str, group: str, entries: Iterable[StreamEntry]) -> tuple[list[QueueMessage], list[QueueError]]:
    """Return the messages of well-formed entries, and an error for each malformed entry."""
    messages, errors = [], []
    for entry in entries:
        try:
            messages.append(decode(stream, group, entry))
        except QueueError as error:
            errors.append(error)
    return messages, errors


def envelope(entry_id: str, data: bytes | None, delivered_before: int) -> bytes:
    """Return an entry as an envelope, the form in which leases hold messages."""
    enqueued_ms = int(entry_id.partition("-")[0])
    return codec.stamp(enqueued_ms, delivered_before) + codec.body(entry_id, "j", data or b"")


def _malformed(stream: str, entry_id: str, why: str) -> QueueError:
    error = QueueError(
        f"entry {entry_id} of stream {stream!r} is malformed: {why}. It stays pending: inspect it with XRANGE, "
        f"then remove it from the pending entries with XACK"
    )
    error.queue, error.message_id = stream, entry_id
    return error


def _data(fields: Any) -> bytes | None:
    pairs = fields.items() if isinstance(fields, Mapping) else zip(fields[::2], fields[1::2], strict=False)
    for key, value in pairs:
        if _bytes(key) == FIELD:
            return _bytes(value)
    return None


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


_RETRY_BUDGET_S = 30.0


@dataclass(slots=True, eq=False)
class StreamEngine(Observer):
    """State of a queue object.

    grouped: the group is known to exist. registered: the name is registered for tools, or must not be.
    malformed: errors about entries that came with good ones; the next reads raise them. unanswered: tokens of leases
    whose claim ended without a reply.
    """

    layouts = ("",)
    name: str
    keys: StreamKeys
    config: QueueConfig
    on_event: InitVar[OnEvent | None] = None
    grouped: bool = False
    registered: int = False
    malformed: deque[QueueError] = field(default_factory=deque)
    unanswered: deque[str] = field(default_factory=deque)
    tally: None = field(default=None, init=False)  # it keeps no history
    sinks: tuple[Sink, ...] = field(init=False)
    simple = True

    def __post_init__(self, on_event: OnEvent | None) -> None:
        self.sinks = () if on_event is None else (emitting(self.name, on_event),)

    @property
    def prefix(self) -> bytes:
        return self.keys.prefix

    @property
    def retry_budget_s(self) -> float:
        """How long the methods of WorkQueue resend; their scripts recognise a resend. Native ones make one attempt."""
        return _RETRY_BUDGET_S

    @property
    def heartbeat_s(self) -> float:
        return self.config.claim_idle_ms / 1000


def lacks_group(error: object) -> bool:
    """Return whether Redis reports that the stream or its group is missing."""
    return isinstance(error, ScriptFailed) and "NOGROUP" in str(error)  # Redis 6.2 names the script first


def or_lost(error: Exception) -> bytes:
    """Return the reply `lost` for a lease whose group is gone, and its leases with it; raise any other error."""
    if not lacks_group(error):
        raise error
    return b"lost"


def explained(engine: StreamEngine, error: RedisMessageQueueError) -> QueueError:
    """Return the error to raise for an error of Redis; for a missing group it says what to do."""
    if not lacks_group(error):
        return QueueError(str(error))
    stream, group = engine.config.stream_key, engine.config.consumer_group
    return QueueError(
        f"NOGROUP: group {group!r} of stream {stream!r} is gone: somebody destroyed it, or emptied Redis (FLUSHALL)."
        " It is not created again by itself, because a new group begins with the oldest entry, acknowledged or not."
        " If that is right, make a new queue object (restart the worker), whose first call creates the group; else"
        f" create it where it shall begin: XGROUP CREATE {stream} {group} $ MKSTREAM"
    )


def engine_of(name: str | QueueConfig, config: QueueConfig | None, on_event: OnEvent | None) -> StreamEngine:
    """Return the engine of `StreamQueue(redis, config)` or of `StreamQueue(redis, name, config)`."""
    if isinstance(name, QueueConfig):
        if config is not None:
            raise ConfigurationError("config was given twice: StreamQueue(redis, config) or (redis, name, config)")
        return StreamEngine(name.stream_key, StreamKeys(name.stream_key), name, on_event, registered=True)
    chosen = QueueConfig.named(check_name("name", name)) if config is None else config
    if not isinstance(chosen, QueueConfig):
        raise ConfigurationError(f"config must be a QueueConfig, not {type(chosen).__name__}")
    # Tools open a queue by its name alone, so they cannot find a queue whose stream key does not derive from its name.
    own = chosen.stream_key == stream_of(name)
    return StreamEngine(name, StreamKeys(chosen.stream_key), chosen, on_event, registered=not own)
