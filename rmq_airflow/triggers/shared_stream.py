"""The bridge: each message becomes an asset event, and is acked when Airflow has stored that event.

It needs Airflow 3.3. Law: this is the exception to two rules. It claims in the triggerer, and payloads enter the
metadata database; use the doorbell trigger to avoid both. A stored event is not a run: Airflow merges events, so that
a run may get several, and some may wait for the next run. A message whose event was not stored is redelivered, so the
same event may come twice.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from airflow.observability.stats import Stats
from airflow.providers.common.compat.sdk import AirflowException, AirflowOptionalProviderFeatureException
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.utils.log.logging_mixin import LoggingMixin

try:
    from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer, reject_shared_stream_event
except ImportError as error:
    raise AirflowOptionalProviderFeatureException(
        "the bridge needs the shared streams of Airflow 3.3; use RedisQueueDoorbellTrigger"
    ) from error

from rmq_airflow.batch import check_queue
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.waiting import RECONNECT_S, QueueTrigger, wait_for_ever
from rmq_core import Lease, MalformedMessage, Message, QueueUnavailable, RedisMessageQueueError
from rmq_core.asyncio import LeasedQueue
from rmq_core.messages import plain_fields

LEASE_S = 60.0
OUTSTANDING = 100
"""How many messages may be claimed while their events are not stored in the metadata database yet."""
CLOSING_S = 0.3
OWNER = "airflow:triggerer"


class RedisQueueSharedStreamTrigger(QueueTrigger, BaseEventTrigger):
    """
    Turn each message of a queue into an event of the watched asset; assets that watch the same queue share one reader.

    Every event contains ``{"queue", "message_id", "payload", "headers"}`` and the other plain fields of the message,
    such as ``deliveries``. A payload of bytes is in ``payload_base64`` instead of ``payload``. The headers contain the
    publisher's trace context.

    :param redis_queue: the queue to read
    :param max_payload_bytes: a message with a larger payload becomes a dead letter
    :param redis_queue_conn_id: connection of type ``redis_queue``
    """

    def __init__(
        self,
        redis_queue: str,
        max_payload_bytes: int = 16_384,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not typed
        check_queue(redis_queue, None)
        self.redis_queue = redis_queue
        self.max_payload_bytes = max_payload_bytes
        self.redis_queue_conn_id = redis_queue_conn_id

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Raise AirflowException: without the acknowledgement of the shared stream, messages would be lost."""
        raise AirflowException("use RedisQueueSharedStreamTrigger in an AssetWatcher; a sensor must not hold messages")

    def shared_stream_key(self) -> Hashable:
        """Return the key; triggers with the same key share one reader, and all must store an event before its ack."""
        return ("rmq", self.redis_queue_conn_id, self.redis_queue)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Return the reader; it opens no connection yet."""
        return Reader(kwargs["redis_queue"], kwargs.get("redis_queue_conn_id", RedisQueueHook.default_conn_name))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Read]) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each message that is small enough; reject the others."""
        async for read in shared_stream:
            if read.payload_bytes > self.max_payload_bytes:
                reject_shared_stream_event()
            else:
                yield TriggerEvent(read.event)


class Read(NamedTuple):
    """A message as an event, the same for all triggers that watch the queue."""

    event: dict[str, Any]
    payload_bytes: int

    @classmethod
    def of(cls, queue: str, message: Message) -> Read:
        """Return the event of a message. Raises MalformedMessage for a payload that cannot be decoded."""
        payload, fields = message.payload, plain_fields(message)
        shown = (
            {"payload_base64": base64.b64encode(payload).decode()}
            if isinstance(payload, bytes)
            else {"payload": payload}
        )
        about = {"queue": queue, "message_id": fields.pop("id"), **shown, "headers": dict(message.headers)}
        return cls({**about, **fields}, len(message.raw))


@dataclass(frozen=True, eq=False, slots=True)
class InFlight:
    """A message whose event is not stored yet: its lease, and the heartbeats that extend it."""

    lease: Lease
    heartbeats: AsyncExitStack


class Reader(SharedStreamProducer, LoggingMixin):
    """Claim messages one by one, extend their leases, and settle each message when its events are stored."""

    def __init__(self, redis_queue: str, redis_queue_conn_id: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # not typed either
        self._name, self._conn_id = redis_queue, redis_queue_conn_id
        self._free = asyncio.Semaphore(OUTSTANDING)
        self._held: dict[str, InFlight] = {}
        self._queue: LeasedQueue | None = None
        self._strict: LeasedQueue | None = None

    async def open_stream(self) -> AsyncIterator[tuple[Read, InFlight]]:
        """Yield each message as an event, with the handle that `advance` gets back."""
        while True:
            await wait_for_ever(self._conn_id, self._name, self.log)
            while held := await self._claim():
                read = await self._read(held)
                if read is not None:
                    yield read, held

    def get_advance_lane(self, broker_payload: InFlight) -> Hashable:
        """Return a separate lane for each message, because the order of acks does not matter."""
        return broker_payload.lease.id

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Ack stored messages, make rejected ones dead letters, nack failed ones, and release the rest."""
        for payload, outcome in batch:
            if outcome.rejected:
                await self._settle(payload, "refuse")
            elif outcome.is_clean:
                await self._settle(payload, "ack")
            else:
                await self._settle(payload, "nack" if outcome.failed else "release")

    async def aclose(self) -> None:
        """Release held messages, but only for a short time; the rest is redelivered when the leases expire."""
        closing = asyncio.ensure_future(self._close())
        await asyncio.wait({closing}, timeout=CLOSING_S)

    async def _open(self) -> LeasedQueue:
        if self._queue is None:
            hook = RedisQueueHook(self._conn_id)
            _, config = await hook.async_location()
            patient = replace(config, lease=LEASE_S)
            self._queue = await hook.async_queue(self._name, patient)
            self._strict = LeasedQueue(self._queue.client, self._name, replace(patient, max_deliveries=1))
        return self._queue

    async def _claim(self) -> InFlight | None:
        await self._free.acquire()
        lease = None
        try:
            queue = await self._open()
            lease = await queue.claim(owner=OWNER)
        except QueueUnavailable as error:
            self.log.warning("Reading %s continues when Redis is back: %s", self._name, error)
            await asyncio.sleep(random.uniform(*RECONNECT_S))
        finally:
            if lease is None:
                self._free.release()
        if lease is None:
            return None
        held = self._held[lease.id] = InFlight(lease, AsyncExitStack())
        await held.heartbeats.enter_async_context(queue.hold(lease))
        return held

    async def _read(self, held: InFlight) -> Read | None:
        try:
            return Read.of(self._name, held.lease.messages[0])
        except MalformedMessage:
            await self._settle(held, "refuse")
            return None

    async def _settle(self, held: InFlight, verb: str) -> None:
        if self._held.pop(held.lease.id, None) is None or self._queue is None or self._strict is None:
            return
        try:
            if verb == "refuse":
                await self._strict.nack(held.lease, reason="refused by the bridge to asset events")
            else:
                await getattr(self._queue, verb)(held.lease)
        except RedisMessageQueueError as error:
            # Raising it would end all watchers of the queue. The message is redelivered when its lease expires.
            self.log.warning("The message of lease %s will be delivered again: %s", held.lease.id, error)
        else:
            Stats.incr("rmq.bridge.settled", tags={"queue": self._name, "verb": verb})
        finally:
            await held.heartbeats.aclose()
            self._free.release()

    async def _close(self) -> None:
        for held in list(self._held.values()):
            await self._settle(held, "release")
        for queue in (self._strict, self._queue):
            if queue is not None:
                await queue.close()
