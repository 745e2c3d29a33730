"""The messages that a task claimed: how it claims them, and how they are settled when it fails or is killed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, overload

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.killed import Kill, TaskKilled, why_killed
from rmq_core import (
    Batch,
    ConfigurationError,
    Lease,
    LeaseAlreadySettled,
    LeasedConfig,
    LeasedQueue,
    LeaseLost,
    Message,
    MessageRef,
    RedisMessageQueueError,
    Unsupported,
    WorkQueue,
    discipline_of,
)
from rmq_core.orchestrate import Claimed, OnSettled, Threshold, chosen_groups, claim_as, refuse_foreign
from rmq_core.reports import SettledRecord, SettleReport

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


ALL = 1_000_000  # max_messages of an unbounded claim
MOMENT_S = 0.001  # smallest accepted duration
log = logging.getLogger(__name__)


class FromClaim(TypedDict, total=False):
    """What a sensor adds that hands over to a driver: the fence of its claim."""

    fence: int | None


class HandedOver(FromClaim):
    """A handed-over lease, as in XCom: identifiers only, no token or payload."""

    queue: str
    lease_id: str
    owner: str
    claimed: int


def claim(
    queue: LeasedQueue,
    identity: TaskIdentity,
    *,
    max_messages: int,
    lease: timedelta | float | None = None,
    on_settled: OnSettled = "next",
    named: str | None = None,
    sequential: bool = False,
    groups: Collection[str] | None = None,
) -> Claimed:
    """Claim as `claim_as` does; log an ambiguous earlier settlement, and why isolation reduced the claim."""

    def report_loss(_: LeaseAlreadySettled, record: SettledRecord) -> None:
        if not identity.tells_runs_apart(record.owner):
            log.info("The lease was settled by this run or by a deleted run of the same name.")

    claimed = claim_as(
        identity, queue, max_messages=max_messages, lease=lease, on_settled=on_settled, named=named,
        sequential=sequential, groups=groups, check_settled=report_loss,
    )  # fmt: skip
    taken = claimed.lease
    if taken is not None and taken.isolation is not None:
        log.info("Got %d of %s: %s.", taken.count, "all" if max_messages == ALL else max_messages, taken.isolation)
    return claimed


def adopt(
    queue: LeasedQueue, identity: TaskIdentity, handed: HandedOver, lease: timedelta | float | None = None
) -> Lease:
    """Adopt a lease that another task of the run claimed.

    Raises LeaseLost if it expired, LeaseOwnedByOther if foreign.
    """
    info = queue.lease_info(handed["lease_id"])
    present = None if info is None else info.owner
    if present is not None and present != handed["owner"]:
        refuse_foreign(identity, handed["lease_id"], present)
    return queue.adopt(handed["lease_id"], owner=identity.owner, if_owner=present, lease=lease)


def check_handed(handed: object) -> HandedOver:
    """Raise ConfigurationError unless `handed` is the output of a sensor with `hand_over=True`."""
    if isinstance(handed, dict) and HandedOver.__required_keys__ <= handed.keys():
        return handed  # type: ignore[return-value]  # the keys were checked
    found = "None: was the sensor skipped, or marked success?" if handed is None else type(handed).__name__
    raise ConfigurationError(f"`hand_over` must be the output of a RedisQueueSensor with hand_over=True, not {found}")


def check_bound(name: str, value: object, least: int = 1) -> None:
    """Raise ConfigurationError unless `value` is None or an int of at least `least`."""
    if value is not None and (type(value) is not int or value < least):  # not isinstance: True is an int
        raise ConfigurationError(f"`{name}` must be an integer of at least {least}, not {value!r}")


def check_seconds(name: str, value: timedelta | float | None, least: float = 0) -> float | None:
    """Return `value` in seconds. Raises ConfigurationError if it is less than `least`."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if number is not None and not (type(number) in (int, float) and number >= least):  # `not >=`, so NaN is refused
        raise ConfigurationError(f"`{name}` must be seconds or a timedelta, {least:g} s or more, not {value!r}")
    return number


def threshold_of(min_messages: int, max_age: timedelta | float | None) -> Threshold:
    """Build a Threshold; raise ConfigurationError if it is always or never met."""
    check_bound("min_messages", min_messages)
    return Threshold(min_messages, check_seconds("max_age", max_age, MOMENT_S))


def check_groups(groups: Collection[str] | None) -> list[str] | None:
    """Return the groups as a list; raise ConfigurationError for names that no group has, unless there are templates."""
    if groups is None:
        return None
    if isinstance(groups, str) or not any(is_template(str(name)) for name in groups):
        chosen_groups(groups)
    return list(groups)


def check_queue(redis_queue: object, config: object) -> None:
    """Validate queue arguments before templates are rendered or Redis is called."""
    if not redis_queue:
        raise ConfigurationError("`redis_queue` must name a queue; it is empty")
    if config is not None and not isinstance(config, LeasedConfig):
        raise ConfigurationError(
            f"`queue_config` must be a LeasedConfig, not {type(config).__name__}: only leased queues take one"
        )


