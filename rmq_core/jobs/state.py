"""The keys of a job queue, and the state that the operations of one queue object share. No IO.

All keys share the hash tag `{<queue>}`, so a queue lives in one slot of a cluster.

rmq:{q}:jobs:ready       stream  jobs, field `e` the envelope; consumer group `jobs`. Finished jobs are deleted
rmq:{q}:jobs:delayed     zset    job id -> due time, ms
rmq:{q}:jobs:later       hash    job id -> envelope of a delayed job
rmq:{q}:jobs:dead        list    dead letters, newest left, capped
rmq:{q}:jobs:leases      zset    lease id -> deadline, ms
rmq:{q}:jobs:heads       hash    lease id -> `<token> <takeovers> <count> <returned> <claimed ms> <owner>`
rmq:{q}:jobs:lease:<id>  stream  unsettled jobs of a lease; entry `<index + 1>-0`
rmq:{q}:jobs:done:<id>   string  record that a lease under an id chosen by the caller was acked whole; expires
rmq:{q}:jobs:fence       string  counter of fencing numbers
rmq:{q}:jobs:unique:<d>  string  128-bit digest of a job id or deduplication key -> nonce of the adding call; expires
rmq:{q}:jobs:result:<id> stream  one entry, a job's return value or the reason it became a dead letter; expires
rmq:{q}:jobs:events      stream  job events, fields `event` and `ids`; the only stream that is trimmed
rmq:{q}:jobs:paused      string  last entry delivered before the queue was paused; absent unless it is paused
rmq:{q}:jobs:alarm       list    a token, pushed when something becomes due sooner than all before; expires
rmq:{q}:jobs:repeats     zset    key of a repeatable job -> when it fires next, ms
rmq:{q}:jobs:repeat      hash    key -> its rule, JSON
rmq:{q}:jobs:fired       hash    key -> how often it fired
rmq:{q}:jobs:history     hash    counts per minute and hour, totals and marks; expires
rmq:{q}:jobs:settings    string  settings that all clients follow, JSON: name -> value
rmq:{q}:jobs:differing   zset    programs whose configs differ from them -> when they last said so, ms; expires
rmq:{q}:jobs:clients     zset    programs that publish or consume, with host, pid, version and settings -> ms; expires
rmq:{q}:jobs:import:<n>  string  progress of an import; expires
rmq:{q}:jobs:slot:<c>/<n> string last call and reply of a client's call slot; expires
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rmq_core.envelope.codec import nonce
from rmq_core.errors import ConfigurationError, RedisMessageQueueError, ScriptFailed, Unsupported
from rmq_core.exchange import Exchange, Want
from rmq_core.exchange.scripts import script
from rmq_core.jobs.config import REMEMBERED, REMEMBERED_S, JobsConfig, ScriptSettings
from rmq_core.kernel.base import KeyedEngine
from rmq_core.kernel.keys import Keys, part
from rmq_core.kernel.registry import ready
from rmq_core.kernel.settings import Following
from rmq_core.observe.fact import Observer, Sink
from rmq_core.observe.tally import Tally
from rmq_core.policy import milliseconds, seconds

GROUP = b"jobs"


class JobsKeys(Keys, prefix="rmq:*:jobs:"):
    """The keys of one queue."""

    ready: bytes
    delayed: bytes
    later: bytes
    dead: bytes
    leases: bytes
    heads: bytes
    fence: bytes
    events: bytes
    alarm: bytes
    repeats: bytes
    repeat: bytes
    fired: bytes
    paused: bytes
    history: bytes
    settings: bytes
    differing: bytes
    clients: bytes

    lease = part("lease")
    done = part("done")
    unique = part("unique")
    result = part("result")


@dataclass(slots=True, eq=False)
class JobsEngine(KeyedEngine, Following, Observer):
    """State of a queue object. `native` is None until `prepare` has read the features of the server.

    paused: a worker's last read found the queue paused.
    """

    keys: JobsKeys
    config: JobsConfig
    native: bool | None = None
    registered: int = False
    paused: bool = False
    producer: str = field(default_factory=nonce)
    own_lease_ms: int = field(init=False)
    settings: ScriptSettings = field(init=False)
    tally: Tally | None = field(init=False)
    sinks: tuple[Sink, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.own_lease_ms = self.config.lease_ms
        self.tally = Tally() if self.config.history else None
        self.follow(self.config, "jobs")

    def use(self, config: JobsConfig) -> None:
        self.config, self.settings = config, config.for_scripts

    @property
    def heartbeat_s(self) -> float | None:
        return seconds("lease", self.config.lease)

    @property
    def gauged(self) -> dict[str, str | bytes]:
        # A flush of this kind reads neither delayed messages nor a journal, but their places have to be filled.
        keys = self.keys
        return {
            "kind": "stream",
            "ready": keys.ready,
            "delayed": keys.delayed,
            "journal": keys.history,
            "paused": keys.paused,
        }

    @property
    def prepared(self) -> bool:
        """Whether `prepare` has done all that it does; it may have been unable to register the queue."""
        return self.native is not None and bool(self.registered)

    @property
    def flag(self) -> str:
        """The `native` argument of scripts: '1' if the server has IDMP, XREADGROUP CLAIM and XACKDEL, else '0'."""
        return "1" if self.native else "0"

    def keep(self, result: Any) -> None:
        """Leave a lease that the caller does not get until its deadline."""

    def lease_ms(self, lease: timedelta | float | None, parameter: str = "lease") -> int:
        return self.own_lease_ms if lease is None else milliseconds(parameter, lease, minimum=0.001)


def prepare(engine: JobsEngine) -> Exchange[None]:
    """Read the features of the server, create the consumer group and register the queue for tools.

    Raises Unsupported if the server lacks the commands to claim from a stream: no consumer could read the queue.
    """
    reply = yield script("jobs/prepare", engine.keys, group=GROUP, remembered_s=REMEMBERED_S, remembered=REMEMBERED)
    if reply not in {b"native", b"plain"}:
        command = reply.decode().partition(" ")[2]
        raise Unsupported("jobs", f"way to work on a server without {command}: it needs Redis 6.2 or later")
    engine.native = reply == b"native"
    yield from ready(engine, "jobs")


def grouped(engine: JobsEngine, want: Callable[[], Want]) -> Exchange[Any]:
    """Send a request that needs the consumer group. If the group is gone (FLUSHDB), create it again and resend."""
    if not engine.prepared:
        yield from prepare(engine)
    try:
        reply = yield want()
    except ScriptFailed as error:
        if "NOGROUP" not in str(error):
            raise
        yield from prepare(engine)
        reply = yield want()
    return reply


def refused(what: str, reply: bytes) -> RedisMessageQueueError:
    """Return the error for an unexpected reply. Scripts give one only if another program writes to the queue's keys."""
    return ScriptFailed(f"{what} got {reply.decode(errors='replace')!r}")


def check_text(parameter: str, value: str | None) -> str:
    """Return the name of an owner or worker as lease heads and history store it; '' for None."""
    text = "" if value is None else value
    if not isinstance(text, str) or len(text) > 512 or (text and not text.isprintable()):
        raise ConfigurationError(f"{parameter} must be a text of at most 512 visible characters, not {value!r}")
    return text
