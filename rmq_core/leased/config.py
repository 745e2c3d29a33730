"""The settings of a leased queue: one frozen value, validated when it is created."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, Literal, NamedTuple

from rmq_core.envelope.claim_check import ClaimCheck
from rmq_core.envelope.codec import P
from rmq_core.envelope.payloads import PayloadLimits
from rmq_core.envelope.typed import Typed
from rmq_core.errors import ConfigurationError
from rmq_core.observe.journal import JournalLength
from rmq_core.policy import (
    LAYS_OUT,
    STORED,
    Backoff,
    Breaker,
    Durability,
    Groups,
    Overflow,
    Rate,
    Shards,
    check_all,
    check_breaker,
    check_groups,
    check_rate,
    milliseconds,
    seconds,
    whole,
)
from rmq_core.protocol import Capabilities

DISCIPLINE = "leased"
_MOST_SHARDS = 64
CAPABILITIES = Capabilities(
    fenced=True, extend=True, takeover=True, delay=True, dedup=True, dead_letters=True, auto_reclaim=True,
    partial_settle=True, batch=True, large_leases=True, headers=True, groups=True,
)  # fmt: skip


class ScriptSettings(NamedTuple):
    """The settings that scripts take, by the names in their headers; 0 where the queue has no limit, or no log.

    breaker: empty for none.
    """

    max_deliveries: int
    max_dead: int
    max_ready: int
    max_hold_ms: int
    completed_cap: int
    failed_cap: int
    drop_oldest: str
    breaker: str
    replaces: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedConfig(PayloadLimits, Generic[P]):
    """Settings of a LeasedQueue. Durations are seconds or timedelta; sizes are bytes.

    What is marked as STORED can be stored with the queue, by `queue.admin.configure`; then it holds for all programs,
    whatever they pass here.

    compress_above: payloads of more bytes than this are stored compressed, by zlib, if that makes them shorter; "4KiB"
    on command lines. None compresses nothing.
    codec: Typed(Order) for payloads of one type, which are then checked; ClaimCheck(url) for large ones, which it puts
    into files; None for the codec json. It is a part of the program, and cannot be stored: each program passes it.
    lease: how long a claim holds its messages unless it is extended; None means for ever (an operator can release it).
    max_hold: the longest time that heartbeats may keep a lease, counted from its claim; None for no limit.
    max_deliveries: after this many failed deliveries a message becomes a dead letter; deliveries in which it failed
    together with other messages do not count. None for no limit.
    backoff: delay of a nacked message when the nack names none.
    max_ready: how many messages may wait (ready and delayed). overflow: what publish does above that number.
    dedup: deduplicate by payload when publish names no key. dedup_key: returns the key of a payload, which replaces
    the payload's digest. dedup_window: how long a deduplication key is remembered. dedup_until: with
    "settled", a key is taken until its message is acked, dead or deleted, and no longer; this needs groups, and so it
    has to be stored with the queue. on_duplicate: with "replace", which needs dedup_until "settled", a message takes
    the place of one with its key that waits in the same group and with the same priority; it is not dropped then.
    settled_ttl: how long the queue remembers that a lease id was acked as a whole.
    max_dead: how many dead letters are kept.
    pause_after_dead: pause the queue when so many messages became dead letters within a span of time, as after a bad
    deploy: Breaker(20, timedelta(minutes=10)).
    completed_log, failed_log: how many acked and nacked messages are kept.
    durability: what publish and ack wait for. retry_budget: how long a call is retried while Redis does not answer.
    history: whether this client counts for `history` and `totals` what it does.
    journal: record for `why` who published, claimed and settled which messages: the number of entries that are kept,
    or how long (timedelta). None records nothing.
    groups: how messages wait in groups, for which `publish` has `group`; None for one line. It can only be stored with
    the queue, because it changes how the messages are stored: `queue.admin.configure(groups="fair")`.
    rate, group_rate: how many messages claims may get in a time, from the whole queue and from each group, for all
    programs together; stored with `groups`: `queue.admin.configure(groups="fair", rate="50/1m")`.
    shards: in how many slots of a cluster the queue is stored, so that several nodes share its work; None for one. It
    can only be stored with the queue, and has its names then: `queue.admin.configure(shards=6)`.
    """

    codec: Typed[P] | ClaimCheck[P] | None = None
    lease: timedelta | float | None = 300
    max_hold: timedelta | float | None = field(default=None, metadata=STORED)
    max_deliveries: int | None = field(default=10, metadata=STORED)
    backoff: Backoff | None = field(default=None, metadata=STORED)
    max_ready: int | None = field(default=None, metadata=STORED)
    overflow: Overflow = field(default=Overflow.RAISE, metadata=STORED)
    dedup: bool = field(default=False, metadata=STORED)
    dedup_key: Callable[[Any], str] | None = None
    dedup_window: timedelta | float = field(default=3600, metadata=STORED)
    dedup_until: Literal["window", "settled"] = field(default="window", metadata=STORED)
    on_duplicate: Literal["drop", "replace"] = field(default="drop", metadata=STORED)
    settled_ttl: timedelta | float = field(default=7 * 86400, metadata=STORED)
    max_dead: int = field(default=100_000, metadata=STORED)
    pause_after_dead: Breaker | None = field(default=None, metadata=STORED)
    completed_log: int = field(default=0, metadata=STORED)
    failed_log: int = field(default=0, metadata=STORED)
    durability: Durability | None = None
    retry_budget: timedelta | float = 30
    history: bool = True
    journal: int | timedelta | None = field(default=None, metadata=STORED)
    compress_above: int | None = field(default=None, metadata=STORED)
    groups: Groups | None = field(default=None, metadata=STORED)
    rate: Rate | None = field(default=None, metadata=STORED)
    group_rate: Rate | None = field(default=None, metadata=STORED)
    shards: Shards | int | None = field(default=None, metadata=LAYS_OUT)

    def __post_init__(self) -> None:
        PayloadLimits.__post_init__(self)
        self._check_numbers()
        if not isinstance(self.overflow, Overflow):
            raise ConfigurationError(f"overflow must be an Overflow, as Overflow.BLOCK(5) is, not {self.overflow!r}")
        if not isinstance(self.dedup, bool):
            raise ConfigurationError(f"dedup must be true or false, not {self.dedup!r}")
        if self.overflow != Overflow.RAISE and self.max_ready is None:
            raise ConfigurationError("overflow needs max_ready: how many messages may wait")
        if self.overflow == Overflow.DROP_OLDEST and (self.dedup or self.dedup_key is not None):
            raise ConfigurationError(
                "overflow DROP_OLDEST cannot be combined with dedup: a dropped message could not be published again"
            )
        if self.dedup_until not in ("window", "settled"):
            raise ConfigurationError(f"dedup_until must be 'window' or 'settled', not {self.dedup_until!r}")
        if self.dedup_until == "settled" and self.groups is None:
            raise ConfigurationError(
                "dedup_until 'settled' needs groups: queue.admin.configure(groups='fair', dedup_until='settled')"
            )
        if self.on_duplicate not in ("drop", "replace"):
            raise ConfigurationError(f"on_duplicate must be 'drop' or 'replace', not {self.on_duplicate!r}")
        if self.on_duplicate == "replace" and self.dedup_until != "settled":
            raise ConfigurationError(
                "on_duplicate 'replace' needs groups, and keys that are taken until their message is settled: "
                "queue.admin.configure(groups='fair', dedup_until='settled', on_duplicate='replace')"
            )
        check_breaker(self.pause_after_dead, self.max_dead)
        check_groups(self.groups)
        check_rate("rate", self.rate, self.groups)
        check_rate("group_rate", self.group_rate, self.groups)
        self._check_shards()
        if self.groups is not None and self.overflow == Overflow.DROP_OLDEST:
            raise ConfigurationError("overflow DROP_OLDEST cannot be combined with groups: use raise or block")
        if self.durability is not None and not isinstance(self.durability, Durability):
            raise ConfigurationError("durability must be a Durability, for example Durability(replicas=1)")
        if self.backoff is not None and not isinstance(self.backoff, Backoff):
            raise ConfigurationError("backoff must be a Backoff, as exponential(1, 300), or the text exponential 1 300")
        if self.dedup_key is not None and not callable(self.dedup_key):
            raise ConfigurationError("dedup_key must be a callable from a payload to its key")

        if self.codec is not None and not isinstance(self.codec, Typed | ClaimCheck):
            raise ConfigurationError(
                f"codec must be Typed(...) or ClaimCheck(...), such as Typed(Order), not {self.codec!r}"
            )

    def _check_shards(self) -> None:
        if self.shards is None:
            return
        if not isinstance(self.shards, Shards):
            whole("shards", self.shards, minimum=1)
            if self.shards > _MOST_SHARDS:
                raise ConfigurationError(f"shards must be at most {_MOST_SHARDS}, not {self.shards}")
        if self.groups is not None:
            raise ConfigurationError("shards cannot be combined with groups: a group has one order, in one slot")
        if self.overflow == Overflow.DROP_OLDEST:
            raise ConfigurationError(
                "shards cannot be combined with overflow DROP_OLDEST: no shard knows the oldest message of all; use"
                " raise or block"
            )
        if self.journal is not None:
            raise ConfigurationError("shards cannot be combined with a journal, which is one stream in one slot")

    def _check_numbers(self) -> None:
        check_all(seconds, self, "lease", "max_hold", minimum=0.001, optional=True)
        check_all(seconds, self, "dedup_window", "settled_ttl", "retry_budget", minimum=0.001)
        check_all(whole, self, "max_deliveries", "max_ready", "compress_above", minimum=1, optional=True)
        check_all(whole, self, "max_dead", minimum=1)
        check_all(whole, self, "completed_log", "failed_log")
        JournalLength.of(self.journal)

    @property
    def lease_ms(self) -> int | str:
        return "inf" if self.lease is None else milliseconds("lease", self.lease)

    @property
    def for_scripts(self) -> ScriptSettings:
        return ScriptSettings(
            max_deliveries=self.max_deliveries or 0,
            max_dead=self.max_dead,
            max_ready=self.max_ready or 0,
            max_hold_ms=0 if self.max_hold is None else milliseconds("max_hold", self.max_hold),
            completed_cap=self.completed_log,
            failed_cap=self.failed_log,
            drop_oldest="1" if self.overflow == Overflow.DROP_OLDEST else "0",
            breaker="" if self.pause_after_dead is None else self.pause_after_dead.stored,
            replaces="1" if self.on_duplicate == "replace" else "0",
        )

    @property
    def settled_ttl_ms(self) -> int:
        return milliseconds("settled_ttl", self.settled_ttl)
