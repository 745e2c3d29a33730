"""Claiming under a task's name.

Law: a lease is taken over only from an earlier try of the same task, or from whoever handed it over. A copy of a task
that should be dead, or another DAG that uses the same lease id, is refused and disturbs nobody. What a run of the same
name held that was deleted goes back to the queue, and what it settled is not this run's.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, get_args

from rmq_airflow.identity import Relation
from rmq_core import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeasedConfig,
    LeaseLost,
    LeaseOwnedByOther,
    RedisMessageQueueError,
    Unsupported,
    discipline_of,
)

if TYPE_CHECKING:
    from rmq_airflow.identity import TaskIdentity
    from rmq_core import Lease, LeasedQueue, WorkQueue

OnSettled = Literal["skip", "next"]
ALL = 1_000_000  # messages of a claim without a bound
log = logging.getLogger(__name__)


class Claimed(NamedTuple):
    """What a claim came to: no lease when the queue was empty.

    settled_before: this task, as far as one can tell in this run, has settled messages under its name before.
    """

    lease: Lease | None
    settled_before: bool = False

    @property
    def isolated(self) -> int:
        """How many of the messages had failed together before and were claimed apart from the others."""
        return self.lease.count if self.lease is not None and self.lease.isolation is not None else 0


class HandedOver(TypedDict):
    """A lease that waits to be adopted: names only, no token and no payload."""

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
) -> Claimed:
    """Take over what an earlier try of this task holds, else claim.

    named: the lease id, the task's own when None. on_settled: when everything under that name was acked, as before a
    `clear`: `next` claims more under `<id>#2`, `#3`, …; `skip` raises LeaseAlreadySettled.
    """
    settled_before = False
    for lease_id in _names(named or identity.lease_id):
        _free(queue, lease_id, identity)
        try:
            taken = queue.claim(max_messages=max_messages, lease=lease, lease_id=lease_id, owner=identity.owner)
        except LeaseAlreadySettled:
            if _was_settled_by_a_former_run(queue, lease_id, identity):
                continue
            settled_before = True
            if on_settled == "skip":
                raise
        else:
            _log_isolation(taken, max_messages)
            return Claimed(taken, settled_before)
    raise AssertionError  # pragma: no cover  numbers do not end


def held(queue: LeasedQueue, identity: TaskIdentity) -> bool:
    """Whether an earlier try of this task left a lease; what a former run left goes back to the queue."""
    lease_id = next(name for name in _names(identity.lease_id) if queue.settled(name) is None)
    present = _free(queue, lease_id, identity, refuse=False)
    return present is not None and identity.follows(present)


def adopt(
    queue: LeasedQueue, identity: TaskIdentity, handed: HandedOver, lease: timedelta | float | None = None
) -> Lease:
    """Take over the lease that another task of the run has claimed. LeaseLost when it is gone, or somebody else's."""
    present = _owner_of(queue, handed["lease_id"])
    if present is not None and present != handed["owner"]:
        _refuse_foreign(handed["lease_id"], present, identity)
    return queue.adopt(handed["lease_id"], owner=identity.owner, if_owner=present, lease=lease)


def check_handed(handed: object) -> HandedOver:
    """ConfigurationError when it is not what a sensor with `hand_over=True` returns."""
    if isinstance(handed, dict) and HandedOver.__required_keys__ <= handed.keys():
        return handed  # type: ignore[return-value]  # the keys are there
    found = "None: was the sensor skipped, or marked success?" if handed is None else type(handed).__name__
    raise ConfigurationError(f"`hand_over` must be the output of a RedisQueueSensor with hand_over=True, not {found}")


def check_on_settled(on_settled: str) -> None:
    """ConfigurationError for an unknown word."""
    if on_settled not in get_args(OnSettled):
        raise ConfigurationError(f"`on_settled` must be one of {get_args(OnSettled)}, not {on_settled!r}")


