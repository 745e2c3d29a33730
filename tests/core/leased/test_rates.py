"""Rates of claims: in no time do claims get more than a rate allows, and nothing waits longer than it must."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import pytest

from rmq_core import LeasedConfig
from rmq_core.errors import ConfigurationError, LeaseLost
from rmq_core.messages import NewMessage
from rmq_core.policy import Rate
from tests.core.leased.groups import POLICIES, Claims, Groups
from tests.core.leases import PATIENCE_S, blocked, drain, expire, key, lose_answer, payloads
from tests.core.worlds import World

FAST = [
    {"rate": "2000/1s burst 20"},
    {"group_rate": "500/1s burst 5"},
    {"rate": "1500/1s burst 30", "group_rate": "700/1s"},
]
NEVER = "1/1h"  # in the time of a test, no token comes back


@pytest.mark.parametrize("policy", POLICIES)
def test_random_calls_exceed_no_rate_and_lose_nothing(world: World, policy: str, full_faults: bool) -> None:
    for seed in range(30 if full_faults else 3):
        world.client.flushdb()
        Groups(world, f"{policy} {seed}", policy, **FAST[seed % 3]).run(250 if full_faults else 80)


def test_rates_change_on_a_live_queue_and_nothing_is_lost(world: World, full_faults: bool) -> None:
    for seed in range(40 if full_faults else 4):
        world.client.flushdb()
        groups = Groups(world, f"rates {seed}", "fair")
        for _ in range(5):
            for _ in range(25):
                groups.chance.choice([groups.publish, groups.claim, groups.ack, groups.some, groups.expire])()
            policy = groups.policy if groups.chance.random() < 0.6 else groups.chance.choice(POLICIES)
            groups.set_policy(policy, **groups.chance.choice([{}, *FAST]))
            groups.audit()
        groups.finish()


WORKER = """
import random, sys, time
from rmq_core import LeasedConfig, LeasedQueue
with LeasedQueue(sys.argv[1], "q", LeasedConfig(lease=3600, history=False)) as queue:
    until, lease = time.monotonic() + float(sys.argv[2]), None
    while time.monotonic() < until:
        most = random.choice([1, 1, 3, 20])
        if lease and random.random() < 0.5:
            lease = queue.claim_next(ack=lease, max_messages=most)
        else:
            if lease:
                random.choice([queue.ack, queue.ack, queue.nack, queue.release])(lease)
            lease = queue.claim(max_messages=most, wait=random.choice([0, 0.05, 1]))
        if lease:
            print(lease.deadline_ms - 3600000, *[message.group for message in queue.messages(lease)], flush=True)
    if lease:
        queue.ack(lease)
