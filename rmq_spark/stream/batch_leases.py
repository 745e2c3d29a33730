"""The leases of one stream, at most one for each batch: claimed in order, extended, and acked when Spark is done.

Batch n of a stream is the lease `<consumer>/<stream>/<n>`. A stream belongs to one checkpoint: a new checkpoint starts
a new stream, and restarts of a query continue the same one. An offset names its queue and consumer, so that a
checkpoint cannot be used for others: `{"v":1,"queue":…,"consumer":…,"stream":"<uuid>","seq":n}`.

The number of a finished batch is stored before its ack, so that a run that finds a lease missing can tell whether it
was acked or lost. This module does not depend on Spark.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from rmq_core import ConfigurationError, Lease, LeaseAlreadySettled, LeasedQueue, LeaseLost, RedisMessageQueueError
from rmq_core.errors import ConsumerTaken
from rmq_core.orchestrate import tools_of
from rmq_core.reports import ConsumerRegistration
from rmq_spark.place.options import ASYNC
from rmq_spark.place.source import Source, SourceQueue, owner_of

VERSION = 1


@dataclass(frozen=True, slots=True)
class Offset:
    """All batches of a stream up to number `seq`; 0 is before the first. By default, `stream` is a new stream's id."""

    queue: str
    consumer: str
    stream: str = field(default_factory=lambda: uuid.uuid4().hex)
    seq: int = 0

    @classmethod
    def read(cls, plain: Mapping[str, Any], queue: str, consumer: str) -> Offset:
        """Parse the result of `plain`. Raises ConfigurationError for the offset of another queue or consumer."""
        if plain.get("v") != VERSION:
            raise ConfigurationError(f"the checkpoint holds {dict(plain)!r}, which this version cannot read")
        offset = cls(plain["queue"], plain["consumer"], plain["stream"], plain["seq"])
        if (offset.queue, offset.consumer) != (queue, consumer):
            raise ConfigurationError(
                f"this checkpoint belongs to queue {offset.queue!r} and consumer {offset.consumer!r}, not to {queue!r}"
                f" and {consumer!r}: give this query a checkpointLocation of its own"
            )
        return offset

    @property
    def plain(self) -> dict[str, Any]:
        """Return the JSON object that Spark writes into its log."""
        return {"v": VERSION, **asdict(self)}

    @property
    def lease_id(self) -> str:
        """Return the id of the lease that holds batch `seq`."""
        return f"{self.consumer}/{self.stream}/{self.seq}"

    def at(self, seq: int) -> Offset:
        """Return the offset of batch `seq` in the same stream."""
        return replace(self, seq=seq)


log = logging.getLogger(__name__)

CLOSING_S = 5.0
MARGIN_S = 0.05  # so that the registration has expired by the server's clock too
GONE = "batch %r is committed, but its lease is gone: its unsettled messages are delivered again"


class ReplayedBatch(RedisMessageQueueError):
    """Spark requests a batch that was committed and acked: its messages are gone."""

    @classmethod
    def of(cls, name: str) -> ReplayedBatch:
        """Return the error for the batch whose lease has this name."""
        return cls(
            f"batch {name!r} was finished and acked, but the checkpoint is older: its messages cannot be read"
            " again. Restore the checkpoint, or set failOnDataLoss to false to continue with the next messages. Leave"
            f" out Spark's option {ASYNC}, which makes checkpoints late"
        )


class Membership:
    """The registration of a consumer's name for this run. `run` is the owner of its leases.

    The name is registered before the first claim, renewed by a thread, and expires after the process ends. A restart of
    the same stream takes the name at once and fences off the previous run. A run of another stream has to wait until
    the registration of the previous run expires; while that run is alive, registration fails.
    """

    def __init__(self, queue: LeasedQueue, consumer: str, stream: str, alive_s: float, application: str = "") -> None:
        number = uuid.uuid4().hex
        self.run = owner_of(application, number) or f"spark-{number}"
        tools = tools_of(queue)
        self._register: Callable[[], ConsumerRegistration] = partial(
            tools.register_consumer, consumer, run=self.run, stream=stream, alive=alive_s
        )
        self._renewal = partial(tools.renew_consumer, consumer, run=self.run, stream=stream, alive=alive_s)
        self._consumer = consumer
        self._alive_s = alive_s
        self._finished = 0
        self._taken: ConsumerTaken | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"rmq-consumer-{consumer}", daemon=True)

    def enter(self) -> ConsumerRegistration:
        """Register the name and keep renewing it. Raises ConsumerTaken when a run of another stream is alive."""
        try:
            entered = self._register()
        except ConsumerTaken as taken:
            time.sleep(taken.left + MARGIN_S)
            entered = self._register()  # a run that is alive has renewed the name by now
        self._finished = entered.finished
        self._thread.start()
        return entered

    def finish(self, seq: int) -> None:
        """Record that all batches up to `seq` are finished. Raises ConsumerTaken when another run has the name."""
        self.check()
        self._finished = max(self._finished, seq)
        self._stay()

    def check(self) -> None:
        """Raise ConsumerTaken when another run is known to have the name."""
        if self._taken is not None:
            raise self._taken

    def close(self) -> None:
        """Stop renewing the name, so that its registration expires.

        Wait for a renewal in progress, because it still extends the registration.
        """
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSING_S)

    def _renew(self) -> None:
        while not self._closed.wait(self._alive_s / 3):
            try:
                self._stay()
            except ConsumerTaken as taken:
                self._taken = taken
                log.error("%s", taken)  # its traceback adds nothing
                return
            except RedisMessageQueueError as error:  # the next renewal, or the next batch, reports it
                log.warning("consumer %r could not be renewed: %s", self._consumer, error)

    def _stay(self) -> None:
        self._renewal(finished=self._finished)


