"""The state that the operations of one queue share: its keys, its settings, its unanswered claims. No IO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from rmq_core.envelope.codec import Message, TypedMessage
from rmq_core.errors import ConfigurationError, LeaseLost
from rmq_core.events import OnEvent, Operation
from rmq_core.exchange import Exchange
from rmq_core.kernel.base import KeyedEngine
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.kernel.settings import Following
from rmq_core.kernel.settling import lost
from rmq_core.leased.config import DISCIPLINE, LeasedConfig, ScriptSettings
from rmq_core.messages import Lease
from rmq_core.observe.fact import Observer, Sink, emitting
from rmq_core.observe.journal import JournalLength
from rmq_core.observe.tally import Tally
from rmq_core.policy import Shards, milliseconds, of_text, seconds

if TYPE_CHECKING:
    from rmq_core.leased.shards.state import Sharded


@dataclass(eq=False)
class LeasedEngine(KeyedEngine, Following, Observer):
    """State of a queue object. `unanswered` maps ids of claims that ended without a reply to their nonces.

    chosen: the groups that some of these claims named.
    """

    keys: LeasedKeys
    config: LeasedConfig
    on_event: InitVar[OnEvent | None] = None
    registered: int = False
    unanswered: dict[str, str] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    tally: Tally | None = field(init=False)
    sinks: tuple[Sink, ...] = field(init=False)
    journal: JournalLength | None = field(init=False)
    settings: ScriptSettings = field(init=False)
    own_lease_ms: int | str = field(init=False)
    dedup_window_ms: int = field(init=False)
    shards: Sharded | None = field(init=False, default=None)
    home: LeasedEngine | None = field(init=False, default=None)
    """For a shard, the engine of the first one."""

    def __post_init__(self, on_event: OnEvent | None) -> None:
        if self.config.groups is not None:
            raise ConfigurationError(
                "groups are stored with the queue, for all of its clients: queue.admin.configure(groups=...)"
            )
        if self.config.shards is not None:
            raise ConfigurationError(
                "shards are stored with the queue, for all of its clients: queue.admin.configure(shards=...)"
            )
        self.tally = Tally() if self.config.history else None
        self.sinks = () if on_event is None else (emitting(self.keys.name, on_event),)
        self.own_lease_ms = self.config.lease_ms
        self.follow(self.config, DISCIPLINE)

    def use(self, config: LeasedConfig) -> None:
        if config.groups != self.config.groups:
            self.keys.lay_out("grouped" if config.groups else "")
        self.config, self.settings = config, config.for_scripts
        self.keys.in_force = self.settings
        self.dedup_window_ms = milliseconds("dedup_window", config.dedup_window)
        self.journal = JournalLength.of(config.journal)
        if self.tally is not None:
            self.tally.entries = self.journal is None
        if isinstance(config.shards, Shards):
            if self.shards is None:
                from rmq_core.leased.shards.state import Sharded  # its module imports this one

                self.shards = Sharded(self)
            self.shards.use(config.shards)
        elif self.shards is not None:  # the queue was forgotten
            self.shards = None
            self.keys.lay_out("")

    def change(self, before: dict[str, Any], after: dict[str, Any]) -> Exchange[None]:
        """Change how the messages are stored, before the settings are."""
        from rmq_core.leased.grouping import set_groups  # its module imports this one
        from rmq_core.leased.shards.resharding import reshard

        if "groups" in before or "groups" in after:
            policy, rate, group_rate = (of_text(after.get(name)) for name in ("groups", "rate", "group_rate"))
            yield from set_groups(self, policy, rate, group_rate)
        if before.get("shards") != after.get("shards"):  # which a queue in groups cannot have
            yield from reshard(self, before, after)

    @property
    def settled(self) -> bool:
        return self.journal is None and self.shards is None and self.own.codec is None and super().settled

    def routed(self, operation: Callable[..., Exchange[Any]]) -> Callable[..., Exchange[Any]]:
        if self.shards is not None:
            from rmq_core.leased.shards.routes import route

            operation = route(operation)
        return operation if self.own.codec is None else partial(_read_by, self.own.codec, operation)

    @property
    def channels(self) -> set[bytes]:
        """The channels on which a notification may come."""
        shards = self.shards.engines.values() if self.shards else (self,)
        return {engine.keys.channel for engine in shards}

    @property
    def reclaiming(self) -> Callable[[Any, str], Exchange[int]] | None:
        """What takes back an expired lease, where that may have parts in other shards; else None."""
        if self.shards is None and self.home is None:
            return None
        from rmq_core.leased.shards.reclaiming import reclaim

        return reclaim

    def moved(self, chunk: Any) -> Exchange[Any]:
        """Store messages in the shards of a newer map."""
        from rmq_core.leased.shards.publishing import learn, stored

        engine = self.home or self
        yield from learn(engine)
        return (yield from stored(engine, chunk))

    @property
    def heartbeat_s(self) -> float | None:
        return None if self.config.lease is None else seconds("lease", self.config.lease)

    @property
    def gauged(self) -> dict[str, str | bytes]:
        keys = self.keys
        return {"kind": "list", "ready": keys.ready, "delayed": keys.delayed, "journal": keys.journal}

    def keep(self, result: Any) -> None:
        """Treat a granted lease like a claim without a reply: the caller does not get it."""
        lease = getattr(result, "lease", result)
        if isinstance(lease, Lease) and lease.token and not lease.state.joined:
            engine = self if self.shards is None else self.shards.engines[self.shards.of_lease(lease.id)]
            engine.unanswered[lease.id] = lease.token.partition(".")[2].removeprefix("g")

    def lost(self, lease: Lease) -> LeaseLost:
        """Mark a lease as lost, emit that event, and return the error to raise."""
        self.state(Operation.LOST, lease.count, lease)
        return lost(lease)

    def lease_ms(self, lease: timedelta | float | None, parameter: str = "lease") -> int | str:
        """Return a lease time in the form that the scripts expect; None means the queue's own lease time."""
        return self.own_lease_ms if lease is None else milliseconds(parameter, lease, minimum=0.001)

    def seen_by(self, sink: Sink) -> LeasedEngine:
        """Return this engine with one more sink, for a single call; all other state is shared."""
        one = object.__new__(_SeenEngine)
        one.__dict__, one.sinks = self.__dict__, (*self.sinks, sink)
        return one


def _read_by(
    codec: Any, operation: Callable[..., Exchange[Any]], engine: LeasedEngine, /, *args: Any, **options: Any
) -> Exchange[Any]:
    """Run an operation; the messages of a lease that it returns are read with the codec."""
    result = yield from operation(engine, *args, **options)
    lease = getattr(result, "lease", result)
    if isinstance(lease, Lease):
        lease.state.codec = codec
    elif isinstance(result, list) and args and isinstance(args[0], Lease):
        return [TypedMessage.of(each, codec) if isinstance(each, Message) else each for each in result]
    return result


class _SeenEngine(LeasedEngine):
    __slots__ = ("sinks",)
