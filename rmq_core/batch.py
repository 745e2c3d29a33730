"""`Batch`: the messages that a claim returned, under one lease, and how they are settled.

Law: settling a single message takes effect at once. The end of the work, good or bad, settles the others. A settlement
that comes too late changes nothing in the queue and raises LeaseLost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from rmq_core.envelope.codec import Message, MessageRef, P, arrow_columns
from rmq_core.errors import ConfigurationError, InvalidPayload, LeaseLost
from rmq_core.messages import Isolation, Lease
from rmq_core.reports import Outcome, SettleReport
from rmq_core.twin import Awaited, Blocking, Twin, awaited

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_core.envelope.arrow import JsonTables
    from rmq_core.envelope.typed import Typed
    from rmq_core.protocol import AsyncWorkQueue, WorkQueue

Q = TypeVar("Q", bound="WorkQueue | AsyncWorkQueue")
Some: TypeAlias = Sequence[Message | MessageRef]
GONE = {Outcome.LOST, Outcome.MISSING}


class BatchBase(Generic[Q]):
    """What a blocking and an asyncio batch have in common: all but the iteration."""

    __slots__ = ("_lease", "acked", "dead", "failed", "queue", "released")

    def __init__(self, queue: Q, lease: Lease | None) -> None:
        self.queue, self._lease = queue, lease
        self.acked = self.failed = self.dead = self.released = 0

    def __len__(self) -> int:
        return 0 if self._lease is None else self._lease.count

    @property
    def lease(self) -> Lease:
        """The lease. Raises ConfigurationError for an empty batch, which has none."""
        if self._lease is None:
            raise ConfigurationError(
                f"nothing of {self.queue.name!r} was claimed; check `if batch:` before its lease or its messages"
            )
        return self._lease

    @property
    def isolation(self) -> Isolation | None:
        """Why the claim returned fewer messages than requested, if they had failed together before; else None."""
        return None if self._lease is None else self._lease.isolation

    def check(self) -> None:
        """Raise LeaseLost if the lease is known to be lost; call it before a step that cannot be undone."""
        if self._lease is not None:
            self._lease.check()

    @property
    def _codec(self) -> Typed[Any] | None:
        """The codec with which the payloads are read; None for the codec json."""
        return None if self._lease is None else self._lease.state.codec

    @property
    def _open(self) -> bool:
        """Whether unsettled messages are left."""
        return self._lease is not None and not self._lease.state.settled

    def _must_ack(self) -> bool:
        """Return whether the end of successful work has to ack the lease.

        Raises LeaseLost if the work could know that the lease is lost: it may have left messages undone, which an ack
        would lose, even if Redis would accept it. Otherwise the token decides, however long ago the last heartbeat was.
        """
        if (left := self._open) and self.lease.state.lost:
            raise LeaseLost(self.lease.id, "it could not be extended in time, so the end of the block did not ack it")
        return left

    def _in_time(self, report: SettleReport, messages: Some) -> None:
        """Raise LeaseLost if one of these messages was not this holder's any more. Without any, `report` is of all."""
        if messages and not GONE.isdisjoint(report.outcomes):
            raise LeaseLost(self.lease.id)

    def _split(self, messages: Sequence[Message], schema: pa.Schema) -> JsonTables:
        arrow = arrow_columns()
        tables: JsonTables = arrow.split_json(arrow.table_of([arrow.messages_of(messages, self.queue.name)]), schema)
        return tables

    # Each count changes after its settlement: `self.acked += await ...` would lose what other tasks count meanwhile.

    def _count_acked(self, report: SettleReport, messages: Some = ()) -> None:
        self._in_time(report, messages)
        self.acked += report.settled

    def _count_failed(self, report: SettleReport, messages: Some = ()) -> None:
        self._in_time(report, messages)
        self.failed += report.settled
        self.dead += report.dead

    def _count_released(self, report: SettleReport, messages: Some = ()) -> None:
        self._in_time(report, messages)
        self.released += report.settled

    @Twin
    async def ack(self, *messages: Message | MessageRef) -> None:
        """Ack these messages; the others stay unsettled. Raises LeaseLost."""
        if messages:
            self._count_acked(await awaited(self.queue.ack(self.lease, messages)), messages)

    @Twin
    async def nack(
        self, *messages: Message | MessageRef, reason: str | None = None, delay: timedelta | float | None = None
    ) -> None:
        """Nack these messages: each returns after `delay` or becomes a dead letter. Raises LeaseLost.

        delay: seconds or timedelta; None for the queue's backoff.
        """
        if messages:
            report = await awaited(self.queue.nack(self.lease, messages, reason=reason, delay=delay))
            self._count_failed(report, messages)

    @Twin
    async def release(self, *messages: Message | MessageRef) -> None:
        """Release these messages, which were not attempted; no delivery is counted. Raises LeaseLost."""
        if messages:
            self._count_released(await awaited(self.queue.release(self.lease, messages)), messages)

    @Twin
    async def fits(self, message: Message[Any]) -> bool:
        """Return whether the codec of the queue reads the payload; else make it a dead letter. Raises LeaseLost."""
        try:
            message.payload  # noqa: B018  reading it is the check
        except InvalidPayload as error:
            tools: Any = self.queue._tools  # type: ignore[union-attr]  # noqa: SLF001  `tools_of` is in a layer above
            self._count_failed(
                await awaited(tools.reject(self.lease, [message], reason=f"InvalidPayload: {error.why}")), [message]
            )
            return False
        return True

    @Twin
    async def finish(self) -> None:
        """Ack the unsettled messages after the work succeeded. Raises LeaseLost."""
        if self._must_ack():
            self._count_acked(await awaited(self.queue.ack(self.lease)))

    @Twin
    async def keep(self, seconds: float | None) -> bool:
        """Extend the lease for a retry after a failure. Return False if no message was left. Raises LeaseLost.

        seconds: from now on; None for the queue's usual lease.
        """
        if left := self._open:
            await awaited(self.queue.extend(self.lease, seconds))
        return left

    @Twin
    async def give_up(self, reason: str, *, delay: timedelta | float | None = None) -> bool:
        """Nack the unsettled messages after a failure. Return False if no message was left. Raises LeaseLost.

        delay: as that of `nack`.
        """
        if left := self._open:
            self._count_failed(await awaited(self.queue.nack(self.lease, reason=reason, delay=delay)))
        return left

    @Twin
    async def give_back(self) -> bool:
        """Release the unsettled messages if no failure is to blame. Return False if none was left. Raises LeaseLost."""
        if left := self._open:
            self._count_released(await awaited(self.queue.release(self.lease)))
        return left


