"""Renews the lease of a message while its handler runs.

Each message has a thread or task of its own: a gateway that blocks does not keep other leases from being renewed, and
the task has the context variables of its handler. The first failed renewal ends the heartbeat.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial

from rmq_core.events import EventOutcome
from rmq_core.interrupt_handler import EventDrivenInterruptHandler
from rmq_core.redis_message_queue.config import EventOperation
from rmq_core.redis_message_queue.state import QueueState, warn
from rmq_core.redis_message_queue.stored import Received


class Heartbeats:
    """The renewals of one lease, until one of them fails or the event `over` is set.

    settling: the message is being settled, and its lease still renewed, because the gateway may be slow. Nothing is
    reported then: a renewal that fails may have found the lease settled.
    """

    settling = False

    def __init__(self, body: QueueState, received: Received, interval: float) -> None:
        self.interval, self.over = interval, threading.Event()
        self._body, self._received = body, received
        self._renew = partial(
            body.ask, "renew_message_lease", bool, body.key.processing, received.stored, received.token,
            is_interrupted=EventDrivenInterruptHandler(self.over),
        )  # fmt: skip

    @property
    def stop_s(self) -> float:
        """For how many seconds the caller that ends the heartbeat waits for a renewal in progress."""
        return max(2 * self.interval, 0.1)

    async def run(self, pause: Callable[[], Awaitable[bool]]) -> None:
        """Renew after each `pause` until that returns True or a renewal fails."""
        while not await pause():
            renewed, failure = False, None
            try:
                renewed = await self._renew()
            except Exception as error:  # reported below; the lease then expires
                failure = error
            if self.over.is_set() or (self.settling and not renewed):
                return
            if not renewed:
                await self._failed(failure)
                return
            if not self.settling:
                await self._body.emit(EventOperation.LEASE_RENEW, of=self._received)

    async def _failed(self, error: Exception | None) -> None:
        operation, on_failure = EventOperation.LEASE_RENEW_FAILED, self._body.heartbeat.on_failure
        if error is None:
            await self._body.emit(operation, EventOutcome.SKIPPED, of=self._received)
        else:
            text = "a lease could not be renewed; its message will be delivered again"
            await self._body.complain(text, operation, error=error, of=self._received)
        if on_failure is not None and not self.settling and not self.over.is_set():
            await self._body.call_back("on_heartbeat_failure", operation, on_failure)

    async def late(self) -> None:
        """Report a renewal in progress that did not end in time."""
        text = "the heartbeat did not stop in time; it may renew its lease once more"
        await self._body.complain(text, EventOperation.HEARTBEAT_STOP_TIMEOUT, of=self._received)


def _heartbeats_of(body: QueueState, received: Received) -> Heartbeats | None:
    if body.heartbeat.interval is None:
        return None
    if received.token is not None:
        return Heartbeats(body, received, float(body.heartbeat.interval))
    if not body.warned:
        body.warned = True
        warn("the gateway returned no lease token, so the heartbeat cannot run; return ClaimedMessage")
    return None


class LeaseHeartbeat:
    """The heartbeat of a message, if one is configured, until `stop`, which follows the settlement.

    It starts before the handler does. If it cannot start, the message is left to the next claim and the error
    propagates.
    """

    def __init__(self, body: QueueState, received: Received) -> None:
        try:
            self._heartbeats = _heartbeats_of(body, received)
            if self._heartbeats is not None:
                self._start(self._heartbeats)
        except BaseException:
            body.keep(received.stored)
            raise

    def _start(self, heartbeats: Heartbeats) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Report nothing from now on, because the message is being settled; renew until that is done."""
        if self._heartbeats is not None:
            self._heartbeats.settling = True

    def end(self) -> None:
        """Stop renewing."""
        if self._heartbeats is not None:
            self._heartbeats.over.set()
