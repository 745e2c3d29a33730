"""Messages that expire while they wait: they are never handed out, they are dead letters, and that is stated once."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, Overflow, backlogs
from rmq_core.asyncio import WaitHub
from rmq_core.errors import ConfigurationError, PayloadError, QueueFull
from rmq_core.leased.aio import read_all
from rmq_core.messages import NewMessage
from rmq_core.redis_message_queue import RedisMessageQueue
from tests.core.leased.groups import POLICIES, Groups
from tests.core.leased.test_groups import configure, publications, stopped_after
from tests.core.leases import drain, driver_of, eventually, expire, fall_due, key, lose_answer, payloads
from tests.core.worlds import World


@pytest.mark.parametrize("policy", POLICIES)
def test_random_calls_hand_out_nothing_expired_and_state_each_death_once(
    world: World, policy: str, full_faults: bool
) -> None:
    for seed in range(40 if full_faults else 4):
        world.client.flushdb()
        Groups(world, f"expiry {policy} {seed}", policy, expiring=True).run(250 if full_faults else 120)


def test_a_policy_changes_while_messages_that_expire_wait(world: World, full_faults: bool) -> None:
    for seed in range(60 if full_faults else 6):
        world.client.flushdb()
        groups = Groups(world, f"expiry changes {seed}", None, expiring=True)
        for policy in groups.chance.sample([None, *POLICIES], 4):
            for _ in range(30):
                groups.chance.choice([groups.publish, groups.claim, groups.ack, groups.some, groups.expire])()
            groups.set_policy(policy)
            groups.audit()
        groups.finish()


def test_whoever_removes_groups_may_die_and_what_still_waits_expires(world: World) -> None:
    for requests in itertools.count():
        world.client.flushdb()
        queue, other = opened(world), world.queue()
        queue.publish_many(map(str, range(2_500)), group="a", expires=600)
        died = stopped_after(queue, requests, partial(configure, queue, None))
        fields = {f"{5 * 10**14 + int(field[2:])}a".encode() for field in world.client.hkeys(key("grouped"))}
        assert set(world.client.zrange(key("expiring"), 0, -1)) == fields
        if fields:
            let_expire(world)
        other.backlog()
        assert other.stats().dead == len(fields)
        for name in publications(world):
            world.client.zadd(key("leases"), {name: 1}, xx=True)
        assert len(drain(other)) == 2_500 - len(fields)
        assert other.stats()[:5] == (0, 0, 0, 0, len(fields))
        if not died:
            return


EXPIRED = "expired while it waited"


def opened(world: World, groups: str = "fair", name: str = "q", **config: Any) -> Any:
    queue = world.queue(name, LeasedConfig(**config))
    queue.admin.configure(groups=groups)
    return queue


def let_expire(world: World, queue: str = "q") -> None:
    """Let all waiting messages expire that have a time at which they do."""
    entries: Any = world.client.zrange(key("expiring", queue), 0, -1)
    assert entries
    world.client.zadd(key("expiring", queue), dict.fromkeys(entries, 1))


def dead(queue: Any) -> list[Any]:
    """Return the payloads of the dead letters that expired, the first one first."""
    letters = queue.admin.dead_letters(100_000)
    assert {(each.history[-1].kind, each.history[-1].reason) for each in letters} <= {("unclaimed", EXPIRED)}
    return payloads(reversed(letters))


def test_what_expired_while_no_consumer_ran_starts_no_work_and_is_told_by_whoever_looks_first(world: World) -> None:
    told: list[Any] = []
    queue = opened(world, journal=100)
    other = world.queue(config=LeasedConfig(journal=100), on_event=told.append)
    ids = list(queue.publish_many(["a", "b", NewMessage("c", group="g", expires=timedelta(minutes=5))], expires=60).ids)
    let_expire(world)
    assert queue.stats().ready == 3
    assert other.backlog()[:2] == (0, None)
    assert queue.claim() is None
    assert queue.stats()[:5] == (0, 0, 0, 0, 3)
    assert sorted(dead(queue)) == ["a", "b", "c"]
    assert {(event.operation, event.message_id, event.reason) for event in told} == {
        ("dead", each, EXPIRED) for each in ids
    }
    assert len(told) == 3
    assert [(group.reason, group.count) for group in queue.admin.dead_reasons()] == [(EXPIRED, 3)]
    assert {step.what for step in queue.admin.why(ids[0]).steps} == {"published", "unclaimed", "dead"}


def test_messages_are_claimed_until_they_expire_by_the_time_of_the_server(world: World) -> None:
    queue = opened(world)
    now = queue.admin.server_time()
    queue.publish("relative", expires=0.05)
    queue.publish("absolute", expires=now + timedelta(milliseconds=50))
    queue.publish("past", expires=datetime(1999, 1, 1, tzinfo=UTC))
    queue.publish("late", expires=now + timedelta(days=9999))
    lease = queue.claim(max_messages=9)
    assert payloads(lease.messages)[-1] == "late"
    until = {message.payload: int(message.expires) / 1000 for message in lease.messages}
    assert until["late"] == pytest.approx((now + timedelta(days=9999)).timestamp(), abs=0.001)
    assert "past" not in until
    queue.release(lease)
    eventually(lambda: queue.backlog().ready == 1)
    assert sorted(dead(queue)) == ["absolute", "past", "relative"]


@pytest.mark.parametrize("groups", ["fair", "exclusive"])
@pytest.mark.parametrize("most", [1, 10, 150])
def test_many_expired_messages_before_one_that_is_not_block_nothing(world: World, groups: str, most: int) -> None:
    queue = opened(world, groups)
    queue.publish_many(map(str, range(2_000)), group="g", expires=60)
    queue.publish("live", group="g", expires=600)
    let_expire(world)
    world.client.zadd(key("expiring"), {f"{5 * 10**14 + 2_000}g": 9e12})
    assert payloads(queue.claim(max_messages=most).messages) == ["live"]
    assert dead(queue) == [str(number) for number in range(2_000)]
    assert queue.backlog().ready == 0
    assert queue.admin.redrive() == 2_000
    assert queue.stats().ready == 2_000


def test_large_expired_messages_are_moved_in_parts(world: World) -> None:
    queue = opened(world)
    queue.publish_many(["x" * 900_000] * 25, expires=60)
    queue.publish("live")
    let_expire(world)
    assert payloads(queue.claim().messages) == ["live"]
    assert queue.stats().dead == 25


def searches(world: World) -> int:
    """Return how often scripts have looked for the groups in front."""
    info: Any = world.client.info("commandstats")
    return int(info["cmdstat_zrangebyscore"]["calls"])


def test_holes_that_expired_messages_leave_take_neither_time_nor_the_share_of_a_group(world: World) -> None:
    queue = opened(world)
    queue.publish("first", group="g", expires=600)
    queue.publish_many(["gone"] * 3_000, group="g", expires=60)
    queue.publish_many(["g"] * 50, group="g")
    queue.publish_many(["other"] * 200, group="other")
    world.client.zadd(key("expiring"), {f"{5 * 10**14 + number}g": 1 for number in range(1, 3_001)}, xx=True)
    assert queue.backlog().ready == 251
    before = searches(world)
    found = [payloads(queue.claim(max_messages=10).messages) for _ in range(6)]
    assert searches(world) - before < 60
    assert all(abs(batch.count("g") - 5) <= 2 for batch in found[1:]), found


def test_an_exclusive_group_goes_on_without_what_expired(world: World) -> None:
    queue, other = opened(world, "exclusive"), world.queue()
    for text, expires in (("1", 60), ("2", None), ("3", 60), ("4", None)):
        queue.publish(text, group="table", expires=expires)
    lease = queue.claim()
    let_expire(world)
    assert other.claim() is None, "the lease holds the group"
    assert dead(queue) == ["3"], "a leased message does not expire"
    queue.nack(lease, delay=600)
    assert other.claim() is None, "the group rests"
    let_expire(world)
    assert payloads(other.claim(max_messages=9).messages) == ["2", "4"]
    assert dead(queue) == ["3", "1"]


@pytest.mark.parametrize("end", ["nack", "release", "expire", "some"])
@pytest.mark.parametrize("groups", ["fair", "exclusive"])
def test_a_leased_message_dies_when_it_comes_back_after_its_time(world: World, groups: str, end: str) -> None:
    queue = opened(world, groups)
    queue.publish_many(["a", "b"], group="g", expires=0.05)
    lease = queue.claim(max_messages=2)
    time.sleep(0.06)
    assert queue.backlog().ready == 0
    assert len(list(queue.messages(lease))) == 2
    if end == "expire":
        expire(world, lease.id)
    elif end == "some":
        queue.nack(lease, lease.messages[:1])
        queue.ack(lease, lease.messages[1:])
    else:
        getattr(queue, end)(lease)
    assert queue.claim() is None
    assert dead(queue) == (["a"] if end == "some" else ["a", "b"])
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_delayed_message_whose_time_is_over_when_it_is_due_dies_then(world: World) -> None:
    queue = opened(world)
    queue.publish("a", group="g", delay=600, expires=0.02)
    queue.publish("b", expires=0.02)
    queue.nack(queue.claim(), delay=600)
    time.sleep(0.03)
    assert queue.backlog().ready == 0
    assert queue.stats().delayed == 2
    fall_due(world)
    assert queue.claim(max_messages=5) is None
    assert sorted(payloads(queue.admin.dead_letters())) == ["a", "b"]


def test_an_isolated_message_that_expires_lets_its_group_go_on(world: World) -> None:
    for groups in ("fair", "exclusive"):
        queue = opened(world, groups, groups)
        for number in range(4):
            queue.publish(str(number), group="g", expires=60)
        for _ in range(2):
            queue.nack(queue.claim(max_messages=4))
        queue.publish_many(["4", "5"], group="g")
        let_expire(world, groups)
        assert payloads(queue.claim(max_messages=9).messages) == ["4", "5"]
        assert queue.stats()[:5] == (0, 0, 2, 1, 4)


def redriven(queue: Any) -> None:
    assert queue.admin.redrive() == 1


def redriven_by_id(queue: Any) -> None:
    assert queue.admin.redrive_some([queue.admin.dead_letters()[0].id]) == 1


def edited(queue: Any) -> None:
    letter = queue.admin.dead_letters()[0]
    assert queue.admin.edit(letter.id, "x", {**letter.headers, "by": "me"})


@pytest.mark.parametrize("act", [redriven, redriven_by_id, edited])
@pytest.mark.parametrize("headers", [{}, {"a": "1"}, {"z": "1"}, {"a": '"rmq-expires":"', "z": "é"}])
def test_what_an_operator_redrives_does_not_expire_again(world: World, act: Any, headers: dict[str, str]) -> None:
    queue = opened(world)
    queue.publish("x", headers=headers, expires=60)
    let_expire(world)
    assert queue.backlog().ready == 0
    act(queue)
    assert queue.backlog().ready == 1
    message = queue.claim().message
    assert (message.payload, message.expires) == ("x", "")
    assert dict(message.headers) == headers | ({"by": "me"} if act is edited else {})


def test_what_an_operator_runs_now_does_not_expire_any_more(world: World) -> None:
    queue = opened(world)
    ids = [queue.publish(text, delay=600, expires=0.001, headers={"a": text}).id for text in "xy"]
    time.sleep(0.002)
    assert queue.admin.run_now(ids[0])
    assert queue.claim().message.headers == {"a": "x"}
    assert queue.stats()[:5] == (0, 1, 1, 1, 0)


def test_at_most_max_dead_letters_are_kept_by_the_setting_of_the_queue(world: World) -> None:
    events: list[Any] = []
    queue = opened(world)
    queue.admin.configure(max_dead=3)
    queue.publish_many(map(str, range(1_700)), expires=60)
    let_expire(world)
    other = world.queue(config=LeasedConfig(max_dead=9), on_event=events.append)
    assert other.claim() is None
    assert dead(queue) == ["1697", "1698", "1699"]
    assert sum(event.count for event in events if event.operation == "drop") == 1_697
    assert sum(event.count for event in events if event.operation == "dead") == 1_700


@pytest.mark.parametrize("reading", ["backlogs", "read_all"])
def test_a_reading_of_many_queues_moves_what_expired_and_keeps_as_many_as_each_of_them_stores(
    world: World, reading: str
) -> None:
    for name, most in (("one", 1), ("two", 2)):
        queue = opened(world, name=name)
        queue.admin.configure(max_dead=most)
        queue.publish_many(["x"] * 700, expires=60)
        queue.publish("y")
        let_expire(world, name)
    configs = dict.fromkeys(("one", "two"), LeasedConfig())
    if reading == "backlogs":
        assert [seen.ready for seen in backlogs(world.url, configs, configs["one"]).values()] == [1, 1]
    else:
        found: Any = asyncio.run(read_all(world.url, configs))
        assert [(seen.stats.ready, seen.stats.dead, seen.expired) for seen in found.values()] == [(1, 1, 0), (1, 2, 0)]
    assert [world.queue(name).stats()[:5] for name in configs] == [(1, 0, 0, 0, 1), (1, 0, 0, 0, 2)]


def test_a_doorbell_does_not_ring_for_what_expired(world: World) -> None:
    queue = opened(world)
    queue.publish_many(["x"] * 5, expires=60)
    let_expire(world)

    async def rung(seconds: float) -> Any:
        async with WaitHub(world.url) as hub:
            return await hub.wait("q", timeout=seconds)

    with pytest.raises(TimeoutError):
        asyncio.run(rung(0.3))
    assert queue.stats().dead == 5
    queue.publish("y", expires=60)
    assert asyncio.run(rung(60)).ready == 1


def test_a_redis_message_queue_gets_what_has_not_expired(world: World) -> None:
    queue = opened(world)
    queue.publish("old", expires=60)
    queue.publish("new")
    let_expire(world)
    gateway = RedisMessageQueue("q", client=world.client)
    with gateway.process_message() as message:
        assert message == b"new"
    assert dead(queue) == ["old"]


def test_a_client_that_dies_after_it_found_expired_messages_leaves_the_telling_to_the_next(world: World) -> None:
    told: list[Any] = []
    queue, other = opened(world), world.queue(on_event=told.append)
    queue.publish("x", expires=60)
    let_expire(world)
    lose_answer(queue, SystemExit())
    with pytest.raises(SystemExit):
        queue.claim()
    assert queue.stats().dead == 1
    assert other.claim() is None
    assert [event.operation for event in told] == ["dead"]
    assert not world.client.exists(key("overdue"))


def test_a_lost_reply_neither_publishes_twice_nor_tells_twice(world: World) -> None:
    told: list[Any] = []
    queue = opened(world)
    rough = world.queue(on_event=told.append)
    rough.backlog()
    lose_answer(rough, redis.ConnectionError("cut"))
    rough.publish("x", expires=60)
    assert queue.stats().ready == 1
    let_expire(world)
    lose_answer(rough, redis.ConnectionError("cut"))
    assert rough.claim() is None
    assert dead(queue) == ["x"]
    assert [event.operation for event in told] == ["publish", "dead"]


def test_a_full_queue_has_room_again_when_messages_expire(world: World) -> None:
    queue = opened(world, max_ready=1_200)
    queue.publish_many(["old"] * 1_200, expires=60)
    with pytest.raises(QueueFull):
        queue.publish("new")
    let_expire(world)
    queue.publish("new")
    assert queue.publish_many(["new"] * 1_199).accepted == 1_199
    queue.admin.purge("ready")
    queue.publish_many(["old"] * 1_200, expires=60)
    stage = queue.stage(["staged"] * 1_200)
    let_expire(world)
    assert queue.publish_staged([stage])
    assert drain(queue) == ["staged"] * 1_200
    assert len(dead(queue)) == 2_400


def test_a_publisher_that_waits_for_room_goes_on_when_messages_expire(world: World) -> None:
    queue = opened(world, max_ready=1, overflow=Overflow.BLOCK(60))
    queue.publish("old", expires=0.05)
    assert queue.publish("new").accepted
    assert drain(queue) == ["new"]


def test_messages_expire_also_when_they_were_staged_exported_or_published_before_the_groups(world: World) -> None:
    queue = opened(world)
    queue.publish_staged([queue.stage(["plain"], group="g", expires=0.02)])
    queue.publish_staged([queue.stage([NewMessage("mixed", delay=0.001, expires=0.02), "kept"])])
    queue.admin.configure(reset="groups")
    time.sleep(0.03)
    assert queue.backlog().ready >= 2, "a queue without groups keeps the header and ignores it"
    eventually(lambda: queue.backlog().ready == 3)
    queue.admin.configure(groups="exclusive")
    assert drain(queue) == ["kept"]
    assert sorted(dead(queue)) == ["mixed", "plain"]


def test_a_large_claim_that_is_filled_in_chunks_gets_nothing_that_expires_meanwhile(world: World) -> None:
    queue = opened(world)
    queue.publish_many(["short"] * 5_000, group="a", expires=60)
    queue.publish_many(["long"] * 5_000, group="b")
    driver, seen = driver_of(queue), 0
    perform = driver.perform

    def between(want: Any, patience: Any) -> Any:
        nonlocal seen
        if getattr(getattr(want, "script", None), "name", "") == "leased/fill":
            seen += 1
            if world.client.exists(key("expiring")):
                let_expire(world)
        return perform(want, patience)

    driver.perform = between
    lease = queue.claim(max_messages=9_000)
    assert seen
    found = payloads(queue.messages(lease))
    assert found.count("short") <= 4_000
    rest = drain(queue)
    assert "short" not in rest
    assert found.count("long") + len(rest) == 5_000
    assert found.count("short") + len(dead(queue)) == 5_000


def test_a_publication_ends_when_its_last_message_expires(world: World) -> None:
    queue, other = opened(world), world.queue()
    queue.publish_many(["a", "b", "c"], publication="day", expires=60)
    queue.ack(queue.claim())
    waiting = world.in_background(other.publication, "day", wait=60)
    eventually(lambda: world.client.zcard(key("watchers")))
    let_expire(world)
    assert queue.backlog().ready == 0
    found = waiting.result(60)
    assert (found.done, found.acked, found.dead) == (True, 1, 2)
    queue.publish("d", publication="day", expires=60)
    assert not queue.publication("day").done
    let_expire(world)
    assert queue.publication("day").done, "a look at the publication is one at what expired"
    assert queue.admin.redrive(1) == 1
    assert queue.publication("day")[2:6] == (1, 0, 1, 2)


def test_cancelled_and_purged_messages_do_not_expire(world: World) -> None:
    queue = opened(world)
    ids = queue.publish_many(["a", "b", "c"], expires=60).ids
    assert queue.admin.cancel(ids[1])
    assert world.client.zcard(key("expiring")) == 2
    let_expire(world)
    assert queue.backlog().ready == 0
    assert dead(queue) == ["a", "c"]
    queue.publish("d", expires=60)
    assert queue.admin.purge("ready") == 1
    assert not world.client.exists(key("expiring"))


def test_a_handler_that_passes_headers_on_passes_the_time_on(world: World) -> None:
    queue = opened(world)
    queue.publish("a", expires=60)
    first = queue.claim().message
    queue.publish("b", headers=first.headers)
    assert queue.claim().message.expires == first.expires
    plain = world.queue("plain")
    plain.publish("c", headers=first.headers)
    assert plain.claim().message.expires == first.expires


def test_a_queue_without_groups_refuses_a_time_and_says_what_to_do(world: World) -> None:
    queue = world.queue()
    calls = [
        lambda: queue.publish("x", expires=60),
        lambda: queue.publish_many(["x"], expires=60),
        lambda: queue.publish_many([NewMessage("x", expires=60)]),
        lambda: queue.stage(["x"], expires=60),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=r"expires: .*configure\(groups='fair'\)"):
            call()
    assert queue.stats().ready == 0
    queue.admin.configure(groups="fair")
    for call in calls:
        call()


NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001  it is to be refused


@pytest.mark.parametrize("expires", [0, -1, True, NAIVE, datetime(9999, 1, 1, tzinfo=UTC), 1e12, "1h"])
def test_another_time_is_refused(world: World, expires: Any) -> None:
    queue = opened(world)
    with pytest.raises((ConfigurationError, PayloadError), match="expires"):
        queue.publish("x", expires=expires)
    with pytest.raises(PayloadError, match="rmq-expires"):
        queue.publish("x", headers={"rmq-expires": str(expires)})
    assert queue.stats().ready == 0
