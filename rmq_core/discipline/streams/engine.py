"""The state that the operations of one stream queue share: keys, settings and work left for the next call. No IO."""

from __future__ import annotations

from collections import deque
from dataclasses import InitVar, dataclass, field

from rmq_core.discipline.streams.config import QueueConfig
from rmq_core.discipline.streams.keys import StreamKeys, stream_of
from rmq_core.errors import ConfigurationError, QueueError, RedisMessageQueueError, ScriptFailed
from rmq_core.events import OnEvent
from rmq_core.observe.fact import Observer, Sink, emitting
from rmq_core.queue.keys import check_name

_RETRY_BUDGET_S = 30.0


@dataclass(slots=True, eq=False)
class StreamEngine(Observer):
    """State of a queue object.

    grouped: the group is known to exist. registered: the name is registered for tools, or must not be.
    malformed: errors about entries that came with good ones; the next reads raise them. unanswered: tokens of leases
    whose claim ended without a reply.
    """

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
    def beat_s(self) -> float:
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