"""


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_many_processes_together_exceed_no_rate(world: World, policy: str, full_faults: bool) -> None:
    seconds, rates = (8 if full_faults else 2), {"rate": "400/1s burst 20", "group_rate": "100/1s burst 4"}
    queue = world.queue(config=LeasedConfig(max_deliveries=None))
    queue.admin.configure(groups=policy, max_deliveries=None, **rates)
    queue.publish_many([NewMessage("x", group=f"g{number % 6}") for number in range(400 * seconds + 2000)])
    call = [sys.executable, "-c", WORKER, world.url, str(seconds)]
    workers = [subprocess.Popen(call, stdout=subprocess.PIPE, text=True) for _ in range(8 if full_faults else 4)]
    claims = Claims(**rates)
    for worker in workers:
        for line in worker.communicate(timeout=PATIENCE_S)[0].splitlines():
            at_ms, *groups = line.split(" ")
            claims.add(int(at_ms), groups)
    assert claims.excess() <= 0
    done = sum(count for _, count in claims.at[None])
    if policy == "fair":  # a lease of several exclusive groups keeps others from them
        assert done > 0.6 * 400 * seconds


@pytest.mark.parametrize("rates", [{"rate": "50/1s"}, {"group_rate": "50/1s"}])
def test_a_waiting_claim_sleeps_until_the_next_token(world: World, rates: dict[str, str]) -> None:
    queue = world.queue(config=LeasedConfig(history=False))
    queue.admin.configure(groups="fair", **rates)
    queue.publish_many(["x"] * 100, group="a")
    queue.ack(queue.claim())
    before, blocking, began = scripts_run(world), calls_of(world, "blpop"), time.monotonic()
    for _ in range(20):
        queue.ack(queue.claim(wait=60))
    took, calls = time.monotonic() - began, scripts_run(world) - before
    assert calls <= 3 * 20 + 10, "for each message: two claims and an ack"
    assert took > 19 / 50
    assert calls_of(world, "blpop") == blocking, "an idle server would end it too late"


def scripts_run(world: World) -> int:
    return calls_of(world, "evalsha")


def calls_of(world: World, command: str) -> int:
    return int(world.client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def test_of_many_waiting_claims_one_wakes_for_each_token_and_all_get_a_message(world: World) -> None:
    silent = LeasedConfig(history=False)
    queue = world.queue(config=silent)
    queue.admin.configure(groups="fair", rate="20/1s")
    waiting = [world.in_background(world.queue(config=silent).claim, wait=PATIENCE_S) for _ in range(8)]
    blocked(world, 8)
    before, began = scripts_run(world), time.monotonic()
    queue.publish_many(["x"] * 20, group="a")
    assert all(each.result(PATIENCE_S).count == 1 for each in waiting)
    took = time.monotonic() - began
    assert 7 / 20 - 0.01 < took < 7 / 20 + 4, "no waiter slept until its next poll"
    assert scripts_run(world) - before <= 3 * 8 + 8 * (took // 5)


def test_messages_that_no_token_is_left_for_wake_no_waiting_claim(world: World) -> None:
    queue = world.queue(config=LeasedConfig(history=False))
    queue.admin.configure(groups="fair", rate="1/1h")
    queue.publish("x", group="a")
    queue.claim(lease=7200)
    queue.publish("y", group="a")
    queue.publish("later", delay=1)
    waiting = world.in_background(world.queue(config=LeasedConfig(history=False)).claim, wait=PATIENCE_S)
    blocked(world, 1)
    due_ms = int(world.client.get(key("timer")).split()[0])
    assert due_ms / 1000 > queue.admin.server_time().timestamp() + 3000, "when the next token comes"
    before, began = scripts_run(world), time.monotonic()
    for _ in range(5):
        queue.publish("z", group="b")
        queue.publish_many(["z"] * 3)
    time.sleep(0.1)
    assert scripts_run(world) - before <= 10 + 1 + (time.monotonic() - began) // 5, "and a poll every 5 s"
    queue.admin.configure(rate="50/1s")
    assert waiting.result(PATIENCE_S).count == 1


def test_a_claim_that_takes_the_last_token_wakes_who_is_to_sleep_until_the_next(world: World) -> None:
    """Without that wake-up, a waiting claim would poll within five seconds, and get its message too, late."""
    queue = world.queue(config=LeasedConfig(lease=None))
    queue.admin.configure(groups="fair", rate="1/1m")
    now = int(queue.admin.server_time().timestamp() * 1000)
    world.client.zadd(key("waiters"), {"waiter": now + 3_600_000})
    for due, woken in ((3_600_000, 1), (10_000, 0)):  # when the present timer ends
        queue.publish_many(["1", "2"], group="a")
        world.client.delete(key("wake"), key("buckets"))
        world.client.set(key("timer"), f"{now + due} waiter")
        assert queue.claim().count == 1
        assert world.client.llen(key("wake")) == woken


def test_a_change_of_a_rate_ends_no_rest_after_a_failure(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="exclusive", rate="1000/1s")
    queue.publish_many(["1", "2"], group="table")
    queue.nack(queue.claim(), delay=60)
    queue.admin.configure(rate="500/1s")
    assert queue.claim(wait=0.05) is None
    (found,) = queue.admin.groups()
    assert 50 < (found.until - queue.admin.server_time()).total_seconds() < 61


@pytest.mark.parametrize("name", ["rate", "group_rate"])
@pytest.mark.parametrize("after", ["100/1s", None])
def test_a_raise_wakes_waiting_claims_at_once(world: World, name: str, after: str | None) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", **{name: NEVER})
    queue.publish_many(["1", "2", "3"], group="a")
    queue.ack(queue.claim())
    waiting = [world.in_background(world.queue().claim, wait=PATIENCE_S) for _ in range(2)]
    blocked(world, 2)
    began = time.monotonic()
    queue.admin.configure(**{name: after})
    assert {each.result(PATIENCE_S).message.payload for each in waiting} == {"2", "3"}
    assert time.monotonic() - began < 4, "earlier than the poll every 5 s"


def test_a_rate_that_is_lowered_stops_no_group_that_has_a_token(world: World) -> None:
    """More groups in front have none than a single call lets rest."""
    queue, names = world.queue(), [f"g{number}" for number in range(3500)]
    queue.admin.configure(groups="fair", group_rate="1/1d burst 2")
    queue.publish_many([NewMessage("x", group=name) for name in names])
    lease = queue.claim(max_messages=3500)
    assert lease.count == 3500
    queue.ack(lease)
    queue.publish_many([NewMessage("x", group=name) for name in names])
    assert queue.backlog().ready == 3500
    queue.admin.configure(group_rate="1/1d")
    queue.publish("y", group="last")
    began = time.monotonic()
    assert queue.claim(wait=PATIENCE_S).message.payload == "y"
    assert time.monotonic() - began < 4, "earlier than the poll every 5 s"
    assert queue.claim() is None
    assert (queue.backlog().ready, queue.stats().ready) == (0, 3500)


def test_priorities_and_isolated_messages_of_a_group_share_its_tokens(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=9))
    queue.admin.configure(groups="fair", group_rate=f"{NEVER} burst 10")
    for group in "ab":
        queue.publish_many([f"{group}{number}" for number in range(6)], group=group)
        queue.publish_many([f"{group}-urgent-{number}" for number in range(6)], group=group, priority=5)
    for _ in range(2):
        lease = queue.claim(max_messages=4)
        assert [message.group for message in lease.messages].count("a") == 2
        queue.nack(lease)  # twice: from now on these four are isolated
    found: list[Any] = []
    while lease := queue.claim(max_messages=50):
        found += [message.group for message in queue.messages(lease)]
    assert sorted(found) == ["a"] * 6 + ["b"] * 6, "four of the ten tokens of each were spent before"
    assert queue.backlog().ready == 0
    assert queue.stats().ready == 12


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_isolated_messages_wait_for_tokens_too(world: World, policy: str) -> None:
    queue = world.queue()
    queue.admin.configure(groups=policy, group_rate=f"{NEVER} burst 9")
    queue.publish_many(["1", "2", "3", "4"], group="a")
    for _ in range(2):
        queue.nack(queue.claim(max_messages=4))
    lease = queue.claim(max_messages=4)
    assert (lease.count, lease.isolation.failures) == (1, 2)
    queue.ack(lease)
    assert queue.claim(max_messages=4) is None
    assert (queue.backlog().ready, queue.stats().ready) == (0, 3)


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_what_comes_back_brings_no_token_and_a_takeover_takes_none(world: World, policy: str) -> None:
    queue = world.queue()
    queue.admin.configure(groups=policy, group_rate=f"{NEVER} burst 4", rate=f"{NEVER} burst 5")
    queue.publish_many(["1", "2"], group="a")
    queue.publish_many(["3"])
    queue.release(queue.claim(max_messages=2, lease_id="job"))
    lease = queue.claim(lease_id="job")
    again = queue.claim(lease_id="job")
    assert payloads(queue.messages(again)) == payloads(queue.messages(lease))
    queue.ack(queue.adopt("job"))
    lease = queue.claim()
    expire(world, lease.id)
    queue.backlog()
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert queue.claim().count == 1
    assert queue.claim() is None
    assert queue.stats().ready == 1


def test_a_claim_whose_reply_is_lost_takes_its_tokens_once(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", rate=f"{NEVER} burst 3")
    queue.publish_many(["1", "2", "3", "4"], group="a")
    queue.release(queue.claim())
    lose_answer(queue, ConnectionResetError("reset"))
    assert payloads(queue.claim().messages) == ["1"]
    assert payloads(queue.claim(max_messages=9).messages) == ["2"]
    assert queue.claim() is None


def test_a_group_that_is_emptied_and_filled_again_has_no_more_tokens(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", group_rate=f"{NEVER} burst 2")
    for _ in range(2):
        queue.publish("x", group="a")
        queue.ack(queue.claim())
    queue.publish("x", group="a")
    queue.publish("y")
    assert payloads(queue.claim(max_messages=9).messages) == ["y"]
    queue.admin.purge("ready")
    queue.publish("x", group="a")
    assert queue.claim() is None


def test_a_full_bucket_takes_no_memory(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", group_rate="1000/1s")
    for group in "abc":
        queue.publish(group, group=group)
        queue.ack(queue.claim())
        time.sleep(0.01)
    assert world.client.zrange(key("buckets"), 0, -1) == [b"c"]
    assert 0 < world.client.pttl(key("buckets")) < 2000
    queue.admin.configure(group_rate=f"{NEVER} burst 2")
    queue.publish("a", group="a")
    queue.ack(queue.claim())
    assert world.client.pttl(key("buckets")) > 3_600_000


def test_a_clock_that_is_set_back_stops_no_claims(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", rate="20/1s burst 2", group_rate="20/1s burst 2")
    queue.publish_many(["x"] * 9, group="a")
    queue.ack(queue.claim())
    for bucket, _ in world.client.zrange(key("buckets"), 0, -1, withscores=True):
        world.client.zadd(key("buckets"), {bucket: (time.time() + 3600) * 1_000_000})
    assert queue.claim() is None
    began = time.monotonic()
    assert queue.claim(wait=PATIENCE_S).count == 1
    assert time.monotonic() - began < 3


def test_weights_are_shares_of_a_rate(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups='fair {"gold": 3}', rate=f"{NEVER} burst 400")
    for group in ("gold", "other"):
        queue.publish_many([group] * 500, group=group)
    found: list[Any] = []
    for size in (1, 1, 1, 1, 8, 100, 400):
        found += payloads(queue.messages(queue.claim(max_messages=size)))
    assert len(found) == 400
    assert abs(found.count("gold") - 300) <= 2


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_poison_is_found_and_all_else_is_done_under_a_rate(world: World, policy: str) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=3))
    queue.admin.configure(groups=policy, rate="2000/1s burst 10", group_rate="1000/1s burst 6")
    for group in "abc":
        queue.publish_many([f"{group}{number}" for number in range(20)], group=group)
    done: list[str] = []
    while lease := queue.claim(max_messages=30, wait=1):
        found = payloads(queue.messages(lease))
        assert len(found) <= 10
        if "b7" in found:
            queue.nack(lease)
        else:
            queue.ack(lease)
            done += found
    assert len(done) == 59
    assert payloads(queue.admin.dead_letters(9)) == ["b7"]


@pytest.mark.parametrize("rates", [{"rate": f"{NEVER} burst 9000"}, {"group_rate": f"{NEVER} burst 9000"}])
def test_a_large_lease_gets_as_many_as_its_rate_allows(world: World, rates: dict[str, str]) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", **rates)
    queue.publish_many(map(str, range(12_000)), group="a")
    lease = queue.claim(max_messages=20_000)
    assert lease.count == 9000
    assert payloads(queue.messages(lease)) == [str(number) for number in range(9000)]
    assert queue.claim(max_messages=20_000) is None
    queue.ack(lease)


def test_what_counts_as_backlog_is_what_claims_may_get_now(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", group_rate=f"{NEVER} burst 3")
    for group, count in (("a", 9), ("b", 2), (None, 9)):
        queue.publish_many(["x"] * count, group=group, priority=5 if group == "a" else None)
    queue.publish_many(["x"] * 4, group="a")
    assert queue.backlog().ready == 3 + 2 + 9
    queue.admin.configure(rate=f"{NEVER} burst 8")
    assert queue.backlog().ready == 8
    assert queue.claim(max_messages=3).count == 3
    assert queue.backlog().ready == 5
    queue.admin.configure(rate=None)
    assert queue.backlog().ready == 2 + 9, "the three of `a` are gone"
    assert queue.stats().ready == 24 - 3


def test_operators_see_until_when_a_group_rests(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", group_rate="1/1m")
    for group in "ab":
        queue.publish_many([group] * 3, group=group)
    queue.claim()
    spent, other = sorted(queue.admin.groups(), key=lambda group: group.ready)
    assert (spent.waiting, spent.ready, other.ready, other.until) == (2, False, True, None)
    assert 50 < (spent.until - queue.admin.server_time()).total_seconds() < 61
    queue.admin.configure(rate="1/1h", group_rate=None)
    queue.claim()
    for group in queue.admin.groups():
        assert not group.ready
        assert 3500 < (group.until - queue.admin.server_time()).total_seconds() < 3601


def test_claim_next_acks_although_no_token_is_left(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="exclusive", rate="20/1s burst 2")
    queue.publish_many(["1", "2", "3", "4"], group="a")
    lease = queue.claim()
    lease = queue.claim_next(ack=lease)
    assert lease.message.payload == "2"
    assert queue.claim_next(ack=lease) is None
    assert queue.stats().leases == 0
    assert queue.claim(wait=PATIENCE_S).message.payload == "3"


def test_process_keeps_to_the_rate(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", rate=f"{NEVER} burst 2")
    queue.publish_many(["1", "2", "3"])
    handled: list[Any] = []
    for _ in range(3):
        with queue.process(max_messages=1) as batch:
            handled += payloads(batch)
    assert handled == ["1", "2"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rate": "50/1m"}, "rate needs a policy of groups: configure\\(groups='fair', rate='50/1m'\\)"),
        ({"groups": "fair", "group_rate": "50"}, "group_rate: rate must be as 50/1m, or 50/1m burst 10, not '50'"),
        ({"groups": "fair", "rate": "0/1m"}, "rate: rate.count must be a whole number >= 1"),
        ({"groups": "fair", "rate": "1/1s burst 0"}, "rate.burst must be a whole number >= 1"),
        ({"groups": "fair", "rate": "200000/1s"}, "at most 100,000 messages a second"),
        ({"groups": "fair", "rate": "1/365d burst 1000"}, "its burst at most those of 1000000000 seconds"),  # 31 years
        ({"groups": "fair", "rate": 5}, "rate must be as 50/1m"),
    ],
)
def test_a_wrong_rate_is_refused_and_nothing_is_changed(world: World, settings: dict[str, Any], says: str) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(ConfigurationError, match=says):
        queue.admin.configure(**settings)
    assert queue.admin.settings().stored == {}
    assert drain(queue) == ["x"]


def test_the_policy_is_removed_only_together_with_its_rates(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(["groups=fair", "rate=50/1m burst 10"])
    assert queue.admin.settings().in_force["rate"] == Rate(50, timedelta(minutes=1), burst=10)
    assert world.client.get(key("ready")) == b"0 rate=1200000*10"
    with pytest.raises(ConfigurationError, match="reset both together"):
        queue.admin.configure(reset="groups")
    queue.publish_many(["x"] * 20)
    assert queue.claim(max_messages=20).count == 10
    queue.admin.configure(reset="groups,rate")
    assert queue.claim(max_messages=20).count == 10
    assert queue.stats().ready == 0


def test_nobody_chooses_groups_where_claims_are_limited_in_time(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="fair", group_rate="1/1s")
    queue.publish("x", group="a")
    for call in (
        lambda: queue.claim(groups=["a"]),
        lambda: queue.claim(groups=["a"], wait=9),
        lambda: queue.backlog(groups=["a"]),
    ):
        with pytest.raises(ConfigurationError, match=r"or a rate; it needs.*reset=\['rate', 'group_rate'\]"):
            call()
    queue.admin.configure(reset="group_rate")
    assert queue.claim(groups=["a"]).message.payload == "x"
