from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError, LeasedConfig, LeaseLost
from tests.core.leases import drain, expire, key, payloads
from tests.core.worlds import World


def test_an_empty_queue_gives_no_lease(world: World) -> None:
    assert world.queue().claim() is None


def test_messages_are_claimed_in_the_order_they_were_published(world: World) -> None:
    queue = world.queue()
    for payload in "abc":
        queue.publish(payload)
    queue.publish_many([*"defg"])
    leases = [queue.claim(max_messages=count) for count in (1, 2, 3, 10)]
    assert [payloads(lease.messages) for lease in leases] == [["a"], ["b", "c"], ["d", "e", "f"], ["g"]]
    assert [message.index for message in leases[2].messages] == [0, 1, 2]


def drain_slowly(queue: Any) -> list[str]:
    found: list[str] = []
    while lease := queue.claim(max_messages=3):
        found += payloads(lease.messages)
        queue.ack(lease)
    return found


def test_threads_may_share_one_queue_object(world: World) -> None:
    queue = world.queue()
    senders = [world.in_background(queue.publish, str(n)) for n in range(100)]
    assert all(sender.result(60).accepted for sender in senders)
    workers = [world.in_background(drain_slowly, queue) for _ in range(8)]
    found = [payload for worker in workers for payload in worker.result(60)]
    assert sorted(found, key=int) == [str(n) for n in range(100)]


def test_the_duration_of_a_lease_may_be_set_by_the_claim_and_be_endless(world: World) -> None:
    queue, patient = world.queue(), world.queue("patient", LeasedConfig(lease=None))
    queue.publish("x")
    patient.publish("x")
    lease, endless = queue.claim(lease=7, lease_id="j"), patient.claim(lease_id="j")
    assert (lease.deadline - queue.lease_info("j").claimed_at).total_seconds() == 7
    assert endless.deadline is None
    assert patient.lease_info("j").deadline is None
    assert world.client.zscore(key("leases", "patient"), "j") == float("inf")


def test_claiming_an_id_again_takes_its_messages_over_and_fences_the_former_holder(world: World) -> None:
    first, second = world.queue(), world.queue()
    first.publish_many([*"abc"])
    stale = first.claim(max_messages=2, lease_id="job", owner="try 1")
    lease = second.claim(max_messages=10, lease_id="job", owner="try 2")
    assert (lease.count, lease.takeovers, lease.owner) == (2, 1, "try 2")
    messages = list(second.messages(lease))
    assert payloads(messages) == ["a", "b"]
    assert [message.deliveries for message in messages] == [2, 2]
    for settle in (first.ack, first.nack, first.release, first.extend, first.read):
        with pytest.raises(LeaseLost, match="job"):
            settle(stale)
    assert stale.lost
    assert second.ack(lease).settled == 2
    assert drain(second) == ["c"]


def test_a_crash_loop_on_one_id_ends_in_the_dead_letters_and_spares_the_others(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=3))
    queue.publish_many(["poison", "good"])
    deliveries = [next(iter(queue.messages(queue.claim(lease_id="job")))).deliveries for _ in range(3)]
    assert deliveries == [1, 2, 3]
    lease = queue.claim(lease_id="job")
    assert payloads(lease.messages) == ["good"]
    (dead,) = queue.admin.dead_letters()
    assert (dead.payload, dead.deliveries) == ("poison", 3)
    assert [failure.kind for failure in dead.history] == ["expired"]


def test_the_record_of_a_settled_id_is_kept_as_long_as_configured(world: World) -> None:
    queue = world.queue(config=LeasedConfig(settled_ttl=60))
    queue.publish("x")
    queue.ack(queue.claim(lease_id="job"))
    assert 50_000 < world.client.pttl(key("done:job")) <= 60_000
    world.client.delete(key("done:job"))
    assert queue.settled("job") is None
    assert queue.claim(lease_id="job") is None


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("max_messages", 0), ("max_messages", True), ("max_messages", 1.5), ("lease", 0), ("lease", -1),
        ("lease", float("nan")), ("wait", -1), ("wait", "1"), ("lease_id", ""), ("lease_id", "~x"), ("lease_id", "a{b"),
        ("lease_id", "a\nb"), ("lease_id", 5), ("lease_id", "x" * 513), ("owner", "a\tb"), ("owner", 7),
    ],
)  # fmt: skip
def test_a_claim_with_a_wrong_argument_names_it(world: World, parameter: str, value: Any) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(ConfigurationError, match=parameter):
        queue.claim(**{parameter: value})
    assert queue.stats()[:4] == (1, 0, 0, 0)


def test_claim_next_acks_and_claims_in_one_call(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    first = queue.claim(lease_id="job", owner="me")
    second = queue.claim_next(ack=first, max_messages=2)
    assert payloads(second.messages) == ["b", "c"]
    assert (second.owner, queue.settled("job").acked) == ("me", 1)
    assert queue.claim_next(ack=second) is None
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_claim_next_with_a_lost_lease_claims_nothing(world: World) -> None:
    one, two = world.queue(), world.queue()
    one.publish_many([*"ab"])
    stale = one.claim(lease_id="job")
    taken = two.claim(lease_id="job")
    with pytest.raises(LeaseLost):
        one.claim_next(ack=stale)
    assert one.stats()[:4] == (1, 0, 1, 1)
    assert two.ack(taken).settled == 1


def test_claim_next_reclaims_expired_leases_and_respects_a_pause(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    forgotten, lease = queue.claim(), queue.claim()
    expire(world, forgotten.id)
    again = queue.claim_next(ack=lease)
    assert again.message.payload == "a"
    queue.publish("c")
    queue.admin.pause()
    assert queue.claim_next(ack=again) is None
    queue.admin.resume()
    assert drain(queue) == ["c"]
