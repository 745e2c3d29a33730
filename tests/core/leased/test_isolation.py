"""Messages that failed together are isolated: no message starves, and none dies for the failure of others."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from rmq_core import Isolation, LeasedConfig, Overflow
from rmq_core.events import Operation, QueueEvent
from rmq_core.leased.settling import nack
from rmq_core.messages import IsolatedGroup
from tests.core.leases import drain, engine_of, expire, key, payloads, run
from tests.core.worlds import World

ALIKE = pytest.mark.nightly(
    "core/leased/test_isolation.py::test_poison_is_found_in_few_runs_whatever_the_retries_and_only_it_is_dead_lettered"
)


def failing_twice(queue: Any, count: int) -> None:
    """Let the first messages of a queue fail together twice."""
    for _ in range(2):
        queue.nack(queue.claim(max_messages=count))


def bound(count: int, poisons: int = 1) -> float:
    """Return how many runs may pass until all but the poison messages are done."""
    return poisons * (2 * math.log2(count) + 4)


@pytest.mark.parametrize("fail", ["nack", "expire"])
def test_a_lease_that_fails_once_does_not_reduce_the_claims_of_others(world: World, fail: str) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(600)))
    lease = queue.claim(max_messages=30)
    queue.nack(lease) if fail == "nack" else expire(world, lease.id)
    claims = [queue.claim(max_messages=30) for _ in range(20)]
    assert [claim.count for claim in claims] == [30] * 20
    assert sorted((m.payload for claim in claims for m in claim.messages), key=int) == list(map(str, range(600)))


def test_messages_that_failed_together_twice_come_in_halves_and_the_others_in_full(world: World) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(300)))
    failing_twice(queue, 30)
    leases = [queue.claim(max_messages=100) for _ in range(5)]
    assert sorted(lease.count for lease in leases) == [15, 15, 70, 100, 100]
    assert [lease.isolation for lease in leases if lease.count == 15] == [Isolation(2, 15)] * 2
    assert {lease.isolation for lease in leases if lease.count != 15} == {None}
    assert queue.claim() is None


def test_a_claim_of_isolated_messages_states_why_it_is_small(world: World) -> None:
    events: list[QueueEvent] = []
    queue = world.queue(on_event=events.append)
    queue.publish_many(map(str, range(8)))
    failing_twice(queue, 8)
    assert queue.backlog().groups == (IsolatedGroup(8, 4),)
    assert (queue.backlog().ready, queue.backlog().claims(8), queue.stats().ready, queue.stats().isolated) == (
        8,
        2,
        8,
        8,
    )
    lease = queue.claim(max_messages=8, lease_id="job")
    assert lease.isolation == queue.lease_info("job").isolation == Isolation(2, 4)
    assert str(lease.isolation).startswith("these have failed together before (2 times) and are tried apart")
    event = events[-1]
    assert (event.operation, event.count, event.lease_id) == (Operation.ISOLATE, 4, "job")
    assert event.reason == str(lease.isolation)
    again = queue.claim(max_messages=8, lease_id="job")
    assert (again.count, again.isolation) == (4, Isolation(2, 4))
    queue.ack(again)
    assert (queue.stats().isolated, queue.stats().delayed) == (4, 0)


@pytest.mark.parametrize("count", [20, 200, pytest.param(1000, marks=ALIKE)])
@pytest.mark.parametrize("poisons", [1, 2, 5])
@pytest.mark.parametrize("fail", ["nack", "expire"])
def test_poison_is_found_in_few_runs_whatever_the_retries_and_only_it_is_dead_lettered(
    world: World, count: int, poisons: int, fail: str
) -> None:
    drawn, needed = random.Random(f"{count} {poisons}").sample(range(count), poisons), []
    for retries in (0, 1, 3):
        queue = world.queue(f"retries {retries}")
        ids = queue.publish_many(map(str, range(count))).ids
        consumer = Consumer(world, queue, {ids[place] for place in drawn}, retries, fail)
        needed.append(consumer.work_until(lambda left, bad: left == bad, count))
        consumer.work_until(lambda left, _: not left, count)
        assert {message.id for message in queue.admin.dead_letters(100)} == consumer.bad
    assert max(needed) <= bound(count, poisons)
    if poisons == 1:  # more of them may be in one half for long, by chance: then a third of the runs is spared
        assert max(needed) - min(needed) <= 2


class Consumer:
    """A consumer of batches under one lease id for all tries; a batch with a poison message fails each time."""

    def __init__(self, world: World, queue: Any, bad: set[str], retries: int, fail: str) -> None:
        self.world, self.queue, self.bad, self.retries, self.fail = world, queue, bad, retries, fail
        self.names = (f"run {number}" for number in itertools.count())

    def work_until(self, done: Callable[[set[str], set[str]], bool], batch: int) -> int:
        """Return how many runs it takes until the queue has left what it should."""
        for runs in range(40 * int(bound(batch, len(self.bad)))):
            left = {message.id for message in self.queue.admin.peek(max(1, self.queue.backlog().ready))}
            if done(left, self.bad):
                return runs
            self.work(next(self.names), batch)
        raise AssertionError(left)

    def work(self, lease_id: str, batch: int) -> None:
        lease = self.queue.claim(max_messages=batch, lease_id=lease_id)
        if not {message.id for message in lease.messages} & self.bad:
            self.queue.ack(lease)
            return
        for number in range(self.retries):
            again = self.queue.claim(max_messages=batch, lease_id=lease_id, owner=f"try {number}")
            if again is None:
                return  # the rest of its deliveries is used up
            lease = again
        self.queue.nack(lease) if self.fail == "nack" else expire(self.world, lease.id, self.queue.name)


def test_isolated_messages_do_not_starve_fresh_ones(world: World) -> None:
    queue = world.queue()
    bad = queue.publish_many(map(str, range(200))).ids[123]
    born, waited = {}, []
    for number in range(100):
        for name in queue.publish_many(["fresh"] * 100).ids:  # half of what a claim takes
            born[name] = number
        lease = queue.claim(max_messages=200)
        ids = {message.id for message in lease.messages}
        if bad in ids:
            queue.nack(lease)
            continue
        waited += [number - born.pop(name) for name in ids & born.keys()]
        queue.ack(lease)
    assert max(waited) <= 12
    assert number - min(born.values(), default=number) <= 12


@pytest.mark.parametrize("ending", ["release", "release some", "release_lease"])
def test_released_messages_return_to_their_group_and_nothing_is_counted(world: World, ending: str) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(8)))
    failing_twice(queue, 8)
    before = {message.id: message.deliveries for message in queue.admin.peek(8)}
    lease = queue.claim(max_messages=8, lease_id="job")
    lease = queue.claim(max_messages=8, lease_id="job", owner="another try")
    if ending == "release":
        queue.release(lease)
    elif ending == "release some":
        queue.release(lease, lease.messages)
    else:
        assert queue.admin.release_lease("job", if_owner="another try").settled == 4
    assert queue.backlog().groups == (IsolatedGroup(8, 4),)
    assert {message.id: message.deliveries for message in queue.admin.peek(8)} == before


def test_isolated_messages_are_browsed_cancelled_and_purged_like_ready_ones(world: World) -> None:
    queue = world.queue()
    ids = queue.publish_many([*"abcd"]).ids
    failing_twice(queue, 4)
    queue.publish("e")
    assert sorted(payloads(queue.admin.peek(9))) == [*"abcde"]
    page = queue.admin.browse("isolated", 1, 2)
    assert (page.total, len(page.messages), page.due) == (4, 2, [])
    assert (queue.admin.browse("delayed").total, queue.admin.browse("ready").total) == (0, 1)
    assert queue.admin.cancel(ids[2])
    assert queue.admin.purge("delayed") == 0
    assert queue.stats().ready == 4
    assert queue.admin.purge("isolated") == 3
    assert queue.admin.purge("ready") == 1
    failing = queue.publish_many([*"xy"]).ids
    failing_twice(queue, len(failing))
    assert queue.admin.purge("ready") == 2
    assert queue.claim() is None


def test_large_isolated_groups_are_claimed_in_chunks_that_fit_one_reply(world: World) -> None:
    queue = world.queue()
    queue.publish_many("x" for _ in range(12_000))
    failing_twice(queue, 12_000)
    lease = queue.claim(max_messages=12_000)
    assert (lease.count, lease.complete, lease.isolation) == (4000, True, Isolation(2, 6000))
    queue.nack(lease)
    assert queue.backlog().groups == (IsolatedGroup(8000, 6000), IsolatedGroup(4000, 2000))
    heavy = world.queue("heavy")
    heavy.publish_many("x" * 500_000 for _ in range(60))
    failing_twice(heavy, 60)
    assert 8 <= heavy.claim(max_messages=60).count < 30


def test_of_many_groups_a_hundred_are_listed_and_the_rest_is_summed_up(world: World) -> None:
    queue = world.queue()
    queue.publish_many(["x"] * 240)
    leases = [queue.claim(max_messages=2) for _ in range(120)]
    for lease in leases:
        queue.nack(lease)
    for lease in [queue.claim(max_messages=2) for _ in range(120)]:
        queue.nack(lease)
    backlog = queue.backlog()
    assert (backlog.ready, len(backlog.groups), backlog.groups[-1]) == (240, 101, IsolatedGroup(40, 1))
    assert backlog.claims(10) == 240


def test_a_release_and_a_redrive_keep_a_history_of_one_line_that_is_longer_than_a_kib(world: World) -> None:
    queue, owner = world.queue(config=LeasedConfig(max_deliveries=2)), "ü" * 512
    queue.publish_many([*"ab"])
    for _ in range(2):
        queue.nack(queue.claim(max_messages=2, owner=owner), reason="long")
    for tries in range(2):
        queue.release(queue.claim(lease_id=f"job {tries}", owner=owner))
    queue.claim(lease_id="job", owner=owner)
    queue.release(queue.claim(lease_id="job", owner=owner))  # the deliveries of a takeover stay
    assert queue.backlog().groups == (IsolatedGroup(2, 1),)
    assert [len(message.history) for message in queue.admin.peek(2)] == [1, 1]
    assert queue.claim().isolation == Isolation(2, 1)
    strict = world.queue("strict", config=LeasedConfig(max_deliveries=1))
    strict.publish("c")
    strict.nack(strict.claim(owner=owner))
    assert strict.admin.redrive() == 1
    assert len(strict.admin.peek()[0].history) == 1


def test_an_interrupted_nack_never_blames_a_single_message_for_the_deliveries_of_all(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=4))
    queue.publish_many("x" for _ in range(1_001))
    queue.claim(max_messages=1_001, lease_id="job")
    lease = queue.claim(max_messages=1_001, lease_id="job", owner="another try")
    run(world, queue, next(nack(engine_of(queue), lease)))
    for number in range(4):
        queue.claim(max_messages=1_001, lease_id="job", owner=f"try {number}")
    assert queue.stats().dead == 0


def test_messages_partly_requeued_by_an_earlier_version_are_not_dead_lettered_together(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=2))
    queue.publish_many([*"abcd"])
    lease = queue.claim(max_messages=4)
    queue.nack(lease, lease.messages)
    lease = queue.claim(max_messages=4)
    token, _, claimed, *_ = world.client.lindex(key(f"lease:{lease.id}"), 0).decode().split(" ")
    world.client.lset(key(f"lease:{lease.id}"), 0, f"{token} n {claimed} 0 1 ")  # as the earlier version counts calls
    expire(world, lease.id)
    assert queue.claim(max_messages=4) is not None
    assert queue.stats().dead == 0


def test_a_queue_that_drops_its_oldest_messages_drops_isolated_ones_before_it_refuses(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_ready=4, overflow=Overflow.DROP_OLDEST))
    queue.publish_many([*"abcd"])
    failing_twice(queue, 4)
    assert queue.publish("e").accepted
    assert queue.publish_many([*"fgh"]).dropped == 3
    assert (queue.stats().ready, queue.stats().isolated) == (4, 0)
    assert queue.publish("i").accepted
    assert drain(queue) == [*"fghi"]


def test_a_release_isolates_no_message_that_an_earlier_version_put_among_isolated_ones(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    failing_twice(queue, 2)
    for envelope in world.client.zrange(key("delayed"), 0, -1):  # as the earlier version does, which treats them as due
        world.client.zrem(key("delayed"), envelope)
        world.client.rpush(key("ready"), envelope)
    queue.publish_many([*"cdefgh"])
    queue.release(queue.claim(max_messages=8))
    assert queue.backlog().groups == (IsolatedGroup(2, 1),)
    assert [lease.count for lease in iter(lambda: queue.claim(max_messages=8), None)] in ([1, 6, 1], [6, 1, 1])


def test_consumers_with_different_batch_sizes_that_take_turns_both_get_fresh_messages(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=None))
    queue.publish_many(["bad"] * 2)
    failing_twice(queue, 2)
    done = {100: 0, 1: 0}
    for batch in (100, 1) * 40:
        queue.publish_many(["fresh"] * 20)
        lease = queue.claim(max_messages=batch)
        if lease.isolation:
            queue.nack(lease)
        else:
            done[batch] += lease.count
            queue.ack(lease)
    assert done[1] > 5
    assert queue.stats().ready < 300
