"""Telling `on_event`, whatever it makes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from rmq_core.events import EventOperation, EventOutcome, QueueEvent
from rmq_core.message_queue import checks
from rmq_core.message_queue.channels import Channel
from rmq_core.message_queue.notices import warn
from rmq_core.message_queue.steps import Step, Steps
from rmq_core.message_queue.stored import Delivery

_log = logging.getLogger("rmq")


class Silence:
    """Tells nothing, because nobody listens."""

    def tell(self, *_: object, **__: object) -> Iterable[Step]:
        return ()

    def noted(self) -> Iterable[Step]:
        return ()


class Teller(NamedTuple):
    """Makes the events of a queue; `channel` is what the built-in gateway has to tell besides."""

    queue: str
    on_event: Callable[[QueueEvent], Any]
    channel: Channel | None

    def tell(
        self,
        operation: EventOperation,
        outcome: EventOutcome = EventOutcome.SUCCESS,
        *,
        error: BaseException | None = None,
        began: float | None = None,
        of: Delivery | None = None,
        destination_queue: str | None = None,
    ) -> Steps[None]:
        """Tell `on_event`, whatever it makes of it."""
        about: dict[str, Any] = {}
        if of is not None:
            about = {"message_id": of.id, "claim_id": of.claim_id, "lease_token_hash": of.token_hash}
            about |= {"delivery_count": of.deliveries}
        yield from self._emit(
            QueueEvent(
                self.queue, operation, outcome, error=error, destination_queue=destination_queue,
                exception_type=None if error is None else type(error).__name__,
                duration_ms=None if began is None else (perf_counter() - began) * 1000, **about,
            )
        )  # fmt: skip

    def noted(self) -> Steps[None]:
        """Tell what happened inside the gateway."""
        if self.channel is not None:
            for event in self.channel.told():
                yield from self._emit(replace(event, queue=self.queue))

    def _emit(self, event: QueueEvent) -> Steps[None]:
        try:
            checks.plain("on_event", (yield partial(self.on_event, event)))
        except Exception as error:  # noqa: BLE001  the callback's error is not the queue's
            _log.exception("on_event raised at %s of queue %r", event.operation, event.queue)
            warn(f"on_event raised {type(error).__name__}")