class Batch(BatchBase["WorkQueue"], Blocking, Generic[P]):
    """Messages under one lease, in order. Without work it is empty, and false, and has no lease.

    `queue.process()` yields one, and settles at its end the messages that the block left unsettled. Who settles a
    claimed lease without a block can make one: `Batch(queue, lease)`, which sends no heartbeats, and call one of
    `finish`, `keep`, `give_up` and `give_back` at the end.

    queue: the queue of the messages. acked, failed, dead, released: counts of messages so far; `failed` includes those
    that became dead letters.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Message[P]]:
        """Iterate over the messages that are not settled yet; a large batch is read in slices. Raises LeaseLost.

        Where the queue has a codec, a message whose payload it refuses becomes a dead letter, and is left out.
        """
        if self._lease is None:
            return iter(())
        found: Iterator[Any] = self.queue.messages(self._lease)
        return filter(self.fits, found) if self._codec else found

    def any_fits(self) -> bool:
        """Return whether there is work: with a codec, whether it reads the payload of a message. Raises LeaseLost."""
        return any(True for _ in self) if self._codec else bool(self)

    @property
    def payloads(self) -> list[P]:
        """The payloads of the messages that are not settled yet. Raises LeaseLost."""
        return [message.payload for message in self]

    def to_arrow(self, schema: pa.Schema) -> JsonTables:
        """Return `good`, the unsettled messages whose payload is JSON of this schema, and `corrupt`, the others.

        Both are tables with the columns of `LeasedQueue.read_arrow`; `good` has a struct `value`, `corrupt` a `reason`.
        A field that is missing is null, unless the schema says that it is not nullable: then the payload is corrupt. A
        field that is not declared is left out. `pyarrow.json` decides what fits a type. Raises LeaseLost, and
        ConfigurationError for a schema that it cannot read, or without the extra `arrow`.
        """
        return self._split(list(self), schema)


class AsyncBatch(BatchBase["AsyncWorkQueue"], Awaited, Generic[P]):
    """The asyncio version of Batch: `async for`, `await batch.ack(message)`, `await batch.payloads`."""

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[Message[P]]:
        """As Batch.__iter__."""
        if self._lease is None:
            return _nothing()
        found: AsyncIterator[Any] = self.queue.messages(self._lease)
        return self._fitting(found) if self._codec else found

    async def _fitting(self, found: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        async for message in found:
            if await self.fits(message):
                yield message

    async def any_fits(self) -> bool:
        """As Batch.any_fits."""
        if not self._codec:
            return bool(self)
        async with aclosing(self._fitting(self.queue.messages(self.lease))) as fitting:
            return await anext(fitting, None) is not None

    @property
    async def payloads(self) -> list[P]:
        """As Batch.payloads."""
        return [message.payload async for message in self]

    async def to_arrow(self, schema: pa.Schema) -> JsonTables:
        """As Batch.to_arrow."""
        return self._split([message async for message in self], schema)


async def _nothing() -> AsyncIterator[Any]:
    none: tuple[Any, ...] = ()
    for message in none:
        yield message
