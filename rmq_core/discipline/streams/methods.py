"""The operations that StreamQueue and AsyncStreamQueue share: native ones and those of a WorkQueue."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.streams.config import CAPABILITIES, QueueConfig
from rmq_core.discipline.streams.engine import StreamEngine, engine_of
from rmq_core.discipline.streams.operations import (
    claiming,
    inspecting,
    moving,
    native,
    publishing,
    settling,
)
from rmq_core.events import OnEvent
from rmq_core.queue.base import Method, Part, QueueBase, QueuePart


class StreamTools(QueuePart[StreamEngine]):
    """What exports call."""

    export_page = Method(moving.export_page)
    stored_states = moving.STATES


class StreamMethods(QueueBase[StreamEngine]):
    """The methods of StreamQueue and AsyncStreamQueue."""

    discipline = "streams"
    capabilities = CAPABILITIES
    _tools = Part(StreamTools)
    _extend_all = staticmethod(claiming.extend_all)
    _leave = staticmethod(settling.give_back_unanswered)

    def __init__(
        self, redis: Any, name: str | QueueConfig, config: QueueConfig | None = None, *, on_event: OnEvent | None = None
    ) -> None:
        super().__init__(redis, engine_of(name, config, on_event))
        self.config = self._engine.config

    enqueue = Method(native.enqueue, once=True)
    read = Method(native.read, once=True)
    claim_stale = Method(native.claim_stale, once=True)
    backlog_stats = Method(native.backlog_stats, once=True)

    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    claim = Method(claiming.claim)
    extend = Method(claiming.extend)
    nack = Method(settling.nack)
    release = Method(settling.release)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    trim = Method(inspecting.trim)