def is_template(text: str) -> bool:
    """Return whether the text contains Jinja template markup."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


def check_discipline(queue: WorkQueue) -> None:
    """Raise Unsupported if the queue has another discipline, because it would then always appear empty."""
    client = queue.client  # type: ignore[attr-defined]  # not in the protocol, but every queue has it
    try:
        found = discipline_of(client, queue.name) or queue.discipline
    except RedisMessageQueueError:
        return  # no ACL permission; other server errors surface in the next call
    if found != queue.discipline:
        raise Unsupported(
            queue.discipline,
            f"queue {queue.name!r} on this server: that queue has the discipline {found!r}, which the field "
            "`discipline` of the connection must name",
        )


KILL_BUDGET_S = 2.0  # Airflow sends SIGKILL a few seconds after SIGTERM
KILLED = "this task was killed, and its messages were released or nacked"


class TaskBatch(Batch, Sequence[Message]):
    """A Batch that is a sequence of all its messages, and whose task may be killed.

    It leaves out messages whose payload the codec of the queue refuses: they are dead letters from the beginning, and
    `claimed` counts them. Messages that the function neither acks, nacks nor releases are acked when it returns and
    nacked when it raises.
    """

    queue: LeasedQueue

    def __init__(self, queue: LeasedQueue, lease: Lease | None) -> None:
        super().__init__(queue, lease)
        self.in_hand: Sequence[Message] = ()
        self._judged: set[int] = set()
        self._given_up = self._killed = False
        self._messages = tuple(super().__iter__())
        self.claimed = len(self._messages) + self.failed
        if self.failed:
            log.warning("The codec refuses %d of %d messages: they are dead letters now.", self.failed, self.claimed)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def check(self) -> None:
        """Raise LeaseLost if the lease is known to be lost; call this before a step that cannot be undone."""
        if self._killed:
            raise LeaseLost(self.lease.id, KILLED)
        super().check()

    def holding(self) -> AbstractContextManager[Any]:
        """Send heartbeats that extend the lease while the block runs."""
        return self.queue.hold(self.lease) if self else nullcontext()

    def finish(self) -> None:
        """Ack the unsettled messages after the work succeeded. Raises LeaseLost, also after a kill."""
        if self._killed:
            raise LeaseLost(self.lease.id, KILLED)
        super().finish()

    def give_up(self, reason: str, queue: LeasedQueue | None = None, *, delay: timedelta | float | None = None) -> bool:
        """Nack the messages that the function was working on, release the others; return False if all were settled."""
        queue = queue or self.queue
        if not self._open:
            return False
        left, tried = self._unjudged(self._messages), self._unjudged(self.in_hand)
        self._given_up = True
        if tried:
            part = {"messages": tried} if len(tried) < len(left) else {}
            self._count_failed(queue.nack(self.lease, **part, reason=reason, delay=delay))
        if len(tried) < len(left):
            self._count_released(queue.release(self.lease))
        return True

    def kill(self, kill: Kill, queue: LeasedQueue) -> None:
        """Settle the batch from a signal handler, through `queue`, which has a connection of its own.

        If the kill counts as a failure, do the same as `give_up`; otherwise release all unsettled messages. Any attempt
        of the function to settle a message afterwards raises LeaseLost.
        """
        self._killed = True
        if not kill.is_failure:
            self.in_hand = ()
        self.give_up(f"the task was killed: {kill.why}", queue)

    @property
    def _open(self) -> bool:
        return super()._open and not self._given_up

    def _in_time(self, report: SettleReport, messages: Sequence[Message | MessageRef]) -> None:
        if messages and self._killed:
            raise LeaseLost(self.lease.id)
        super()._in_time(report, messages)
        self._judged |= {message.index for message in messages}

    def _unjudged(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if message.index not in self._judged]


class ReleaseOnKillMixin:
    """Settle the batch that a task holds when the task is marked, cleared or deleted, or its worker shuts down."""

    _reopen: Callable[[], LeasedQueue] | None = None
    _batch: TaskBatch | None = None
    _ti: RuntimeTaskInstanceProtocol | None = None
    _killed = False  # never reset: Airflow makes a copy of the operator for every try

    @contextmanager
    def _holding(
        self, batch: TaskBatch, hook: RedisQueueHook, queue: LeasedQueue, ti: RuntimeTaskInstanceProtocol
    ) -> Iterator[None]:
        """Send heartbeats while the block runs. A kill after the block no longer changes how the batch was settled."""
        # Read the settings here: a signal handler must not call the supervisor, because the interrupted code may
        # hold the lock for it.
        settings, config = hook.settings, replace(queue.config, retry_budget=KILL_BUDGET_S)
        self._batch, self._ti = batch, ti
        self._reopen = lambda: LeasedQueue(settings, queue.name, config)
        try:
            if self._killed:
                self.on_kill()  # the signal came before there was a batch, and Airflow sends it only once
            with batch.holding():
                yield
        finally:
            self._batch = self._reopen = None

    def on_kill(self) -> None:
        """Settle the batch at once and stop the work. Runs in a signal handler, which may interrupt any code.

        Raises TaskKilled in the interrupted code, because nothing else ends the task when the supervisor receives
        SIGTERM. Logs nothing, because the interrupted code may hold the lock of the log.
        """
        self._killed = True
        batch, reopen = self._batch, self._reopen
        if not batch or reopen is None:
            return
        kill = why_killed(self._ti, batch.lease.owner)
        try:
            with reopen() as queue:
                batch.kill(kill, queue)
        except RedisMessageQueueError as error:
            raise TaskKilled(f"{kill.why}; its messages return when their lease expires: {error}") from error
        verdict = "this counts as a failure of its messages" if kill.is_failure else "its messages were released"
        raise TaskKilled(f"{kill.why}; {verdict}")
