"""`LeasedQueue`: the operations of a leased queue, run by the blocking driver."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.leased.config import CAPABILITIES, DISCIPLINE, LeasedConfig
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations import (
    adopting,
    claiming,
    enrolling,
    inspecting,
    managing,
    publishing,
    settling,
    staging,
)
from rmq_core.events import OnEvent
from rmq_core.queue.keys import LeasedKeys
from rmq_core.queue.sync import Slicing, method


class LeasedQueue(Slicing[LeasedEngine]):
    """A queue whose messages are handed out under leases. Threads may share it; it survives a fork.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. `on_event`
    gets a QueueEvent after each step.
    """

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    _extend_all = staticmethod(settling.extend_all)
    _leave = staticmethod(managing.release_unanswered)

    def __init__(
        self, redis: Any, name: str, config: LeasedConfig | None = None, *, on_event: OnEvent | None = None
    ) -> None:
        self.config = config or LeasedConfig()
        super().__init__(redis, LeasedEngine(LeasedKeys(name), self.config, on_event))

    publish = method(publishing.publish)
    publish_many = method(publishing.publish_many)
    stage = method(staging.stage)
    publish_staged = method(staging.publish_staged)
    drop_staged = method(staging.drop_staged)
    claim = method(claiming.claim)
    claim_next = method(claiming.claim_next)
    adopt = method(adopting.adopt)
    join = method(adopting.join)
    extend = method(settling.extend)
    ack = method(settling.ack)
    nack = method(settling.nack)
    release = method(settling.release)
    release_lease = method(managing.release_lease)
    enroll = method(enrolling.enroll)
    stay = method(enrolling.stay)
    read = method(inspecting.read)
    read_columns = method(inspecting.read_columns)
    backlog = method(inspecting.backlog)
    stats = method(inspecting.stats)
    leases = method(inspecting.leases)
    lease_info = method(inspecting.lease_info)
    server_time = method(inspecting.server_time)
    settled = method(inspecting.settled)
    peek = method(inspecting.peek)
    dead_letters = method(inspecting.dead_letters)
    browse = method(inspecting.browse)
    browse_lease = method(inspecting.browse_lease)
    redrive = method(managing.redrive)
    redrive_some = method(managing.redrive_some)
    purge = method(managing.purge)
    pause = method(managing.pause)
    resume = method(managing.resume)
    cancel = method(managing.cancel)
    forget = method(managing.forget)
    unregister = method(managing.unregister)
