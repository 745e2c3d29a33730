"""The shards of one queue object: an engine for each, and which of them an operation is about."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from rmq_core.errors import QueueUnavailable, RedisMessageQueueError
from rmq_core.exchange import Exchange, across, at
from rmq_core.kernel.keys import ShardKeys
from rmq_core.kernel.settings import looked
from rmq_core.policy import Shards

if TYPE_CHECKING:
    from rmq_core.leased.state import LeasedEngine
    from rmq_core.messages import Lease

K = TypeVar("K")
R = TypeVar("R")
FIRST = "0"
PART = "~@"
"""What the ids of parts begin with."""
DECIDED = "~="
"""What the names of acked leases begin with, some of whose parts may not be acked yet."""
HOME = ".parts"
"""How the ids that the queue makes for leases in parts end."""
SLOTS = 16384
_REST_S = 10.0
_PART_MS = 600_000


class Sharded:
    """The shards that a queue object knows of. engines: by name, the first shard's first."""

    def __init__(self, base: LeasedEngine) -> None:
        self.base = base
        self.engines: dict[str, LeasedEngine] = {}
        self.away: dict[str, float] = {}
        """Shards that did not answer, and until when nothing is asked of them that others can do."""
        self.taken_back = 0
        """How many leases in parts were taken back: then shards may have more than they said just before."""
        self._turn = self._claims = randrange(1000)  # so that not all clients begin with the same one

    def use(self, known: Shards) -> None:
        """Follow a map; the engines of shards that stay are kept."""
        self.map, base = known, self.base
        base.keys.lay_out("sharded")
        self.engines = {name: self.engines.get(name) or self._engine(name) for name in known.all}
        config = replace(base.config, shards=None)
        if config.max_ready:
            config = replace(config, max_ready=-(-config.max_ready // len(known.names)))
        for engine in self.engines.values():
            engine.keys.known_epoch = b"%d" % known.epoch
            if engine is not base:
                engine.use(config)
        self._first = object.__new__(type(base))
        self._first.__dict__ = {**vars(base), "shards": None}
        self._first.use(config)

    def _engine(self, name: str) -> LeasedEngine:
        base = self.base
        if name == FIRST:
            return base
        made = type(base)(ShardKeys(base.name, name), replace(base.config, shards=None))
        made.known, made.simple, made.look_at, made.registered = True, True, inf, True
        made.tally, made.sinks, made.home = base.tally, base.sinks, base
        return made

    def storing(self, name: str) -> LeasedEngine:
        """Return the engine with which messages are stored in a shard, whose bound is its part of the queue's."""
        return self._first if name == FIRST else self.engines[name]

    @property
    def bound(self) -> int | None:
        """How many messages may wait in one shard."""
        return self._first.config.max_ready

    @property
    def others(self) -> dict[str, LeasedEngine]:
        return {name: engine for name, engine in self.engines.items() if name != FIRST}

    def turn(self) -> list[str]:
        """Return the shards that get messages, another one first at each call, those that are away last."""
        names, now = self.map.names, monotonic()
        self._turn = first = (self._turn + 1) % len(names)
        found = [*names[first:], *names[:first]]
        return sorted(found, key=lambda name: self.away.get(name, 0) > now) if self.away else found

    def of_lease(self, lease_id: str) -> str:
        """Return the shard that an id names."""
        _, dot, name = lease_id.partition(".") if lease_id.startswith("~") else ("", "", "")
        return name if dot and name in self.engines else FIRST

    def at(self, name: str, exchange: Exchange[R]) -> Exchange[R]:
        """Run an exchange at a shard."""
        try:
            return (yield from at(self.engines[name].prefix, exchange))
        except QueueUnavailable:
            self.away[name] = monotonic() + _REST_S
            raise

    def across(
        self, names: Iterable[str], operation: Callable[[str, LeasedEngine], Exchange[R]], *, hurry: bool = False
    ) -> Exchange[dict[str, R | Exception]]:
        """Run an operation on shards side by side; return the results by name, errors among them."""
        engines = {name: self.engines[name] for name in names}
        started = {name: (engine.prefix, operation(name, engine)) for name, engine in engines.items()}
        found = yield from across(started, hurry=hurry)
        for name, result in found.items():
            if isinstance(result, QueueUnavailable):
                self.away[name] = monotonic() + _REST_S
            else:
                self.away.pop(name, None)
        return found

    def look(self, verb: str) -> Exchange[None]:
        """Read the settings as the writes to other shards cannot; the operation goes on if their node is away."""
        if self.away.get(FIRST, 0) <= monotonic():
            yield from self.across((FIRST,), lambda _, base: looked(base, verb), hurry=True)

    def across_many(self, exchanges: Mapping[K, tuple[str, Exchange[R]]]) -> Exchange[dict[K, R | Exception]]:
        """Run exchanges side by side, each at the shard of that name, by any key."""
        return across({key: (self.engines[name].prefix, one) for key, (name, one) in exchanges.items()})

    def next_claim(self) -> str:
        """Return the shard from which the next claim is tried first."""
        names = list(self.engines)
        self._claims += 1
        return names[self._claims % len(names)]

    def stored(self, chunk: Any) -> Exchange[Any]:
        """Store messages where they belong."""
        from rmq_core.leased.shards.publishing import stored  # its module imports this one

        return stored(self.base, chunk)

    def stored_many(self, chunks: Any, tally: Any) -> Exchange[None]:
        """Store chunks side by side."""
        from rmq_core.leased.shards.publishing import stored_many

        return stored_many(self.base, chunks, tally)

    def all(
        self, operation: Callable[[str, LeasedEngine], Exchange[R]], *, hurry: bool = False
    ) -> Exchange[dict[str, R]]:
        """Run an operation on all shards; raise the first error."""
        found = yield from self.across(self.engines, operation, hurry=hurry)
        return checked(found)


def sharded(engine: LeasedEngine) -> Sharded:
    """Return the shards of the queue of an engine."""
    found = (engine.home or engine).shards
    if found is None:
        raise RedisMessageQueueError(
            f"the settings of queue {engine.name!r} name no shards: if it was forgotten, call again, for a new queue"
        )
    return found


def checked(found: dict[str, R | Exception]) -> dict[str, R]:
    """Return the results of shards; raise the first error."""
    for result in found.values():
        if isinstance(result, Exception):
            raise result
    return found  # type: ignore[return-value]


def slot_of(queue: str, shard: str) -> int:
    """Return the slot of a shard: the CRC-16 of its hash tag, as in the specification of Redis Cluster."""
    tag = queue if shard == FIRST else f"{queue}~{shard}"
    return crc_hqx(tag.encode(), 0) % SLOTS


def part_id(lease: Lease | str) -> str:
    """Return the id of the parts of a lease."""
    return PART + (lease if isinstance(lease, str) else lease.id)


def part_ms(lease_ms: int | str) -> int:
    """Return for how long a part is left alone: at most 10 minutes, as one that nobody knows of waits so long."""
    return min(lease_ms, _PART_MS) if isinstance(lease_ms, int) else _PART_MS


def generation(token: str) -> str:
    """Return the nonce of parts under a token of the home."""
    return token.replace(".", "-")
