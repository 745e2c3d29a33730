"""The native operations: Redis' own stream commands. Each is sent once, and each failure is a QueueError.

Nothing here retries, buffers, acknowledges or takes over messages unless the caller asks for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from rmq_core.errors import (
    ConfigurationError,
    PayloadError,
    QueueError,
    QueueFull,
    RedisMessageQueueError,
    ScriptFailed,
)
from rmq_core.events import Operation
from rmq_core.exchange import Call, Command, Exchange, Listen, text_of
from rmq_core.exchange.scripts import script
from rmq_core.streams.state import (
    FIELD,
    BacklogStats,
    QueueMessage,
    StreamEngine,
    StreamEntry,
    encode,
    entries_of,
    explained,
    positive,
    read_entries,
    sorted_out,
)

P = ParamSpec("P")
R = TypeVar("R")
_BOUND = 1000


def surfacing(
    operation: Callable[Concatenate[StreamEngine, P], Exchange[R]],
) -> Callable[Concatenate[StreamEngine, P], Exchange[R]]:
    """Return the operation, changed so that each failure between it and Redis raises QueueError."""

    @functools.wraps(operation)
    def surfaced(engine: StreamEngine, /, *args: P.args, **kwargs: P.kwargs) -> Exchange[R]:
        try:
            return (yield from operation(engine, *args, **kwargs))
        except (QueueError, ConfigurationError, PayloadError):
            raise
        except RedisMessageQueueError as error:
            raise explained(engine, error) from error

    return surfaced


def start(engine: StreamEngine) -> Exchange[None]:
    """Make sure, once per queue object, that the group exists. A new group begins with the oldest entry.

    A group that is deleted later is not created again: reads then raise an error that says what to do.
    """
    if engine.grouped:
        return
    config = engine.config
    try:
        yield Command(("XGROUP", "CREATE", config.stream_key, config.consumer_group, "0-0", "MKSTREAM"))
    except ScriptFailed as error:
        if not str(error).startswith("BUSYGROUP"):
            raise
    except QueueFull:  # consumers of a full server must be able to read; the read fails if the group is missing
        return
    engine.grouped = True


@surfacing
def enqueue(engine: StreamEngine, payload: dict[str, Any]) -> Exchange[str]:
    """Add a message and return the id of its entry. Raises PayloadError for a payload that is no JSON object.

    It is sent once: after a QueueError, the caller does not know whether the message was stored.
    """
    data = encode(payload)
    yield from start(engine)
    entry_id = text_of((yield Command(("XADD", engine.config.stream_key, "*", FIELD, data))))
    engine.state(Operation.PUBLISH, message_id=entry_id)
    return entry_id


@surfacing
def read(engine: StreamEngine, block_ms: int | None = None, count: int | None = None) -> Exchange[list[QueueMessage]]:
    """Return at most `count` messages not yet delivered to the group, or [] when none comes within `block_ms`.

    None means the config's value. A malformed entry raises QueueError. When good entries came with it, this read
    returns them and the next read raises the error.
    """
    config = engine.config
    block_ms = positive("block_ms", config.block_ms if block_ms is None else block_ms)
    count = positive("count", config.max_read_count if count is None else count)
    _raise_owed(engine)
    yield from start(engine)
    group, consumer = config.consumer_group, config.consumer_name
    reading = ("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "BLOCK", block_ms)
    command = (*reading, "STREAMS", config.stream_key, ">")
    return _delivered(engine, read_entries((yield Listen(command, block_ms))), Operation.CLAIM)


@surfacing
def acknowledge(engine: StreamEngine, message: QueueMessage) -> Exchange[int]:
    """Acknowledge a message. Return 1, or 0 when it was acknowledged before, which is no error."""
    count = int((yield Command(("XACK", message.stream, message.group, message.id))))
    engine.state(Operation.ACK, count, message_id=message.id)
    return count


@surfacing
def claim_stale(engine: StreamEngine, min_idle_ms: int | None = None, count: int = 10) -> Exchange[list[QueueMessage]]:
    """Take over at most `count` messages that were delivered `min_idle_ms` ago or more and are not acknowledged.

    None means the config's claim_idle_ms. Best effort: it checks the oldest pending entries once. Malformed entries are
    treated as in `read`.
    """
    config = engine.config
    idle_ms = positive("min_idle_ms", config.claim_idle_ms if min_idle_ms is None else min_idle_ms)
    wanted = positive("count", count)
    _raise_owed(engine)
    yield from start(engine)
    stream, group, consumer = config.stream_key, config.consumer_group, config.consumer_name
    skip = consumer if config.claim_skip_own_messages else None
    listed = wanted if skip is None else max(wanted, _BOUND)
    # As bytes: a client that parses replies by command name would parse "XPENDING" as its short form and fail.
    pending = yield Listen((b"XPENDING", stream, group, "IDLE", idle_ms, "-", "+", listed), 0)
    ids = [text_of(entry[0]) for entry in pending if text_of(entry[1]) != skip]
    if not ids:
        return []
    reply = yield Listen(("XCLAIM", stream, group, consumer, idle_ms, *ids[:wanted]), 0)
    return _delivered(engine, entries_of(reply), Operation.RECLAIM)


@surfacing
def backlog_stats(engine: StreamEngine) -> Exchange[BacklogStats]:
    """Return the backlog of the group, read in one call. It changes nothing and does not create the group."""
    found = yield count_call(engine)
    return BacklogStats(found[0], found[1], found[2], found[3], None if found[6] < 0 else found[6])


def count_call(engine: StreamEngine) -> Call:
    """Return the call that counts messages for `backlog_stats`, `backlog` and `stats`."""
    config = engine.config
    return script(
        "streams/stats", engine.keys, group=config.consumer_group, stale_ms=config.claim_idle_ms, most=_BOUND
    )  # fmt: skip


def _delivered(engine: StreamEngine, entries: list[StreamEntry], operation: Operation) -> list[QueueMessage]:
    messages, errors = sorted_out(engine.config.stream_key, engine.config.consumer_group, entries)
    engine.state(operation, len(messages), message_id=messages[0].id if len(messages) == 1 else None)
    engine.malformed.extend(errors)
    if not messages:
        _raise_owed(engine)
    return messages


def _raise_owed(engine: StreamEngine) -> None:
    if engine.malformed:
        raise engine.malformed.popleft()
