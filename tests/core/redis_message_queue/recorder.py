"""Record the events of a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmq_core.events import QueueEvent
from tests.core.redis_message_queue.worlds import World


class Recorder:
    """Stores every event; `steps` returns them as `operation/outcome`. `also` runs while the event is emitted."""

    def __init__(self, world: World, also: Callable[[QueueEvent], Any] = lambda _: None) -> None:
        self.events: list[QueueEvent] = []
        self._also = also
        self.callback = world.callback(self._hear)

    def _hear(self, event: QueueEvent) -> None:
        self.events.append(event)
        self._also(event)

    @property
    def steps(self) -> list[str]:
        return [f"{event.operation}/{event.outcome}" for event in self.events]

    def only(self, operation: str) -> QueueEvent:
        """Return the only event of this operation."""
        (event,) = [event for event in self.events if event.operation == operation]
        return event
