"""What operators do to one lease or message: expire it, run it now, edit it or delete it."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import (
    ConfigurationError,
    LeasedConfig,
    LeaseLost,
    LeaseOwnedByOther,
    NewMessage,
    PayloadError,
)
from rmq_core.errors import PayloadTooLarge
from rmq_core.leased.managing import expire_lease
from rmq_core.observe.history import actor
from rmq_core.reports import SettleReport
from tests.core.leases import drain, engine_of, key, payloads, run, snapshot
from tests.core.worlds import World

ONCE = LeasedConfig(max_deliveries=1)


def bury(queue: Any, *doomed: Any, reason: str = "broken") -> list[str]:
    """Make dead letters, in this order; return their ids."""
    ids = queue.publish_many(doomed).ids
    for _ in doomed:
        queue.nack(queue.claim(owner="worker"), reason=reason)
    return list(ids)


def test_an_expired_lease_gives_its_messages_back_and_counts_the_delivery(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abc"])
    lease = queue.claim(max_messages=2, lease_id="job", owner="gone", lease=3600)
    assert queue.admin.expire_lease("job") == SettleReport(2, 0)
    assert [(message.payload, message.deliveries) for message in queue.admin.peek(3)] == [("a", 1), ("b", 1), ("c", 0)]
    assert queue.admin.peek()[0].history[-1][::2] == ("expired", "gone")
    assert queue.admin.peek()[0].history[-1].reason == f"by {actor()}", "not as a lease that expires by itself"
    assert queue.stats().leases == 0
    with pytest.raises(LeaseLost):
        queue.ack(lease)


def test_a_lease_of_another_owner_is_not_expired(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim(lease_id="job", owner="try 2")
    before = snapshot(world.client)
    with pytest.raises(LeaseOwnedByOther, match="'try 2', not by 'try 1'"):
        queue.admin.expire_lease("job", if_owner="try 1")
    assert snapshot(world.client) == before
    assert queue.ack(lease).settled == 1


def test_a_publication_that_is_not_finished_is_no_lease_to_expire(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    world.client.zadd(key("leases"), {"~+p": 1e14})
    with pytest.raises(LeaseLost):
        queue.admin.expire_lease("~+p")
    assert world.client.zscore(key("leases"), "~+p") == 1e14


def test_a_lease_is_expired_although_its_holder_extends_it_meanwhile(world: World) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(2_500)))
    lease = queue.claim(max_messages=2_500, lease_id="job")
    queue.extend(lease, by=86_400)
    assert queue.admin.expire_lease("job").settled == 2_500
    assert queue.backlog().ready == 2_500
    with pytest.raises(LeaseLost):
        queue.extend(lease, by=86_400)


def test_another_client_finishes_an_expiry_that_was_cut_off(world: World) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(2_500)))
    queue.claim(max_messages=2_500, lease_id="job", lease=86_400)
    first = next(expire_lease(engine_of(queue), "job"))
    assert run(world, queue, first).startswith(b"returned 1000 1500")
    other = world.queue()
    assert sum(len(lease.messages) for lease in iter(lambda: other.claim(max_messages=1_000), None)) == 2_500


def test_a_delayed_message_runs_now(world: World) -> None:
    queue = world.queue()
    later = queue.publish("later", delay=3600).id
    other = queue.publish("much later", delay=7200).id
    ready = queue.publish("now").id
    assert queue.admin.run_now(later)
    assert [queue.admin.run_now(each) for each in (later, ready, "unknown")] == [False] * 3
    assert queue.stats()[:2] == (2, 1)
    assert drain(queue) == ["now", "later"]
    assert queue.admin.browse("delayed").messages[0].id == other


def test_a_delayed_message_that_failed_with_others_returns_to_its_group(world: World) -> None:
    queue = world.queue()
    ids = queue.publish_many([*"abcd"]).ids
    for _ in range(2):
        queue.nack(queue.claim(max_messages=4))
    group = queue.claim(max_messages=2)
    queue.nack(group, delay=3600)
    assert queue.stats()[:2] == (2, 2)
    assert queue.admin.run_now(group.messages[0].id)
    assert queue.stats()[:2] == (3, 1)
    assert queue.stats().isolated == 3
    assert set(ids) == {
        message.id for state in ("isolated", "delayed") for message in queue.admin.browse(state).messages
    }


def test_an_edited_dead_letter_is_ready_with_its_id_history_and_a_fresh_budget(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1))
    first, second = bury(queue, {"path": "/wrong"}, "other")
    assert queue.admin.edit(first, {"path": "/right"}, {"fixed": "yes"}, by="alice")
    (message,) = queue.admin.peek(5)
    assert (message.id, message.payload, message.headers) == (first, {"path": "/right"}, {"fixed": "yes"})
    assert message.deliveries == 0
    assert [(line.kind, line.owner, line.reason) for line in message.history] == [
        ("nack", "worker", "broken"),
        ("edited", "alice", "payload and headers"),
    ]
    assert [letter.id for letter in queue.admin.dead_letters()] == [second]
    queue.nack(queue.claim(), reason="again")
    assert [line.kind for line in queue.admin.dead_letters()[0].history] == ["nack", "edited", "nack"]


def test_what_an_edit_does_not_name_stays(world: World) -> None:
    queue = world.queue(config=ONCE)
    queue.publish_many([NewMessage("a", id="a", headers={"x": "1"}), NewMessage("b", id="b", headers={"x": "2"})])
    for _ in range(2):
        queue.nack(queue.claim())
    assert queue.admin.edit("a", "A")
    assert queue.admin.edit("b", headers={})
    assert [(each.payload, each.headers) for each in queue.admin.peek(2)] == [("A", {"x": "1"}), ("b", {})]
    assert [each.history[-1].reason for each in queue.admin.peek(2)] == ["payload", "headers"]


def test_an_edit_that_cannot_be_stored_changes_nothing(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1, max_payload_bytes=10))
    (letter,) = bury(queue, "x")
    before = snapshot(world.client)
    for error, edit in (
        (PayloadTooLarge, {"payload": "x" * 11}),
        (PayloadError, {"payload": object()}),
        (PayloadError, {"headers": {"a": 1}}),
        (ConfigurationError, {}),
    ):
        with pytest.raises(error):
            queue.admin.edit(letter, **edit)
    assert not queue.admin.edit("unknown", "x")
    assert snapshot(world.client) == before


def test_two_who_edit_one_dead_letter_make_one_message(world: World) -> None:
    queue = world.queue(config=ONCE)
    (letter,) = bury(queue, "x")
    edits = [world.in_background(queue.admin.edit, letter, f"version {n}") for n in range(8)]
    assert sum(edit.result(60) for edit in edits) == 1
    assert (queue.stats().ready, queue.stats().dead) == (1, 0)


def test_chosen_dead_letters_are_deleted(world: World) -> None:
    queue = world.queue(config=ONCE)
    ids = bury(queue, *"abcde")
    assert queue.admin.discard([ids[1], ids[3], "unknown"]) == 2
    assert queue.admin.discard([ids[1]]) == 0
    assert queue.admin.discard([]) == 0
    assert payloads(queue.admin.dead_letters()) == ["e", "c", "a"]
    with pytest.raises(ConfigurationError, match="not one str"):
        queue.admin.discard(ids[0])
