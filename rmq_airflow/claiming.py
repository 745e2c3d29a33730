"""Claiming as an Airflow task, and validation of operator arguments."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TypedDict

from rmq_airflow.identity import TaskIdentity
from rmq_core import (
    ConfigurationError,
    Lease,
    LeaseAlreadySettled,
    LeasedConfig,
    LeasedQueue,
    RedisMessageQueueError,
    Unsupported,
    WorkQueue,
    discipline_of,
)
from rmq_core.reports import SettledRecord
from rmq_core.work import Claimed, OnSettled, Threshold, claim_as, refuse_foreign

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
) -> Claimed:
    """Claim as `claim_as` does; log an ambiguous earlier settlement, and why isolation reduced the claim."""

    def tell(_: LeaseAlreadySettled, record: SettledRecord) -> None:
        if not identity.tells_runs_apart(record.owner):
            log.info("The lease was settled by this run or by a deleted run of the same name.")

    claimed = claim_as(
        identity, queue, max_messages=max_messages, lease=lease, on_settled=on_settled, named=named,
        sequential=sequential, check_settled=tell,
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
