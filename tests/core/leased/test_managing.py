"""What operators can do to a queue, and what they can see of it."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter
from typing import Any

import pytest

import rmq_core
import rmq_core.asyncio
from rmq_core import ConfigurationError, LeasedConfig, NewMessage, PayloadError, QueueUnavailable
from rmq_core.reports import QueueStats
from tests.core.leases import drain, eventually, expire, fall_due, key, payloads, snapshot
from tests.core.worlds import World


def bury(queue: Any, *doomed: str) -> None:
    """Make dead letters; the queue allows one delivery."""
    queue.publish_many(doomed)
    for _ in doomed:
        queue.nack(queue.claim(owner="worker"), reason="broken")


@pytest.fixture
def once(world: World) -> Any:
    """A queue that delivers once."""
    return world.queue(config=LeasedConfig(max_deliveries=1))


def test_a_paused_queue_delivers_nothing_and_supports_everything_else(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    lease = queue.claim(lease_id="job", max_messages=2)
    queue.admin.pause()
    queue.admin.pause()
    assert queue.stats().paused
    assert (queue.claim(), world.queue().claim(wait=0.02)) == (None, None)
    assert queue.publish("d").accepted
    again = queue.claim(lease_id="job")
    assert payloads(queue.messages(again)) == ["a", "b"]
    assert lease.token != again.token
    assert queue.ack(again).settled == 2
    assert queue.backlog().ready == 2
    queue.admin.resume()
    queue.admin.resume()
    assert not queue.stats().paused
    assert drain(queue) == ["c", "d"]


def test_a_pause_outlives_waiting_claims_and_inspections(world: World) -> None:
    queue = world.queue()
    queue.admin.pause()
    assert queue.claim(wait=0.02) is None
    queue.backlog()
    assert world.queue().stats().paused


def test_ready_and_delayed_messages_can_be_cancelled(world: World) -> None:
    queue = world.queue()
    ready = queue.publish_many(map(str, range(2_500))).ids
    delayed = queue.publish("later", delay=60).id
    chosen = [ready[0], ready[1_234], ready[-1], delayed]
    assert [queue.admin.cancel(chosen_id) for chosen_id in chosen] == [True] * 4
    assert [queue.admin.cancel(chosen_id) for chosen_id in [*chosen, "unknown"]] == [False] * 5
    assert queue.stats()[:2] == (2_497, 0)
    assert drain(queue) == [str(n) for n in range(2_500) if n not in (0, 1_234, 2_499)]


def test_of_ready_messages_with_one_id_the_newest_is_cancelled(world: World) -> None:
    queue = world.queue()
    queue.publish_many([NewMessage(payload, id="twin") for payload in ("a", "b", "b")] + ["c"])
    assert queue.admin.cancel("twin")
    assert drain(queue) == ["a", "b", "c"]
    queue.publish_many([NewMessage("x", id="twin"), "y", NewMessage("x", id="twin")])
    assert queue.admin.cancel("twin")
    assert drain(queue) == ["x", "y"]


def by_customer(payload: Any) -> str:
    return str(payload["customer"])


@pytest.mark.parametrize("config", [LeasedConfig(dedup=True), LeasedConfig(dedup_key=by_customer)])
@pytest.mark.parametrize("delay", [None, 60])
def test_a_cancelled_deduplicated_message_can_be_published_again(
    world: World, config: LeasedConfig, delay: float | None
) -> None:
    queue, order = world.queue(config=config), {"customer": "Ada", "books": ["Möbius"]}
    cancelled = queue.publish(order, delay=delay).id
    kept = queue.publish({"customer": "Bob"}, delay=delay)
    assert kept.accepted
    assert queue.admin.cancel(cancelled)
    assert not queue.publish({"customer": "Bob"}, delay=delay).accepted
    assert queue.publish(order).accepted
    assert order in payloads(queue.admin.peek(2))


def test_a_key_given_to_publish_is_forgotten_when_cancel_receives_it(world: World) -> None:
    queue = world.queue(config=LeasedConfig(dedup=True))
    first = queue.publish("first", dedup_key="order 7").id
    assert queue.admin.cancel(first)
    assert not queue.publish("second", dedup_key="order 7").accepted
    queue.admin.forget("order 7")
    second = queue.publish("second", dedup_key="order 7").id
    assert queue.admin.cancel(second, dedup_key="order 7")
    assert queue.publish("third", dedup_key="order 7").accepted


def test_cancelling_a_message_older_than_the_window_does_not_forget_the_key_of_another(world: World) -> None:
    queue = world.queue(config=LeasedConfig(dedup=True))
    old = queue.publish("x").id
    (envelope,) = world.client.lrange(key("ready"), 0, -1)
    deliveries, published, rest = envelope.split(b" ", 2)
    world.client.lset(key("ready"), 0, b" ".join([deliveries, b"%d" % (int(published) - 3_600_000), rest]))
    assert queue.admin.cancel(old)
    assert not queue.publish("x").accepted


@pytest.mark.parametrize("target", ["ready", "delayed", "isolated"])
def test_purged_messages_can_be_published_again(world: World, target: str) -> None:
    queue = world.queue(config=LeasedConfig(dedup=True))
    many = [f"message {number}" for number in range(600)]
    queue.publish_many(many, delay=60 if target == "delayed" else None)
    if target == "isolated":
        for _ in range(2):
            queue.nack(queue.claim(max_messages=600), delay=0)
    held = None if target != "ready" else queue.claim()
    assert queue.admin.purge(target) == 600 - bool(held)
    assert queue.publish_many(many).accepted == 600 - bool(held)


def test_each_part_of_a_queue_can_be_purged(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1, completed_log=10, failed_log=10))
    queue.publish_many(["done", "dead", "dead too"])
    queue.ack(queue.claim())
    queue.nack(queue.claim(max_messages=2))
    queue.publish_many(["a", "b", "c"])
    queue.publish_many(["d", "e"], delay=60)
    purged = {part: queue.admin.purge(part) for part in ("ready", "delayed", "dead", "completed", "failed")}
    assert purged == {"ready": 3, "delayed": 2, "dead": 2, "completed": 1, "failed": 2}
    assert {queue.admin.purge(part) for part in purged} == {0}
    assert queue.stats() == QueueStats(0, 0, 0, 0, 0, None, False)


def test_peeking_returns_the_next_messages_and_changes_nothing(world: World) -> None:
    queue = world.queue()
    assert queue.admin.peek() == []
    queue.publish_many([*"abc"])
    before = snapshot(world.client)
    assert payloads(queue.admin.peek()) == ["a"]
    assert payloads(queue.admin.peek(10)) == ["a", "b", "c"]
    assert [(message.deliveries, message.lease_id) for message in queue.admin.peek()] == [(0, "")]
    assert snapshot(world.client) == before


def test_dead_letters_come_newest_first_with_their_history(once: Any) -> None:
    bury(once, "a", "b", "c")
    assert payloads(once.admin.dead_letters()) == ["c", "b", "a"]
    assert payloads(once.admin.dead_letters(2)) == ["c", "b"]
    (failure,) = once.admin.dead_letters(1)[0].history
    assert (failure.kind, failure.owner, failure.reason) == ("nack", "worker", "broken")


def test_redriven_messages_come_oldest_first_with_a_fresh_budget_and_their_history(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=2))
    queue.publish_many(["a", "b"])
    for _ in range(4):
        queue.nack(queue.claim(), reason="first life")
    queue.publish("c")
    assert queue.admin.redrive() == 2
    assert payloads(queue.admin.peek(5)) == ["c", "a", "b"]
    assert drain(queue)[:1] == ["c"]
    assert queue.stats().dead == 0


def test_a_redrive_moves_the_requested_number_of_dead_letters(once: Any) -> None:
    bury(once, *"abcd")
    assert once.admin.redrive(3) == 3
    assert (payloads(once.admin.peek(5)), payloads(once.admin.dead_letters())) == (["a", "b", "c"], ["d"])
    assert [once.admin.redrive(5), once.admin.redrive(5), once.admin.redrive()] == [1, 0, 0]


def test_only_the_newest_dead_letters_are_kept(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1, max_dead=2))
    bury(queue, *"abcd")
    assert payloads(queue.admin.dead_letters()) == ["d", "c"]


def test_statistics_count_every_message_once(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    assert queue.stats() == QueueStats(0, 0, 0, 0, 0, None, False)
    bury(queue, "dead")
    queue.publish_many([*"abcdef"])
    queue.publish_many(["later", "too"], delay=60)
    lease = queue.claim(max_messages=3)
    queue.claim()
    queue.ack(lease, [lease.messages[1]])
    stats = queue.stats()
    assert stats[:5] == (2, 2, 3, 2, 1)
    assert stats.oldest_age >= 0


def now_ms(world: World) -> int:
    seconds, micros = world.client.time()
    return int(seconds * 1000 + micros // 1000)


def test_the_age_of_a_backlog_is_that_of_its_oldest_message(world: World) -> None:
    queue = world.queue()
    assert queue.backlog()[:2] == (0, None)
    queue.publish("old")
    first = eventually(lambda: (found := queue.backlog()).oldest_age > 0.01 and found)
    queue.publish("new")
    second = queue.backlog()
    assert (first.ready, second.ready) == (1, 2)
    assert second.oldest_age >= first.oldest_age
    queue.claim()
    before = now_ms(world)
    left = queue.backlog()
    assert before <= queue.admin.peek()[0].enqueued_ms + round(left.oldest_age * 1000) <= now_ms(world)


def test_a_backlog_includes_due_messages_and_expired_leases(world: World) -> None:
    queue = world.queue()
    queue.publish_many(["a", "b"])
    expire(world, queue.claim().id)
    queue.publish("c", delay=60)
    fall_due(world)
    assert queue.backlog().ready == 3
    assert queue.stats()[:4] == (3, 0, 0, 0)


def test_leases_are_listed_by_their_deadline(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    for name, seconds in (("second", 20), ("third", 30), ("first", 10)):
        queue.claim(lease_id=name, lease=seconds, owner=f"owner of {name}")
    assert [info.id for info in queue.admin.leases()] == ["first", "second", "third"]
    assert [info.owner for info in queue.admin.leases(limit=1)] == ["owner of first"]
    assert queue.lease_info("nobody") is None


def test_leases_end_by_the_servers_time_which_the_queue_returns(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    before = queue.admin.server_time()
    lease = queue.claim(lease=60)
    assert before <= lease.deadline - timedelta(seconds=60) <= queue.admin.server_time()


def test_a_takeover_changes_the_fence_and_nothing_shows_the_token(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    before = queue.lease_info("job")
    after = (queue.adopt("job", owner="new"), queue.lease_info("job"))[1]
    assert after.fence > before.fence
    assert (before.takeovers, after.takeovers) == (0, 1)
    assert lease.token.startswith(f"{before.fence}.")
    for shown in (repr(before), repr(queue.admin.leases()), repr(lease), str(lease)):
        assert lease.token.split(".")[1] not in shown


def test_only_acked_messages_are_logged_and_only_when_configured(world: World) -> None:
    queue = world.queue(config=LeasedConfig(completed_log=10))
    queue.publish_many([*"abcde"])
    lease = queue.claim(max_messages=5)
    queue.ack(lease, [lease.messages[2]])
    queue.nack(lease, [lease.messages[3]])
    assert logged(world, "completed") == ["c"]
    queue.ack(lease)
    assert logged(world, "completed") == ["e", "b", "a", "c"]
    queue.ack(queue.claim())
    assert logged(world, "completed") == ["d", "e", "b", "a", "c"]


def test_failures_are_logged_when_configured(world: World) -> None:
    queue = world.queue(config=LeasedConfig(failed_log=3, max_deliveries=2))
    queue.publish_many([*"ab"])
    queue.nack(queue.claim(max_messages=2))
    queue.release(queue.claim())
    queue.nack(queue.claim())
    queue.nack(queue.claim(), delay=60)
    *before, last = logged(world, "failed")
    assert (before, last in {"a", "b"}) == (["a", "a"], True)


def logged(world: World, log: str) -> list[str]:
    return [entry.decode()[-1] for entry in world.client.lrange(key(log), 0, -1)]


def test_queues_are_found_by_name(world: World) -> None:
    assert world.client.exists("rmq:queues") == 0
    world.queue("zeta").publish("x")
    world.queue("ż: with a space").claim()
    assert rmq_core.queues(world.url) == ["zeta", "ż: with a space"]
    assert rmq_core.queues(world.client) == ["zeta", "ż: with a space"]
    assert rmq_core.disciplines(world.url) == {"zeta": "leased", "ż: with a space": "leased"}
    assert rmq_core.discipline_of(world.url, "ż: with a space") == "leased"
    assert rmq_core.discipline_of(world.client, "eta") is None


@pytest.mark.parametrize(
    ("method", "arguments", "error", "parameter"),
    [
        ("admin.peek", [0], ConfigurationError, "count"),
        ("admin.dead_letters", [-1], ConfigurationError, "count"),
        ("admin.leases", [0], ConfigurationError, "limit"),
        ("admin.redrive", [0], ConfigurationError, "max_messages"),
        ("lease_info", [5], ConfigurationError, "lease_id"),
        ("settled", [None], ConfigurationError, "lease_id"),
        ("admin.cancel", [5], ConfigurationError, "message_id"),
        ("admin.forget", [5], PayloadError, "dedup_key"),
        ("admin.forget", [""], PayloadError, "dedup_key"),
    ],
)
def test_a_wrong_argument_is_named(
    world: World, method: str, arguments: list[Any], error: type[Exception], parameter: str
) -> None:
    with pytest.raises(error, match=parameter):
        attrgetter(method)(world.queue())(*arguments)


@pytest.mark.parametrize("bounds", [(-1, 1), (0, -1), (0.5, 1)])
def test_reading_outside_of_a_lease_is_refused(world: World, bounds: tuple[Any, Any]) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    with pytest.raises(ConfigurationError, match=r"\b(lo|hi) must be a whole number"):
        queue.read(queue.claim(max_messages=3), *bounds)


@pytest.mark.parametrize("target", ["ready", "delayed", "dead"])
def test_a_long_list_is_read_page_by_page(world: World, target: str) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    names = [f"n{number:03}" for number in range(120)]
    if target == "delayed":
        for number, name in enumerate(names):
            queue.publish(name, delay=60 + number)
    else:
        queue.publish_many(names)
    if target == "dead":
        queue.nack(queue.claim(max_messages=120), reason="broken")
    pages = [queue.admin.browse(target, offset, 50) for offset in (0, 50, 100, 150)]
    assert [page.total for page in pages] == [120] * 4
    assert [len(page.messages) for page in pages] == [50, 50, 20, 0]
    shown = [message.payload for page in pages for message in page.messages]
    assert (sorted(shown) if target == "dead" else shown) == names
    assert [len(page.due) for page in pages] == ([50, 50, 20, 0] if target == "delayed" else [0] * 4)


def test_a_page_of_large_messages_ends_early_and_the_next_page_continues(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_payload_bytes=2_000_000))
    queue.publish_many([f"{number:02}" + "x" * 1_500_000 for number in range(20)])
    first = queue.admin.browse("ready", 0, 20)
    rest = queue.admin.browse("ready", len(first.messages), 20)
    assert len(first.messages) == 8
    assert [message.raw[:2] for message in [*first.messages, *rest.messages]] == [b"%02d" % n for n in range(16)]


def test_chosen_dead_letters_are_redriven_in_their_order_with_a_fresh_budget(world: World, once: Any) -> None:
    once.publish_many([*"abcdef"])
    ids = {}
    for name in "abcdef":
        lease = once.claim()
        ids[name] = lease.message.id
        once.nack(lease, reason=f"bad {name}")
    assert once.admin.redrive_some([ids["e"], ids["b"], "unknown", ids["b"]]) == 2
    assert [letter.payload for letter in once.admin.dead_letters()] == [*"fdca"]
    again = once.claim(max_messages=2)
    assert payloads(again.messages) == ["b", "e"]
    assert [(message.deliveries, message.history[0].reason) for message in again.messages] == [
        (1, "bad b"),
        (1, "bad e"),
    ]


async def test_an_unreachable_server_raises_an_error_of_rmq() -> None:
    nowhere = "redis://127.0.0.1:1/0"
    with pytest.raises(QueueUnavailable):
        rmq_core.disciplines(nowhere)
    with pytest.raises(QueueUnavailable):
        await rmq_core.asyncio.disciplines(nowhere)
    with pytest.raises(QueueUnavailable):
        rmq_core.discipline_of(nowhere, "q")
    with pytest.raises(QueueUnavailable):
        await rmq_core.asyncio.discipline_of(nowhere, "q")
