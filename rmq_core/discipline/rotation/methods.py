"""The operations of a rotation queue, shared by RotationQueue and AsyncRotationQueue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

from rmq_core.discipline.rotation.config import CAPABILITIES, DISCIPLINE, RotationConfig
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.keys import RotationKeys
from rmq_core.discipline.rotation.operations import inspecting, moving, popping, pushing, settling
from rmq_core.messages import Lease
from rmq_core.protocol import lacking
from rmq_core.queue.base import Method, Part, QueueBase, QueuePart


class RotationTools(QueuePart[RotationEngine]):
    """What exports call."""

    export_page = Method(moving.export_page)
    stored_states = moving.STATES


class RotationMethods(QueueBase[RotationEngine]):
    """The methods of RotationQueue and AsyncRotationQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    _tools = Part(RotationTools)

    def __init__(self, redis: Any, name: str, config: RotationConfig | None = None) -> None:
        self.config = config or RotationConfig()
        super().__init__(redis, RotationEngine(RotationKeys(name), self.config))

    push = Method(pushing.push)
    safe_pop = Method(popping.safe_pop)
    mark_done = Method(settling.mark_done)
    publish = Method(pushing.publish)
    publish_many = Method(pushing.publish_many)
    claim = Method(popping.claim)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)

    def hold(
        self, lease: Lease, by: timedelta | float | None = None, on_lost: Callable[[Lease], object] | None = None
    ) -> NoReturn:
        """Raise Unsupported: the stamp of a popped id cannot be extended."""
        del lease, by, on_lost
        raise lacking(DISCIPLINE, "extend", "heartbeats")