class BatchLeases:
    """The leases that a consumer holds of one stream. Raises ConsumerTaken when its name is in use, or is taken later.

    offset: any offset of that stream. application: the id of the Spark application, for the owner of the leases.
    chosen: the argument `groups` of claims, if the stream reads some groups only.
    """

    def __init__(
        self,
        source: Source,
        queue: SourceQueue,
        offset: Offset,
        alive_s: float,
        application: str = "",
        chosen: Mapping[str, Any] | None = None,
    ) -> None:
        self._offset = offset
        self._queue = queue
        self._held: dict[int, tuple[Lease, ExitStack]] = {}
        self._records = LeasedQueue(source.settings, source.queue)  # consumer records, for queues of any discipline
        self._member = Membership(self._records, offset.consumer, offset.stream, alive_s, application)
        self._acked = 0
        self._chosen = chosen or {}
        try:
            entered = self._member.enter()
            self.finished = entered.finished  # the batch up to which the stream is finished
            if entered.before is not None:
                self._inherit(replace(offset, stream=entered.before, seq=entered.before_finished))
        except BaseException:
            self.close()
            raise

    def claim(self, seq: int, limit: int, wait_s: float) -> Lease | None:
        """Return the lease of a batch, or claim one of at most `limit` messages; None when no message is ready.

        Raises ReplayedBatch when the batch was finished before.
        """
        self._member.check()
        if seq in self._held:
            return self._held[seq][0]
        name = self._name(seq)
        if seq <= self.finished:
            raise ReplayedBatch.of(name)
        try:
            lease = self._queue.claim(
                lease_id=name, max_messages=limit, wait=wait_s, owner=self._member.run, **self._chosen
            )
        except LeaseAlreadySettled:
            raise ReplayedBatch.of(name) from None
        if lease and lease.isolation:
            log.warning("batch %r got %d of %d messages: %s", name, lease.count, limit, lease.isolation)
        return lease and self._keep(seq, lease)

    def exists(self, seq: int) -> bool:
        """Return whether this run, or an earlier one, has claimed the batch."""
        return seq in self._held or self._queue.lease_info(self._name(seq)) is not None

    def lease(self, seq: int) -> Lease:
        """Return the lease of a claimed batch. If it is gone, raises ReplayedBatch when finished, else LeaseLost."""
        self._member.check()
        if seq in self._held:
            return self._held[seq][0]
        try:
            return self._keep(seq, self._queue.adopt(self._name(seq), owner=self._member.run))
        except LeaseAlreadySettled:
            raise ReplayedBatch.of(self._name(seq)) from None
        except LeaseLost:
            if seq <= self.finished:
                raise ReplayedBatch.of(self._name(seq)) from None
            raise

    def finish(self, seq: int) -> None:
        """Ack all batches up to `seq`, which Spark has committed. Repeated calls are harmless."""
        if seq <= self._acked:
            return
        before, self.finished = self.finished, max(self.finished, seq)
        self._member.finish(seq)
        held = sorted(number for number in self._held if number <= seq)
        for number in held:
            self._ack(*self._held.pop(number))
        if seq not in held:  # claimed by a run before this one
            self._ack_left(self._name(seq), known=seq <= before)
        self._acked = seq

    def close(self) -> None:
        """Stop the heartbeats; leases stay until they expire, or until a restarted query adopts them."""
        self._member.close()
        for _, heartbeats in self._held.values():
            heartbeats.close()
        self._records.close()

    def _name(self, seq: int) -> str:
        return self._offset.at(seq).lease_id

    def _keep(self, seq: int, lease: Lease) -> Lease:
        slim = replace(lease, envelopes=None)  # the executors read what they need
        heartbeats = ExitStack()
        heartbeats.enter_context(self._queue.hold(slim))
        self._held[seq] = slim, heartbeats
        return slim

    def _ack(self, lease: Lease, heartbeats: ExitStack) -> None:
        with heartbeats:
            try:
                self._queue.ack(lease)
            except LeaseLost:
                log.warning(GONE, lease.id)

    def _ack_left(self, name: str, *, known: bool) -> None:
        """Ack a batch that an earlier run left unacked because it ended between Spark's commit and the ack."""
        try:
            self._queue.ack(self._queue.adopt(name))
        except LeaseAlreadySettled:
            pass
        except LeaseLost:
            if not known:
                log.warning(GONE, name)

    def _inherit(self, left: Offset) -> None:
        """Settle the leases of the consumer's previous stream, which has ended together with its checkpoint."""
        self._ack_left(left.lease_id, known=True)
        with suppress(LeaseLost, LeaseAlreadySettled):
            lease = self._queue.adopt(left.at(left.seq + 1).lease_id)
            self._queue.nack(lease, reason=f"the stream {left.stream} of {left.consumer!r} has ended")
