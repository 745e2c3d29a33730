"""Lost replies: a resend changes nothing, and an interrupted claim is found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeaseLost, Match, QueueUnavailable
from rmq_core.exchange.frames import plan
from rmq_core.leased.claiming import grant, requested
from tests.core.leases import drain, driver_of, engine_of, expire, key, lose_answer, payloads, snapshot
from tests.core.worlds import World

CONFIG = LeasedConfig(max_deliveries=3, completed_log=9, failed_log=9)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "publish": lambda queue, _: queue.publish("x").accepted,
    "publish with a key": lambda queue, _: queue.publish("x", dedup_key="k").accepted,
    "publish many": lambda queue, _: queue.publish_many(map(str, range(2_500)))[:3],
    "publish many later": lambda queue, _: queue.publish_many(map(str, range(2_500)), delay=60)[:3],
    "claim": lambda queue, _: payloads(queue.claim().messages),
    "claim many": lambda queue, _: payloads(queue.claim(max_messages=3).messages),
    "claim by id": lambda queue, _: payloads(queue.claim(lease_id="new").messages),
    "claim again": lambda queue, _: queue.claim(lease_id="job").takeovers,
    "claim, waiting": lambda queue, _: payloads(queue.claim(wait=1).messages),
    "claim next": lambda queue, lease: payloads(queue.claim_next(ack=lease, max_messages=2).messages),
    "adopt": lambda queue, _: queue.adopt("job", owner="other").takeovers,
    "ack": lambda queue, lease: queue.ack(lease),
    "ack some": lambda queue, lease: queue.ack(lease, lease.messages[:2]),
    "nack": lambda queue, lease: queue.nack(lease, reason="r"),
    "nack later": lambda queue, lease: queue.nack(lease, delay=60, reason="r"),
    "nack some": lambda queue, lease: queue.nack(lease, lease.messages[1:], reason="r"),
    "release": lambda queue, lease: queue.release(lease),
    "release some": lambda queue, lease: queue.release(lease, lease.messages[:2]),
    "extend": lambda queue, lease: queue.extend(lease, by=1_000) > lease.deadline,
    "redrive": lambda queue, _: queue.admin.redrive(1),
    "redrive where": lambda queue, _: queue.admin.redrive(where=Match(text="dead")),
    "edit": lambda queue, _: queue.admin.edit(queue.admin.dead_letters()[0].id, "edited", {"a": "b"}),
    "discard": lambda queue, _: queue.admin.discard([letter.id for letter in queue.admin.dead_letters()]),
    "expire": lambda queue, _: queue.admin.expire_lease("job", if_owner="me"),
    "expire all": lambda queue, _: queue.admin.expire_leases("me"),
    "release all": lambda queue, _: queue.admin.release_leases("me"),
    "run now": lambda queue, _: queue.admin.run_now(queue.admin.browse("delayed").messages[0].id),
    "purge": lambda queue, _: queue.admin.purge("ready"),
    "purge where": lambda queue, _: [
        queue.admin.purge(place, where=Match(text="e")) for place in ("ready", "delayed", "dead")
    ],
    "cancel": lambda queue, _: queue.admin.cancel(queue.admin.peek()[0].id),
    "dead letter": lambda queue, _: queue.admin.dead_letter(queue.admin.peek()[0].id, reason="r"),
    "dead letter of a lease": lambda queue, lease: queue.admin.dead_letter(lease.messages[1].id, reason="r"),
    "forget": lambda queue, _: queue.admin.forget("known"),
    "configure": lambda queue, _: queue.admin.configure(max_deliveries=5, reset="backoff").stored,
    "pause": lambda queue, _: (queue.admin.pause(), queue.stats().paused),
}


def lived_in(world: World, name: str) -> tuple[Any, Any]:
    """Return a queue with messages in every state, and the lease that holds some of them."""
    queue = world.queue(name, CONFIG)
    strict = world.queue(name, LeasedConfig(max_deliveries=1))
    strict.publish("dead")
    strict.nack(strict.claim())
    queue.publish_many([*"abcdefgh"], dedup_key=lambda payload: f"known {payload}")
    queue.publish("later", dedup_key="known", delay=3600)
    return queue, queue.claim(max_messages=3, lease_id="job", owner="me")


def picture(world: World, name: str) -> Any:
    """Return the contents of a queue, without ids and times."""
    queue = world.queue(name, CONFIG)
    lists = {part: len(world.client.lrange(key(part, name), 0, -1)) for part in ("completed", "failed", "dead")}
    leases = sorted((info.owner, info.state, info.count, info.settled, info.takeovers) for info in queue.admin.leases())
    ready = [(message.payload, message.deliveries, len(message.history)) for message in queue.admin.peek(10_000)]
    return lists, leases, ready, queue.stats()[:5], queue.settled("job") is None


@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_an_operation_whose_reply_was_lost_happens_once_and_returns_the_same(world: World, operation: str) -> None:
    smooth, lease = lived_in(world, "smooth")
    expected = OPERATIONS[operation](smooth, lease)
    rough, lease = lived_in(world, "rough")
    lose_answer(rough, redis.ConnectionError("cut"))
    assert OPERATIONS[operation](rough, lease) == expected
    assert picture(world, "rough") == picture(world, "smooth")


@pytest.mark.parametrize("operation", ["redrive where", "edit", "discard", "expire", "run now", "purge where"])
def test_an_operators_verb_whose_replies_are_all_lost_at_first_changes_nothing_twice(
    world: World, operation: str
) -> None:
    smooth, lease = lived_in(world, "smooth")
    expected = OPERATIONS[operation](smooth, lease)
    rough, lease = lived_in(world, "rough")
    lose_each_answer(rough)
    assert OPERATIONS[operation](rough, lease) == expected
    assert picture(world, "rough") == picture(world, "smooth")


def test_every_chunk_of_a_large_lease_survives_a_lost_reply(world: World) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(9_000)))
    lose_each_answer(queue)
    for most in (8_999, 9_000):  # in chunks, and at once
        lease = queue.claim(max_messages=most)
        assert payloads(queue.messages(lease)) == [str(n) for n in range(most)]
        assert queue.release(lease).settled == most
    lease = queue.claim(max_messages=8_999)
    assert queue.nack(lease, reason="r").settled == 8_999
    assert payloads(queue.admin.peek(10_000)) == [str(n) for n in range(9_000)]


def lose_each_answer(queue: Any) -> None:
    """Answer every write with a lost connection at first."""
    driver = driver_of(queue)
    original = driver._round
    lost: set[bytes] = set()

    def seen(planned: Any) -> bool:
        packed = planned.packed()
        return packed in lost or bool(lost.add(packed))

    async def round_later(planned: Any) -> Any:
        first = not seen(planned)
        replies = await original(planned)
        if first:
            raise redis.ConnectionError("cut")
        return replies

    def round_now(planned: Any) -> Any:
        first = not seen(planned)
        replies = original(planned)
        if first:
            raise redis.ConnectionError("cut")
        return replies

    driver._round = round_later if type(driver).__name__.startswith("Async") else round_now


def test_scripts_missing_on_the_server_are_sent_again(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    world.client.script_flush()
    lease = queue.claim(max_messages=2)
    world.client.script_flush()
    assert queue.publish_many(map(str, range(2_500))).accepted == 2_500
    world.client.script_flush()
    assert queue.ack(lease).settled == 1
    world.client.script_flush()
    assert queue.claim(wait=5).message.payload == "0"
    assert [info.count for info in queue.admin.leases()] == [1]


class Interruption(BaseException):
    """An exception like KeyboardInterrupt, which does not end the test run when a test fails."""


@pytest.mark.parametrize("interruption", [Interruption, SystemExit, MemoryError])
def test_the_next_claim_resumes_an_interrupted_one(world: World, interruption: type[BaseException]) -> None:
    queue = world.queue(config=LeasedConfig(lease=None))
    queue.publish_many([*"abc"])
    lose_answer(queue, interruption())
    with pytest.raises(interruption):
        queue.claim(max_messages=2)
    assert queue.stats()[:4] == (1, 0, 2, 1)
    lease = queue.claim()
    assert [(message.payload, message.deliveries) for message in lease.messages] == [("a", 1), ("b", 1)]
    assert payloads(queue.claim().messages) == ["c"]
    assert queue.ack(lease).settled == 2


def test_closing_releases_what_an_interrupted_claim_got(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=None))
    queue.publish_many([*"abc"])
    lose_answer(queue, Interruption())
    with pytest.raises(Interruption):
        queue.claim(max_messages=2)
    queue.close()
    other = world.queue()
    assert [message.deliveries for message in other.admin.peek(5)] == [0, 0, 0]
    assert drain(other) == [*"abc"]


def test_closing_does_not_release_what_another_consumer_took_over_in_the_meantime(world: World) -> None:
    queue, rival = world.queue(), world.queue()
    queue.publish("x")
    lose_answer(queue, Interruption())
    with pytest.raises(Interruption):
        queue.claim(lease_id="job")
    lease = rival.claim(lease_id="job")
    queue.close()
    assert rival.ack(lease).settled == 1


def test_closing_does_not_touch_a_lease_that_the_interrupted_claim_never_got(world: World) -> None:
    queue, rival = world.queue(), world.queue()
    queue.publish("x")
    lease = rival.claim(lease_id="job")
    driver = driver_of(queue)

    def refuse(*_: Any) -> Any:
        raise Interruption

    driver._send = refuse
    with pytest.raises(Interruption):
        queue.claim(lease_id="job")
    del driver._send
    queue.close()
    assert rival.ack(lease).settled == 1


def test_an_interrupted_claim_by_id_counts_one_delivery_when_it_is_repeated(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lose_answer(queue, Interruption())
    with pytest.raises(Interruption):
        queue.claim(lease_id="job")
    lease = queue.claim(lease_id="job")
    assert (lease.takeovers, lease.message.deliveries) == (0, 1)


def test_an_interrupted_claim_next_can_be_resolved(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    lease = queue.claim(lease_id="job")
    lose_answer(queue, Interruption())
    with pytest.raises(Interruption):
        queue.claim_next(ack=lease)
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    with pytest.raises(LeaseAlreadySettled):
        queue.claim(lease_id="job")
    assert payloads(queue.claim().messages) == ["b"]


def test_a_wrong_argument_does_not_forget_an_interrupted_claim(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=None))
    queue.publish("x")
    lose_answer(queue, Interruption())
    with pytest.raises(Interruption):
        queue.claim()
    for wrong in ({"wait": -1}, {"lease": "x"}, {"max_messages": 0}, {"owner": "\n"}):
        with pytest.raises(ValueError):
            queue.claim(**wrong)
    assert payloads(queue.claim().messages) == ["x"]


def test_a_claim_that_fails_after_it_was_granted_is_found_again(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=None))
    queue.publish_many([*"ab"])
    expire(world, queue.claim(lease_id="late", lease=60).id)
    world.client.set(key("dead"), "not a list: the late lease cannot be taken back")
    with pytest.raises(Exception, match="another type"):
        queue.claim()
    world.client.delete(key("dead"))
    assert payloads(queue.claim().messages) == ["b"]
    assert payloads(queue.claim().messages) == ["a"]


def test_an_unreachable_server_is_reported_after_the_retry_budget(world: World) -> None:
    queue = world.queue(config=LeasedConfig(retry_budget=0.05))
    queue.publish("x")
    driver = driver_of(queue)

    def refuse(*_: Any) -> Any:
        raise redis.ConnectionError("Connection refused")

    driver._send = refuse
    with pytest.raises(QueueUnavailable, match="did not answer"):
        queue.claim()
    del driver._send
    before = snapshot(world.client)
    assert queue.claim().message.payload == "x"
    assert snapshot(world.client) != before


@pytest.mark.parametrize("many", [1, 2])
def test_a_late_claim_whose_repetition_was_granted_takes_nothing(world: World, many: int) -> None:
    queue = world.queue()
    queue.publish_many([*"abcd"])
    engine, slots = engine_of(queue), driver_of(queue)._slots
    request = requested(engine, many)
    late = plan(next(grant(engine, request, 0)), slots)  # sent, and interrupted on its way
    late.release(slots)
    engine.unanswered[request.id] = request.nonce
    other = slots.take()  # another thread has its slot for a call that has not reached Redis yet
    lease = queue.claim(max_messages=many)
    assert (lease.id, lease.count) == (request.id, many)
    world.client.execute_command(*late.frames[0].args)
    slots.give(other)
    assert queue.stats()[:3] == (4 - many, 0, many)
    assert queue.ack(lease).settled == many
