"""The same claims as a task of Airflow and as a step of Dagster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from rmq_airflow.identity import TaskIdentity
from rmq_core import ConfigurationError, LeaseAlreadySettled, LeaseOwnedByOther
from rmq_core.reports import SettledRecord
from rmq_core.work import Claimant, check_on_settled, claim_as, has_left
from rmq_dagster.claiming import StepClaimant
from tests.unit.work.fake import FakeQueue

RUN, EARLIER = (f"{number}0000000-0000-0000-0000-000000000000" for number in (2, 1))


class Kind(NamedTuple):
    """A claimant, and the owner string of an earlier attempt."""

    claimant: Claimant
    earlier: str


def airflow() -> Kind:
    task = TaskIdentity("dag", "run", "work", -1, 2)
    return Kind(task, "airflow:dag/run/work/-1/1")


def dagster() -> Kind:
    instance = SimpleNamespace(get_run_records=lambda _: [])  # the earlier run was deleted
    context: Any = SimpleNamespace(run=SimpleNamespace(run_id=RUN, root_run_id=EARLIER), instance=instance)
    return Kind(StepClaimant(context, f"{EARLIER}/work"), EARLIER)


@pytest.fixture(params=[airflow, dagster])
def kind(request: pytest.FixtureRequest) -> Kind:
    make: Callable[[], Kind] = request.param
    return make()


def take(queue: FakeQueue, kind: Kind, **options: Any) -> Any:
    return claim_as(kind.claimant, queue, max_messages=2, **options)  # type: ignore[arg-type]  # as far as it is asked


def record(owner: str) -> SettledRecord:
    return SettledRecord("work", 7, owner, datetime.now(UTC))


def test_the_lease_id_is_that_of_the_work_and_the_owner_that_of_the_attempt(kind: Kind) -> None:
    queue = FakeQueue()
    claimed = take(queue, kind)
    assert (claimed.lease.count, claimed.settled_before) == (2, False)
    assert queue.owners == {kind.claimant.lease_id: kind.claimant.owner}


def test_the_lease_of_an_earlier_attempt_is_found_and_taken_over(kind: Kind) -> None:
    queue = FakeQueue()
    queue.owners[kind.claimant.lease_id] = kind.earlier
    assert has_left(kind.claimant, queue)  # type: ignore[arg-type]
    take(queue, kind)
    assert queue.owners == {kind.claimant.lease_id: kind.claimant.owner}


@pytest.mark.parametrize("owner", ["by hand", "airflow:another/run/work/-1/1", "airflow:dag/run/work/-1/3"])
def test_the_lease_of_a_foreign_owner_is_refused_and_left_alone(kind: Kind, owner: str) -> None:
    queue = FakeQueue()
    queue.owners[kind.claimant.lease_id] = owner
    assert not has_left(kind.claimant, queue)  # type: ignore[arg-type]
    with pytest.raises(LeaseOwnedByOther, match=f"it is owned by '{owner}', which is not an earlier try"):
        take(queue, kind)
    assert queue.owners == {kind.claimant.lease_id: owner}


def test_a_retry_after_the_ack_skips_or_claims_the_next_batch(kind: Kind) -> None:
    queue, name = FakeQueue(), kind.claimant.lease_id
    queue.records = {name: record(kind.earlier), f"{name}#2": record(kind.earlier)}
    with pytest.raises(LeaseAlreadySettled):
        take(queue, kind, on_settled="skip")
    claimed = take(queue, kind, on_settled="next")
    assert (claimed.lease.id, claimed.settled_before) == (f"{name}#3", True)


def test_the_lease_id_of_the_next_batch_is_protected_too(kind: Kind) -> None:
    queue, name = FakeQueue(), kind.claimant.lease_id
    queue.records, queue.owners = {name: record(kind.earlier)}, {f"{name}#2": "by hand"}
    with pytest.raises(LeaseOwnedByOther):
        take(queue, kind, on_settled="next")


def test_the_claimer_checks_a_settled_lease_once(kind: Kind) -> None:
    queue, name, asked = FakeQueue(), kind.claimant.lease_id, []
    queue.records = {name: record(kind.earlier), f"{name}#2": record(kind.earlier)}
    take(queue, kind, check_settled=lambda settled, found: asked.append((settled.lease_id, found.owner)))
    assert asked == [(name, kind.earlier)]


def test_an_unknown_value_of_on_settled_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_settled must be one of skip, next, not 'again'"):
        check_on_settled("again")
