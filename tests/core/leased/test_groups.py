"""Messages that wait in groups: who is served next, what an exclusive group promises, and changes on a live queue."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rmq_core import LeasedConfig, LeasedQueue, Match
from rmq_core.errors import ConfigurationError, PayloadError
from rmq_core.exchange import Command
from rmq_core.messages import Isolation, NewMessage
from rmq_core.reports import GroupStats
from tests.core.leased.groups import POLICIES, Groups
from tests.core.leases import drain, driver_of, engine_of, eventually, key, payloads
from tests.core.worlds import World


@pytest.mark.parametrize("policy", POLICIES)
def test_random_calls_keep_order_and_limits_and_lose_nothing(world: World, policy: str, full_faults: bool) -> None:
    for seed in range(40 if full_faults else 4):
        world.client.flushdb()
        Groups(world, f"{policy} {seed}", policy).run(250 if full_faults else 120)


def test_a_policy_changes_on_a_live_queue_and_nothing_is_lost(world: World, full_faults: bool) -> None:
    for seed in range(60 if full_faults else 6):
        world.client.flushdb()
        groups = Groups(world, f"changes {seed}", None, counted=seed % 2 == 1)
        for policy in groups.chance.sample([None, *POLICIES], 4):
            for _ in range(30):
                groups.chance.choice(
                    [groups.publish, groups.publish_unique, groups.claim, groups.ack, groups.some, groups.expire]
                )()
            groups.set_policy(policy)
            groups.audit()
        groups.finish()


@pytest.mark.parametrize("change", [(None, "exclusive"), ("exclusive", "fair"), ("exclusive", None)])
def test_whoever_changes_groups_may_die_after_any_request(
    world: World, change: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = change
    for requests in itertools.count():
        world.client.flushdb()
        queue, other = (world.queue(config=LeasedConfig(lease=None)) for _ in range(2))
        configure(queue, before)
        texts = [f"{group}{number}" for group in "ab" for number in range(1200)]
        for group in "ab":
            queue.publish_many([text for text in texts if text[0] == group], group=group)
        lease = queue.claim(max_messages=3)
        died = stopped_after(queue, requests, partial(configure, queue, after))
        for name in publications(world):
            world.client.zadd(key("leases"), {name: 1}, xx=True)
        other.publish("new", group="c")
        other.ack(lease)
        assert sorted([*payloads(lease.messages), *drain(other)]) == sorted([*texts, "new"]), requests
        assert other.stats()[:4] == (0, 0, 0, 0)
        if not died:
            return


@pytest.mark.parametrize("name", ["publish", "publish_many", "claim", "ack", "backlog"])
def test_a_call_that_meets_the_one_line_between_two_policies_is_sent_again(world: World, name: str) -> None:
    """When the client reads why it failed, the queue has groups again."""
    queue = world.queue()
    configure(queue, "fair")
    queue.publish_many(["1", "2"], group="a")
    lease = queue.claim()
    calls: dict[str, Callable[[], Any]] = {
        "publish": lambda: queue.publish("x", group="a"),
        "publish_many": lambda: queue.publish_many(["x"] * 300, group="a"),
        "claim": lambda: queue.claim(wait=5),
        "ack": lambda: queue.ack(lease),
        "backlog": queue.backlog,
    }
    driver, met = driver_of(queue), 0
    perform = driver.perform
    with LeasedQueue(world.url, "q") as other:

        def late(want: Any, patience: Any) -> Any:
            nonlocal met
            if isinstance(want, Command) and not met:
                met += 1
                configure(other, "fair")
            return perform(want, patience)

        driver.perform = late
        configure(other, None)
        assert calls[name]()
    assert met == 1
    assert sum(queue.stats()[:3]) == {"publish": 3, "publish_many": 302, "ack": 1}.get(name, 2)


def configure(queue: Any, groups: str | None) -> None:
    if groups is None:
        queue.admin.configure(reset="groups")
    else:
        queue.admin.configure(groups=groups)


def publications(world: World) -> list[bytes]:
    return [name for name in world.client.zrange(key("leases"), 0, -1) if name.startswith(b"~+")]


def stopped_after(queue: Any, requests: int, call: Callable[[], Any]) -> bool:
    """Call, and let the client die after so many requests; return whether it did."""
    driver, left = driver_of(queue), requests
    perform = driver.perform

    def mortal(want: Any, patience: Any) -> Any:
        nonlocal left
        if left == 0:
            raise Death
        left -= 1
        return perform(want, patience)

    driver.perform = mortal
    try:
        call()
    except Death:
        return True
    else:
        return False
    finally:
        del driver.perform


class Death(BaseException):
    """What ends a client between two requests."""


def test_a_tenant_with_one_message_is_served_beside_one_with_many(world: World) -> None:
    queue = world.queue()
    configure(queue, "fair")
    queue.publish_many(map(str, range(5000)), group="backfill")
    for size, place in ((1, 1), (10, 9), (1000, 999)):
        queue.ack(queue.claim(max_messages=size))
        queue.publish("today", group="small")
        first, second = queue.claim(max_messages=size), queue.claim(max_messages=size)
        found = [*payloads(first.messages), *payloads(second.messages)]
        assert found.index("today") <= place
        for lease in (first, second):
            queue.ack(lease)


def test_weights_are_shares(world: World) -> None:
    queue = world.queue()
    configure(queue, 'fair {"gold": 5, "silver": 2}')
    for group in ("gold", "silver", "other"):
        queue.publish_many([group] * 2000, group=group)
    for size in (1, 8, 100):
        found: Counter[str] = Counter()
        while found.total() < 800:
            lease = queue.claim(max_messages=size)
            found.update(payloads(lease.messages))
            queue.ack(lease)
        for group, share in (("gold", 500), ("silver", 200), ("other", 100)):
            assert abs(found[group] - share) <= 8, (size, found)


def test_a_waiting_consumer_gets_a_group_as_soon_as_its_holder_ends(world: World) -> None:
    queue, other = world.queue(), world.queue()
    configure(queue, "exclusive")
    for end in (queue.ack, queue.release, lambda lease: queue.nack(lease, delay=0.05)):
        queue.publish_many(["1", "2"], group="table")
        lease = queue.claim()
        waiting = world.in_background(other.claim, wait=60)
        eventually(lambda: world.client.zcard(key("waiters")))
        end(lease)
        assert waiting.result(10).message.group == "table"
        other.ack(waiting.result())
        drain(queue)


def test_poison_in_a_group_is_found_and_stops_no_other_message(world: World) -> None:
    for policy in ("fair", "exclusive"):
        queue = world.queue(policy, LeasedConfig(max_deliveries=3))
        configure(queue, policy)
        for group in "abc":
            queue.publish_many([f"{group}{number}" for number in range(20)], group=group)
        done: list[str] = []
        for _ in range(60):
            lease = queue.claim(max_messages=30)
            if lease is None:
                break
            found = payloads(lease.messages)
            if "b7" in found:
                queue.nack(lease)
            else:
                queue.ack(lease)
                done += found
        assert len(done) == 59
        assert payloads(queue.admin.dead_letters(9)) == ["b7"]
        if policy == "exclusive":
            assert all([text for text in done if text[0] == group] == sorted_of(done, group) for group in "abc")


def sorted_of(texts: list[str], group: str) -> list[str]:
    return sorted((text for text in texts if text[0] == group), key=lambda text: int(text[1:]))


def test_isolated_messages_whose_group_has_rested_are_claimed_as_such(world: World) -> None:
    queue = world.queue()
    configure(queue, "exclusive")
    for number in range(4):
        queue.publish(str(number), group="g")
    queue.nack(queue.claim(max_messages=4))
    queue.nack(queue.claim(max_messages=4), delay=0.01)
    queue.publish("other", group="h")
    other = queue.claim()
    eventually(lambda: may_be_claimed(queue, "g"))
    lease = queue.claim_next(ack=other)
    assert payloads(lease.messages) == ["0"]
    assert lease.isolation == Isolation(2, 2)
    queue.nack(lease, delay=0.01)
    eventually(lambda: may_be_claimed(queue, "g"))
    assert queue.claim(max_messages=4).isolation == Isolation(2, 1)


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
def test_isolated_messages_of_groups_are_shown_searched_and_purged_by_whoever_comes_new(
    world: World, policy: str
) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=9))
    configure(queue, policy)
    for group in "ab":
        queue.publish_many([f"{group}{number}" for number in range(8)], group=group)
        for _ in range(2):
            queue.nack(queue.claim(max_messages=8, groups=[group]))
    queue.publish_many([f"c{number}" for number in range(1200)], group="c")
    queue.publish("z", group="a")
    held = queue.claim(groups=["a"], max_messages=8)
    assert held.count == 4
    texts = {f"{group}{number}" for group in "ab" for number in range(8)}
    left = sorted(texts - set(payloads(queue.messages(held))))

    def new() -> Any:
        return world.queue()

    page = new().admin.browse("isolated", 0, 5)
    others = new().admin.browse("isolated", 5, 100)
    assert page.total == others.total == new().stats().isolated == 12  # also those whose group a lease holds
    assert sorted(payloads([*page.messages, *others.messages])) == left
    assert {message.group for message in page.messages + others.messages} == {"a", "b"}
    assert new().admin.browse("isolated", 12, 5).messages == []
    assert len({message.id for message in new().admin.peek(5000)}) == len(new().admin.peek(5000)) == 1213

    def search(state: str, text: str) -> list[str]:
        found, after = [], None
        while True:
            page = new().admin.search(state, Match(text=text), after=after)
            found += payloads(page.messages)
            if (after := page.after) is None:
                return sorted(found)

    assert search("isolated", "a") == left[:4]
    assert search("ready", "a") == []
    assert len(search("ready", "c")) == 1200
    assert new().admin.purge("isolated", where=Match(text=left[0])) == 1
    assert new().admin.cancel(next(each.id for each in page.messages + others.messages if each.payload == left[1]))
    assert new().admin.browse("isolated").total == new().stats().isolated == 10
    assert new().admin.purge("isolated") == 10
    assert new().admin.purge("isolated") == 0
    assert new().stats()[:3] == (1201, 0, 4)
    queue.ack(held)
    assert sorted(drain(queue)) == sorted([*(f"c{number}" for number in range(1200)), "z"])


def test_a_claim_has_its_messages_at_once_where_isolated_ones_wait_behind_others(world: World) -> None:
    queue = world.queue()
    configure(queue, "fair")
    queue.publish_many(["1", "2"], group="g")
    for _ in range(2):
        queue.nack(queue.claim(max_messages=2))
    queue.publish_many(["3", "4"], group="g")
    configure(queue, "exclusive")
    for group in "abcdef":
        queue.publish_many(["5", "6", "7"], group=group)
    while lease := queue.claim(max_messages=3):
        assert lease.complete, lease
        queue.ack(lease)
    assert queue.stats().ready == 0


def may_be_claimed(queue: Any, name: str) -> bool:
    return any(each.ready for each in queue.admin.groups() if each.name == name)


def test_a_claim_beside_isolated_messages_is_one_call(world: World) -> None:
    queue = world.queue(config=LeasedConfig(history=False))
    configure(queue, "fair")
    queue.publish_many(["1", "2", "3", "4"], group="a")
    for _ in range(2):
        queue.nack(queue.claim(max_messages=4))
    queue.publish_many(["5", "6"], group="b")
    found = []
    for _ in range(2):
        before = scripts_run(world)
        found.append(queue.claim(max_messages=9).isolation is None)
        assert scripts_run(world) - before == 1
    assert sorted(found) == [False, True], "isolated messages, and the others"


def scripts_run(world: World) -> int:
    return int(world.client.info("commandstats")["cmdstat_evalsha"]["calls"])


def test_groups_are_peeked_browsed_searched_cancelled_exported_and_purged(world: World) -> None:
    queue = world.queue()
    configure(queue, "exclusive")
    ids = [queue.publish(text, group=text[0]).id for text in ("a1", "a2", "b1", "b2")]
    queue.publish("later", delay=1000, group="a")
    held = queue.claim()
    assert payloads(held.messages) == ["a1"]
    assert payloads(queue.admin.peek(9)) == ["b1", "b2", "a2"]
    assert payloads(queue.admin.browse("ready", 1, 2).messages) == ["b2", "a2"]
    assert payloads(queue.admin.search("ready", Match(text="a")).messages) == ["a2"]
    assert queue.admin.cancel(ids[2])
    assert queue.admin.purge("ready", where=Match(text="b2")) == 1
    assert queue.admin.purge("ready") == 1
    assert queue.stats()[:4] == (0, 1, 1, 1)
    queue.publish("a3", group="a")
    assert queue.claim() is None, "a purge does not end what a lease holds"
    queue.ack(held)
    assert payloads(queue.claim().messages) == ["a3"]


def test_leases_from_before_a_limit_have_to_end_before_limited_groups_are_claimed(world: World) -> None:
    queue, other = world.queue(), world.queue()
    queue.publish_many(["1", "2"], group="table")
    before = queue.claim()
    configure(queue, "exclusive")
    assert other.claim() is None
    waiting = world.in_background(other.claim, wait=60)
    eventually(lambda: world.client.zcard(key("waiters")))
    queue.ack(before)
    assert payloads(waiting.result(10).messages) == ["2"]


@pytest.mark.parametrize("verb", ["cancel", "dead_letter"])
def test_a_group_does_not_rest_for_a_failed_message_that_was_taken_out(world: World, verb: str) -> None:
    queue = world.queue()
    queue.admin.configure(groups="exclusive")
    queue.publish_many(["bad", "good"], group="a")
    queue.nack(queue.claim(), delay=3600)
    assert queue.claim() is None
    assert getattr(queue.admin, verb)(queue.admin.peek()[0].id)
    assert queue.claim().message.payload == "good"


@pytest.mark.parametrize("knows", [True, False])
def test_a_queue_goes_from_groups_to_shards_in_one_call(world: World, knows: bool) -> None:
    queue = world.queue()
    queue.admin.configure(groups="exclusive", rate="9/1s")
    queue.publish_many(["a", "b", "c"], group="g")
    changing = queue if knows else world.queue()
    changing.admin.configure(shards=2, reset="groups,rate")
    assert changing.stats().ready == 3
    assert set(changing.admin.settings().stored) == {"shards"}
    assert sorted(drain(world.queue())) == ["a", "b", "c"]


def test_a_queue_that_is_forgotten_begins_anew_without_groups(world: World) -> None:
    queue = world.queue()
    queue.admin.configure(groups="exclusive", rate="1/1h")
    queue.publish("a", group="g")
    queue.ack(queue.claim())
    queue.admin.unregister()
    new = world.queue()
    new.publish_many(["b", "c"], group="g")
    assert new.claim(max_messages=1) is not None
    assert new.claim(max_messages=1) is not None
    queue.publish("d")
    assert queue.claim().message.payload == "d"


def test_the_groups_with_the_most_waiting_messages_are_listed(world: World) -> None:
    queue = world.queue()
    assert queue.admin.groups() == []
    configure(queue, "exclusive")
    for number in range(30):
        queue.publish_many(["x"] * (number + 1), group=f"g{number:02}")
    lease = queue.claim()
    assert lease.message.group == "g00"
    assert queue.admin.groups(2) == [GroupStats(name, 0, waiting, 0, True, False, None) for name, waiting in TWO]
    assert queue.admin.groups(100)[-1] == GroupStats("g00", 0, 0, 1, False, False, None)
    queue.nack(lease, delay=60)
    (found,) = (each for each in queue.admin.groups(100) if each.name == "g00")
    assert (found.waiting, found.leases, found.ready) == (1, 0, False)
    assert 50 < (found.until - queue.admin.server_time()).total_seconds() <= 60


TWO = [("g29", 30), ("g28", 29)]


def test_a_higher_priority_comes_first_and_groups_of_one_priority_take_turns(world: World) -> None:
    queue = world.queue()
    configure(queue, "fair")
    for group in "ab":
        queue.publish_many([f"{group}{number}" for number in range(3)], group=group)
        queue.publish_many([f"{group}-rerun-{number}" for number in range(2)], group=group, priority=5)
    queue.publish("now", priority=9)
    queue.publish_many([NewMessage("later", priority=1), "last"])
    reruns, rest = ["a-rerun-0", "b-rerun-0", "a-rerun-1", "b-rerun-1"], ["a0", "b0", "last", "a1", "b1", "a2", "b2"]
    assert [queue.claim().message.payload for _ in range(5)] == ["now", *reruns]
    assert payloads(queue.claim(max_messages=3).messages)[0] == "later"
    queue.publish("urgent", priority=9, group="b")
    assert payloads(queue.claim().messages) == ["urgent"]
    assert queue.claim(max_messages=9).count == len(rest) - 2
    assert queue.claim() is None
    assert queue.stats().ready == 0


def test_in_a_group_whose_order_counts_a_priority_changes_nothing(world: World) -> None:
    queue = world.queue()
    configure(queue, "exclusive")
    for priority in (0, 9):
        queue.publish(str(priority), group="table", priority=priority)
    assert drain(queue) == ["0", "9"]


@pytest.mark.parametrize("priority", [-1, 10, True, "x", 1.5])
def test_another_priority_is_refused(world: World, priority: Any) -> None:
    queue = world.queue()
    for call in (partial(queue.publish, "x"), partial(queue.publish_many, ["x"])):
        with pytest.raises(PayloadError, match="priority must be"):
            call(priority=priority)
    with pytest.raises(PayloadError, match="priority must be"):
        queue.publish("x", headers={"rmq-priority": str(priority)})


def test_a_client_that_knows_no_groups_yet_ends_a_lease_that_holds_some(world: World) -> None:
    queue, stale = world.queue(), world.queue()
    configure(queue, "exclusive")
    queue.publish_many(["1", "2"], group="table")
    lease = queue.claim(lease_id="job")
    stale.stats()
    engine_of(stale).keys.layout = ""  # as if it had asked before
    stale.ack(stale.adopt("job"))
    assert payloads(queue.claim().messages) == ["2"]
    assert lease.message.group == "table"


@pytest.mark.parametrize("end", ["ack", "nack", "release"])
def test_leases_of_groups_end_after_the_groups_are_removed(world: World, end: str) -> None:
    queue, stale = world.queue(), world.queue()
    configure(queue, "exclusive")
    queue.publish_many(["1", "2"], group="table")
    lease, adopted = stale.claim(), None
    queue.publish("3", group="other")
    adopted = stale.claim(lease_id="job")
    configure(queue, None)
    getattr(stale, end)(lease)
    getattr(stale, end)(stale.adopt(adopted.id))
    assert queue.stats()[:4] == ((1 if end == "ack" else 3), 0, 0, 0)


@pytest.mark.parametrize("config", [LeasedConfig(dedup=True), LeasedConfig(max_ready=9000), LeasedConfig()])
def test_a_publisher_of_many_chunks_learns_of_groups_on_the_way(world: World, config: LeasedConfig) -> None:
    queue, operator = world.queue(config=config), world.queue()
    queue.publish("first")
    configure(operator, "fair")
    engine_of(queue).keys.layout = ""  # as if it had asked before
    report = queue.publish_many(map(str, range(6500)), group="g")
    assert report.accepted == 6500
    assert sorted(drain(operator)) == sorted(["first", *map(str, range(6500))])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("first", "groups must be fair, exclusive or concurrent"),
        ('fair {"x": 1000}', "groups.weights\\['x'\\] must be between 0.01 and 100"),
        ("fair {x}", "write weights as JSON"),
        ("concurrent 0", "groups.concurrent must be a whole number >= 1"),
    ],
)
def test_a_wrong_policy_is_refused_and_nothing_is_changed(world: World, text: str, says: str) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(ConfigurationError, match=says):
        configure(queue, text)
    assert queue.admin.settings().stored == {}
    assert drain(queue) == ["x"]
