from __future__ import annotations

from concurrent.futures import wait

import pytest

from rmq_core import LeasedConfig, Overflow, QueueFull
from rmq_core.events import QueueEvent
from tests.core.leases import PATIENCE_S, drain, fall_due, lose_answer, payloads, snapshot
from tests.core.worlds import World

CHUNK = 1000
WINDOW = 4


def limited(max_ready: int, overflow: Overflow = Overflow.RAISE) -> LeasedConfig:
    return LeasedConfig(max_ready=max_ready, overflow=overflow)


def test_a_full_queue_refuses_and_nothing_is_written(world: World) -> None:
    queue = world.queue(config=limited(2))
    queue.publish_many(["a", "b"])
    before = snapshot(world.client)
    with pytest.raises(QueueFull, match="max_ready=2"):
        queue.publish("c", dedup_key="k")
    assert snapshot(world.client) == before


def test_a_chunk_of_many_messages_that_does_not_fit_is_refused_whole(world: World) -> None:
    queue = world.queue(config=limited(1_500))
    texts = [str(number) for number in range(2_000)]
    with pytest.raises(QueueFull, match="max_ready=1500") as refused:
        queue.publish_many(texts)
    assert refused.value.report[:2] == (1_000, 0)
    assert drain(queue) == texts[:1_000]


def test_each_client_keeps_to_its_own_bound(world: World) -> None:
    wide, narrow = world.queue(config=limited(3)), world.queue(config=limited(1))
    wide.publish_many(["a", "b"])
    with pytest.raises(QueueFull, match="max_ready=1 messages may wait"):
        narrow.publish("c")
    wide.publish("c")
    assert drain(narrow) == ["a", "b", "c"]


def test_a_publish_that_filled_the_queue_and_lost_its_answer_succeeds_once(world: World) -> None:
    queue = world.queue(config=limited(1))
    lose_answer(queue, ConnectionError("the answer got lost"))
    assert queue.publish("a").accepted
    assert drain(queue) == ["a"]


def test_delayed_messages_count_and_leased_ones_do_not(world: World) -> None:
    queue = world.queue(config=limited(2))
    queue.publish("leased")
    assert queue.claim().count == 1
    queue.publish("delayed", delay=60)
    queue.publish("ready")
    with pytest.raises(QueueFull):
        queue.publish("too many")
    with pytest.raises(QueueFull):
        queue.publish("too many", delay=60)


def test_a_refused_chunk_leaves_no_trace_and_blocks_the_chunks_behind_it(world: World) -> None:
    queue = world.queue(config=limited(2 * CHUNK + 500))
    with pytest.raises(QueueFull) as refused:
        queue.publish_many(map(str, range(WINDOW * CHUNK)), dedup_key=lambda payload: payload)
    assert refused.value.report.accepted == 2 * CHUNK
    assert drain(queue) == [str(n) for n in range(2 * CHUNK)]
    rest = queue.publish_many(map(str, range(2 * CHUNK, 2 * CHUNK + 500)), dedup_key=lambda payload: payload)
    assert rest.accepted == 500


@pytest.mark.parametrize("count", [0, 1, CHUNK, 2 * CHUNK + 500, WINDOW * CHUNK + 1])
def test_any_number_of_messages_is_published_in_order(world: World, count: int) -> None:
    queue = world.queue()
    report = queue.publish_many(str(n) for n in range(count))
    assert report[:3] == (count, 0, 0)
    found = [message for lease in iter(lambda: queue.claim(max_messages=CHUNK), None) for message in lease.messages]
    assert payloads(found) == [str(n) for n in range(count)]
    assert tuple(message.id for message in found) == report.ids
    assert len(set(report.ids)) == count


def test_large_payloads_are_published_in_chunks_by_their_size(world: World) -> None:
    queue = world.queue()
    large = [bytes([n]) * (1 << 20) for n in range(10)]
    assert queue.publish_many(large).accepted == 10
    assert drain(queue) == large


def test_dropping_removes_the_oldest_messages_and_reports_it(world: World) -> None:
    events: list[QueueEvent] = []
    queue = world.queue(config=limited(3, Overflow.DROP_OLDEST), on_event=events.append)
    assert queue.publish_many([*"abcd"])[:3] == (4, 0, 1)
    assert queue.publish("e").accepted
    assert drain(queue) == ["c", "d", "e"]
    told = [(event.operation, event.count) for event in events[:5]]
    assert told == [("publish", 3), ("publish", 1), ("drop", 1), ("publish", 1), ("drop", 1)]


def test_dropping_never_exceeds_the_limit_when_all_that_waits_is_delayed(world: World) -> None:
    queue = world.queue(config=limited(2, Overflow.DROP_OLDEST))
    queue.publish_many(["a", "b"], delay=60)
    with pytest.raises(QueueFull):
        queue.publish("c")
    assert queue.stats()[:2] == (0, 2)


def test_dropping_spares_delayed_messages(world: World) -> None:
    queue = world.queue(config=limited(2, Overflow.DROP_OLDEST))
    queue.publish("delayed", delay=60)
    queue.publish("a")
    queue.publish("b")
    assert drain(queue) == ["b"]
    fall_due(world)
    assert drain(queue) == ["delayed"]


def test_a_blocking_publisher_continues_when_there_is_room(world: World) -> None:
    queue, other = world.queue(config=limited(1, Overflow.BLOCK(PATIENCE_S))), world.queue()
    queue.publish("a")
    waiting = world.in_background(queue.publish, "b")
    assert not wait([waiting], timeout=0.05).done
    assert other.claim().message.payload == "a"
    assert waiting.result(PATIENCE_S).accepted
    assert drain(other) == ["b"]


def test_a_blocking_publisher_of_many_chunks_continues_chunk_by_chunk(world: World) -> None:
    queue, other = world.queue(config=limited(2, Overflow.BLOCK(PATIENCE_S))), world.queue()
    waiting = world.in_background(queue.publish_many, [*"abcdefg"])
    found: list[str] = []
    while len(found) < 7:
        found += drain(other)
    assert found == [*"abcdefg"]
    assert waiting.result(PATIENCE_S).accepted == 7


def test_a_blocking_publisher_times_out(world: World) -> None:
    queue = world.queue(config=limited(1, Overflow.BLOCK(0.02)))
    queue.publish("a")
    with pytest.raises(QueueFull):
        queue.publish("b")
    assert drain(queue) == ["a"]