def check_bound(name: str, value: object, least: int = 1) -> None:
    """ConfigurationError for a number of messages that cannot be meant."""
    if value is not None and (type(value) is not int or value < least):  # not isinstance: True is an int
        raise ConfigurationError(f"`{name}` must be an integer of at least {least}, not {value!r}")


def check_seconds(name: str, value: timedelta | float | None) -> float | None:
    """As a number of seconds; ConfigurationError for what is none."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if number is not None and not (type(number) in (int, float) and number >= 0):  # written so that NaN fails
        raise ConfigurationError(f"`{name}` must be seconds or a timedelta, not {value!r}")
    return number


def check_queue(redis_queue: object, config: object) -> None:
    """ConfigurationError for what is wrong with a queue before anything is rendered or asked."""
    if not redis_queue:
        raise ConfigurationError("`redis_queue` must name a queue; it is empty")
    if config is not None and not isinstance(config, LeasedConfig):
        raise ConfigurationError(
            f"`queue_config` must be a LeasedConfig, not {type(config).__name__}: only leased queues take one"
        )


def is_template(text: str) -> bool:
    """Whether Airflow renders something in it before a worker sees it."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


def check_discipline(queue: WorkQueue) -> None:
    """Unsupported for a queue that another discipline keeps: under this one its name is an empty queue for ever."""
    client = queue.client  # type: ignore[attr-defined]  # every queue has one, but the protocol is not about it
    try:
        found = discipline_of(client, queue.name) or queue.discipline
    except RedisMessageQueueError:
        return  # a user who may not look there; what is wrong with the server itself shows in the next call
    if found != queue.discipline:
        raise Unsupported(
            queue.discipline,
            f"queue {queue.name!r} on this server: it belongs to {found!r}, which the field `discipline` of a "
            "connection has to say",
        )


def _names(lease_id: str) -> Iterator[str]:
    yield lease_id
    yield from (f"{lease_id}#{number}" for number in itertools.count(2))


def _free(queue: LeasedQueue, lease_id: str, identity: TaskIdentity, *, refuse: bool = True) -> str | None:
    """The owner of a lease that this task may take over, or None; LeaseOwnedByOther when somebody else has it."""
    owner = _owner_of(queue, lease_id)
    if owner is None:
        return None
    if identity.relation(owner) is Relation.FORMER:
        _release_former(queue, lease_id, owner)
        return None
    if refuse:
        _refuse_foreign(lease_id, owner, identity)
    return owner


def _owner_of(queue: LeasedQueue, lease_id: str) -> str | None:
    info = queue.lease_info(lease_id)
    return None if info is None else info.owner


def _refuse_foreign(lease_id: str, owner: str, identity: TaskIdentity) -> None:
    if not identity.follows(owner):
        raise LeaseOwnedByOther(lease_id, f"it is owned by {owner!r}, which is no earlier try of this task")


def _release_former(queue: LeasedQueue, lease_id: str, owner: str) -> None:
    try:
        released = queue.release_lease(lease_id, if_owner=owner).settled
    except (LeaseLost, LeaseAlreadySettled):  # its holder, or its deadline, was faster
        return
    log.info("Released %d messages of lease %s: %s held it in a run that was deleted.", released, lease_id, owner)


def _was_settled_by_a_former_run(queue: LeasedQueue, lease_id: str, identity: TaskIdentity) -> bool:
    record = queue.settled(lease_id)
    if record is None or identity.relation(record.owner) is Relation.FORMER:
        log.info("Lease %s was settled by a run of the same name that was deleted; going on.", lease_id)
        return True
    apart = identity.tells_runs_apart(record.owner)
    unknown = "" if apart else " Whether it was in this run or in a deleted one of the same name cannot be told."
    log.info("%s has acked %d messages under lease %s.%s", record.owner, record.acked, lease_id, unknown)
    return False


def _log_isolation(lease: Lease | None, asked: int) -> None:
    if lease is not None and lease.isolation is not None:
        log.info("Got %d of %s: %s.", lease.count, "all" if asked == ALL else asked, lease.isolation)
