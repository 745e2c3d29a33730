"""The settings and keys of a reliable queue, and the state that its operations share. No IO.

All keys share the hash tag `{<queue>}`, so a queue lives in one slot of a cluster.

rmq:reliable:{q}:queue           list  envelopes; publish pushes left, workers take from the right
rmq:reliable:{q}:processing:<w>  list  messages that worker `w` holds, newest left
rmq:reliable:{q}:claims:<w>      hash  message id -> token, ms when claimed, ms when the claim ends (0: none set)
rmq:reliable:{q}:workers         zset  worker -> ms when it was last seen; the reaper checks the lists of these
rmq:reliable:{q}:strays          hash  message id -> ms when the reaper first saw it held without a claim
rmq:reliable:{q}:dead            list  dead letters, newest left, capped
rmq:reliable:{q}:settings        string  settings that all clients follow, JSON: name -> value
rmq:reliable:{q}:differing       zset  programs whose configs differ from them -> when they last said so, ms; expires
rmq:reliable:{q}:clients         zset  programs that publish or consume -> when they last did so, ms; expires
rmq:reliable:{q}:slot:<c>/<n>    string  last call and reply of a client's call slot; expires
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta

from rmq_core.envelope.codec import nonce
from rmq_core.envelope.payloads import PayloadLimits
from rmq_core.kernel.base import KeyedEngine
from rmq_core.kernel.keys import Keys, check_name, part
from rmq_core.kernel.settings import Following
from rmq_core.policy import STORED, check_all, milliseconds, seconds, whole
from rmq_core.protocol import Capabilities

DISCIPLINE = "reliable"
CAPABILITIES = Capabilities(fenced=True, extend=True, dead_letters=True, partial_settle=True, batch=True, headers=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableConfig(PayloadLimits):
    """Settings of a ReliableQueue. Durations are seconds or timedelta; sizes are bytes.

    What is marked as STORED can be stored with the queue, by `queue.admin.configure`; then it holds for all programs.

    timeout: how long a worker may hold a message, unless it extends, before a reaper considers the worker dead.
    max_deliveries: after this many failed deliveries a message becomes a dead letter; None for no limit.
    worker: the name of this worker, and of its processing list; None generates one from host and process.
    max_dead: how many dead letters are kept. retry_budget: how long a call is retried while Redis does not answer.
    """

    timeout: timedelta | float = field(default=600, metadata=STORED)
    max_deliveries: int | None = field(default=10, metadata=STORED)
    worker: str | None = None
    max_dead: int = field(default=100_000, metadata=STORED)
    retry_budget: timedelta | float = 30

    def __post_init__(self) -> None:
        PayloadLimits.__post_init__(self)
        check_all(seconds, self, "timeout", "retry_budget", minimum=0.001)
        check_all(whole, self, "max_dead", minimum=1)
        check_all(whole, self, "max_deliveries", minimum=1, optional=True)
        if self.worker is not None:
            check_name("worker", self.worker)

    @property
    def timeout_ms(self) -> int:
        return milliseconds("timeout", self.timeout)


class ReliableKeys(Keys, prefix="rmq:reliable:*:"):
    """The keys of one queue."""

    queue: bytes
    workers: bytes
    strays: bytes
    dead: bytes
    settings: bytes
    differing: bytes
    clients: bytes

    processing = part("processing")
    claims = part("claims")


@dataclass(slots=True, eq=False)
class ReliableEngine(KeyedEngine, Following):
    """State of a queue object. `unanswered` maps tokens of claims that ended without a reply to their workers."""

    keys: ReliableKeys
    config: ReliableConfig
    registered: int = False
    worker: str = field(init=False)
    unanswered: dict[str, str] = field(default_factory=dict)
    tally: None = field(default=None, init=False)  # it keeps no history

    def __post_init__(self) -> None:
        self.follow(self.config, DISCIPLINE)
        self.worker = self.config.worker or f"{os.uname().nodename}-{os.getpid()}-{nonce()[:8]}"

    def use(self, config: ReliableConfig) -> None:
        self.config = config

    @property
    def heartbeat_s(self) -> float | None:
        return seconds("timeout", self.config.timeout)
