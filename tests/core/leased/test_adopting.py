from __future__ import annotations

from typing import Any

import pytest

from rmq_core import (
    ConfigurationError,
    Lease,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
)
from tests.core.leases import drain, expire, payloads, snapshot
from tests.core.worlds import World


def deliveries(queue: Any, lease: Lease) -> list[int]:
    return [message.deliveries for message in queue.messages(lease)]


def test_adopting_under_the_same_owner_is_a_handover_and_counts_no_delivery(world: World) -> None:
    submitter, driver = world.queue(), world.queue()
    submitter.publish_many([*"ab"])
    claimed = submitter.claim(max_messages=2, lease_id="job", owner="run 1")
    adopted = driver.adopt("job", if_owner="run 1")
    assert (adopted.owner, adopted.count, adopted.takeovers) == ("run 1", 2, 0)
    assert adopted.token != claimed.token
    assert deliveries(driver, adopted) == [1, 1]
    assert deliveries(driver, driver.adopt("job", owner="run 1")) == [1, 1]
    with pytest.raises(LeaseLost):
        submitter.ack(claimed)


def test_a_failed_owner_condition_leaves_the_present_owner_undisturbed(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim(lease_id="job", owner="try 2")
    before = snapshot(world.client)
    with pytest.raises(LeaseOwnedByOther, match="owned by 'try 2', not by 'try 1'") as refused:
        queue.adopt("job", owner="late callback", if_owner="try 1")
    assert refused.value.lease_id == "job"
    with pytest.raises(LeaseOwnedByOther):
        queue.adopt("job", if_owner="")
    assert snapshot(world.client) == before
    assert not lease.lost
    assert queue.ack(lease).settled == 1


def test_of_many_concurrent_adoptions_from_one_owner_exactly_one_succeeds(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.claim(lease_id="job", owner="gone")
    tries = [world.in_background(world.queue().adopt, "job", owner=f"new {n}", if_owner="gone") for n in range(8)]
    errors = [attempt.exception(60) for attempt in tries]
    assert [type(error) for error in errors if error] == [LeaseOwnedByOther] * 7


def test_a_missing_lease_cannot_be_adopted(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(LeaseLost, match="no lease of this id"):
        queue.adopt("job")
    queue.release(queue.claim(lease_id="job"))
    with pytest.raises(LeaseLost):
        queue.adopt("job")
    assert drain(queue) == ["x"]


def test_an_acked_lease_cannot_be_adopted_and_the_error_reports_the_ack(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.ack(queue.claim(lease_id="job"))
    with pytest.raises(LeaseAlreadySettled) as settled:
        queue.adopt("job")
    assert settled.value.acked == 1


def test_an_expired_lease_can_be_adopted_until_it_is_reclaimed(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.claim(lease_id="job", owner="me")
    expire(world, "job")
    adopted = queue.adopt("job", lease=50)
    assert queue.lease_info("job").deadline == adopted.deadline
    expire(world, "job")
    assert queue.backlog().ready == 1
    with pytest.raises(LeaseLost):
        queue.adopt("job")


def test_the_messages_of_an_adopted_lease_are_read_from_the_server(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    queue.claim(max_messages=3, lease_id="job")
    adopted = queue.adopt("job")
    with pytest.raises(ConfigurationError, match=r"queue\.messages"):
        adopted.messages  # noqa: B018
    assert payloads(queue.messages(adopted)) == ["a", "b", "c"]
    assert payloads(queue.read(adopted, 1, 2)) == ["b"]


def test_a_lease_from_json_has_no_token_and_can_only_be_adopted(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    lease = queue.claim(max_messages=2, lease_id="job", owner="me")
    text = lease.to_json()
    assert lease.token not in text
    described = Lease.from_json(text)
    assert (described.id, described.owner, described.count, described.deadline) == ("job", "me", 2, lease.deadline)
    for use in (queue.ack, queue.nack, queue.release, queue.extend, queue.read, lambda it: queue.claim_next(ack=it)):
        with pytest.raises(ConfigurationError, match="adopt"):
            use(described)
    assert queue.ack(queue.adopt(described.id)).settled == 2


@pytest.mark.parametrize(
    ("parameter", "arguments"),
    [
        ("lease_id", {"lease_id": ""}), ("lease_id", {"lease_id": 5}), ("lease_id", {"lease_id": "\ud800"}),
        ("owner", {"lease_id": "job", "owner": "a\n"}), ("if_owner", {"lease_id": "job", "if_owner": 3}),
        ("lease", {"lease_id": "job", "lease": -1}),
    ],
)  # fmt: skip
def test_an_adoption_with_a_wrong_argument_names_it(world: World, parameter: str, arguments: Any) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        world.queue().adopt(**arguments)


def test_joining_a_lease_does_not_take_it_over(world: World) -> None:
    holder, helper = world.queue(), world.queue()
    holder.publish_many([*"ab"])
    claimed = holder.claim(max_messages=2, lease_id="job", owner="run 1")
    joined = helper.join("job")
    assert (joined.owner, joined.count, joined.deadline, joined.named) == ("run 1", 2, claimed.deadline, True)
    assert deliveries(helper, joined) == [1, 1]
    assert helper.nack(joined, list(helper.messages(joined))[:1]).settled == 1
    assert holder.ack(claimed).settled == 1


def test_the_holder_ends_a_lease_whose_messages_a_helper_settled(world: World) -> None:
    holder, helper = world.queue(), world.queue()
    holder.publish_many([*"ab"])
    claimed = holder.claim(max_messages=2, lease_id="job")
    joined = helper.join("job")
    assert helper.nack(joined, list(helper.messages(joined))).settled == 2
    holder.extend(claimed)
    assert holder.ack(claimed).settled == 0
    assert (holder.settled("job").acked, holder.stats().leases) == (0, 0)
    assert sorted(drain(holder)) == ["a", "b"]


def test_a_lease_whose_messages_a_helper_settled_expires_without_effect(world: World) -> None:
    holder, helper = world.queue(), world.queue()
    holder.publish("a")
    holder.claim(lease_id="job")
    joined = helper.join("job")
    helper.nack(joined, list(helper.messages(joined)))
    expire(world, "job")
    assert payloads(holder.claim(max_messages=2).messages) == ["a"]
    assert (holder.lease_info("job"), holder.stats().leases) == (None, 1)
