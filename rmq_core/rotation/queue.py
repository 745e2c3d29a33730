"""`RotationQueue`, its list of operations, and its `admin`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

from rmq_core.admin.verbs import Admin
from rmq_core.kernel.base import Method, Part, QueueBase, QueuePart, W
from rmq_core.messages import Lease
from rmq_core.protocol import lacking
from rmq_core.queue import Facade
from rmq_core.rotation import claiming, inspecting, publishing, settling
from rmq_core.rotation.state import CAPABILITIES, DISCIPLINE, RotationConfig, RotationEngine, RotationKeys
from rmq_core.twin import Blocking


class RotationTools(QueuePart[RotationEngine, Any]):
    """What exports call."""

    export_page = Method(inspecting.export_page)
    stored_states = inspecting.STATES


class RotationMethods(QueueBase[RotationEngine]):
    """The methods of RotationQueue and AsyncRotationQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    _tools = Part(RotationTools)

    def __init__(self, redis: Any, name: str, config: RotationConfig | None = None) -> None:
        self.config = config or RotationConfig()
        super().__init__(redis, RotationEngine(RotationKeys(name), self.config))

    push = Method(publishing.push)
    safe_pop = Method(claiming.safe_pop)
    mark_done = Method(settling.mark_done)
    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    claim = Method(claiming.claim)
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


class RotationAdmin(Admin[RotationEngine, W]):
    """What operators do with a RotationQueue: `queue.admin`."""

    peek = Method(inspecting.peek)
    purge = Method(inspecting.purge)


class RotationQueue(RotationMethods, Facade[RotationEngine, Any]):
    """A queue of ids in one list: a popped id stays in the list with a time stamp until it is marked as done.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. Threads may
    share the queue.
    """

    admin = Part(RotationAdmin[Blocking])
