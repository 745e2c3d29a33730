"""Claiming under a task's name.

Law: a lease is taken over only from an earlier try of the same task, or from whoever handed it over. A copy of a task
that should be dead, or another DAG that uses the same lease id, is refused and disturbs nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from rmq_core import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeasedConfig,
    LeaseOwnedByOther,
    RedisMessageQueueError,
    Unsupported,
    disciplines,
)

if TYPE_CHECKING:
    from rmq_airflow.identity import TaskIdentity
    from rmq_core import Lease, LeasedQueue, WorkQueue

OnSettled = Literal["skip", "next"]


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
) -> Lease | None:
    """Take over what an earlier try of this task holds, else claim; None when the queue is empty.

    named: the lease id, the task's own when None. on_settled: when everything under that name was acked, as before a
    `clear`: `next` claims more under `<id>#2`, `#3`, …; `skip` raises LeaseAlreadySettled.
    """
    for lease_id in _names(named or identity.lease_id):
        _refuse_foreign(queue, lease_id, identity.follows)
        try:
            return queue.claim(max_messages=max_messages, lease=lease, lease_id=lease_id, owner=identity.owner)
        except LeaseAlreadySettled:
            if on_settled == "skip":
                raise
    raise AssertionError  # pragma: no cover  numbers do not end


def held(queue: LeasedQueue, identity: TaskIdentity) -> bool:
    """Whether an earlier try of this task left a lease."""
    lease_id = next(name for name in _names(identity.lease_id) if queue.settled(name) is None)
    info = queue.lease_info(lease_id)
    return info is not None and identity.follows(info.owner)


def adopt(
    queue: LeasedQueue, identity: TaskIdentity, handed: HandedOver, lease: timedelta | float | None = None
) -> Lease:
    """Take over the lease that another task of the run has claimed. LeaseLost when it is gone, or somebody else's."""
    present = _refuse_foreign(
        queue, handed["lease_id"], lambda owner: owner == handed["owner"] or identity.follows(owner)
    )
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
        found = disciplines(client).get(queue.name, queue.discipline)
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


def _refuse_foreign(queue: LeasedQueue, lease_id: str, ours: Callable[[str], bool]) -> str | None:
    info = queue.lease_info(lease_id)
    if info is None:
        return None
    if not ours(info.owner):
        raise LeaseOwnedByOther(lease_id, f"it is owned by {info.owner!r}, which is no earlier try of this task")
    return info.owner
