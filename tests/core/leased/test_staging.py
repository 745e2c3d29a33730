"""Staged publishing: invisible until it is published, then ready whatever happens to its author."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError, LeasedConfig, NewMessage, Overflow, PayloadError, QueueFull, Stage
from rmq_core.errors import StageLost
from rmq_core.leased.publishing import publish_staged
from tests.core.leases import drain, engine_of, key, lose_answer, payloads, run
from tests.core.worlds import World


def keys(world: World, pattern: str) -> list[bytes]:
    return list(world.client.scan_iter(f"rmq:{{q}}:{pattern}"))


def overdue(world: World) -> None:
    """Let the time pass during which others leave an unfinished publication alone."""
    for member in world.client.zrange(key("leases"), 0, -1):
        world.client.zadd(key("leases"), {member: 1})


def decide(world: World, queue: Any, *stages: Stage) -> None:
    """Commit a publication, and die before any message is moved."""
    engine_of(queue).registered = True
    run(world, queue, next(publish_staged(engine_of(queue), stages)))


def test_staged_messages_are_invisible_until_they_are_published(world: World) -> None:
    queue = world.queue()
    stages = [queue.stage(["a", "b"]), queue.stage(["c"])]
    assert queue.claim() is None
    assert queue.stats().ready == 0
    assert queue.publish_staged(stages) is True
    assert drain(queue) == ["a", "b", "c"]
    assert keys(world, "stage*") == []
    assert queue.stats().leases == 0


def test_stages_are_published_in_order_behind_what_is_ready(world: World) -> None:
    queue = world.queue()
    first, second = queue.stage(["a"]), queue.stage(["b"])
    queue.publish("earlier")
    queue.publish_staged([second, first])
    assert drain(queue) == ["earlier", "b", "a"]


def test_messages_are_deduplicated_when_they_are_published_and_not_before(world: World) -> None:
    queue = world.queue()
    dropped = queue.stage([NewMessage("never", dedup_key="1")])
    stages = [queue.stage([NewMessage(f"{at}{n}", dedup_key=str(n)) for n in range(3)]) for at in "ab"]
    mixed = queue.stage(["free", NewMessage("c0", dedup_key="0"), NewMessage("c9", dedup_key="9"), "free"])
    queue.drop_staged([dropped])
    queue.publish_staged([*stages, mixed])
    assert drain(queue) == ["a0", "a1", "a2", "free", "c9", "free"]
    assert not queue.publish("x", dedup_key="2").accepted


def test_a_sink_publishes_each_of_its_batches_once(world: World) -> None:
    queue = world.queue()
    assert queue.publish_staged([queue.stage(["a"])], sink="s", batch=0)
    assert not queue.publish_staged([queue.stage(["a"])], sink="s", batch=0)
    assert queue.publish_staged([], sink="s", batch=1)
    assert not queue.publish_staged([queue.stage(["b"])], sink="s", batch=1)
    assert queue.publish_staged([queue.stage(["c"])], sink="other", batch=1)
    assert drain(queue) == ["a", "c"]
    assert keys(world, "stage*") == []


def test_a_repeated_publish_loses_nothing_of_what_was_committed(world: World) -> None:
    queue = world.queue()
    stage = queue.stage(["a", "b"])
    decide(world, queue, stage)
    assert queue.publish_staged([stage]) is False
    overdue(world)
    assert drain(queue) == ["a", "b"]


def test_a_missing_stage_is_reported_and_nothing_is_published(world: World) -> None:
    queue = world.queue()
    kept, gone = queue.stage(["a"]), queue.stage(["b"])
    queue.drop_staged([gone])
    with pytest.raises(StageLost, match=gone.id):
        queue.publish_staged([kept, gone], sink="s")
    assert queue.claim() is None
    assert queue.publish_staged([kept], sink="s")


def test_a_publication_may_have_more_stages_than_fit_on_the_stack_of_lua(world: World) -> None:
    queue, stages = world.queue(), [Stage(f"s{number}", 1, plain=True) for number in range(8_200)]
    pipeline = world.client.pipeline(transaction=False)
    for each in stages:
        pipeline.rpush(key(f"stage:{each.id}"), "x").pexpire(key(f"stage:{each.id}"), 60_000)
    pipeline.execute()
    decide(world, queue, *stages)
    assert world.client.llen(keys(world, "staged:*")[0]) == len(stages)


def test_a_publication_is_placed_behind_waiting_messages_and_before_later_ones(world: World) -> None:
    queue = world.queue()
    for name in "ab":
        queue.publish_staged([queue.stage([name + str(number) for number in range(1_500)]) for _ in range(2)])
        queue.publish("between")
    one = [*[f"a{number}" for number in range(1_500)] * 2, "between"]
    assert drain(queue) == [*one, *[text.replace("a", "b") for text in one]]


def test_staged_messages_expire(world: World) -> None:
    queue = world.queue()
    queue.stage(["a"], keep=1000)
    (stage,) = keys(world, "stage:*")
    assert 990_000 < world.client.pttl(stage) <= 1_000_000


def test_staging_for_a_full_queue_is_refused_as_a_whole(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_ready=2))
    queue.publish("x")
    stage = queue.stage(["a", "b"])
    with pytest.raises(QueueFull, match="max_ready=2"):
        queue.publish_staged([stage])
    assert drain(queue) == ["x"]
    assert queue.publish_staged([stage])


def test_more_staged_messages_than_the_queue_may_hold_are_refused_as_a_whole(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_ready=2))
    stages = [queue.stage(["a", "b"]), queue.stage(["c"])]
    with pytest.raises(QueueFull, match="hold 3 staged messages: max_ready=2; publish fewer at once or raise"):
        queue.publish_staged(stages)
    assert queue.claim() is None
    assert queue.publish_staged(stages[:1])


def test_dropping_the_oldest_cannot_be_combined_with_staging(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_ready=2, overflow=Overflow.DROP_OLDEST))
    with pytest.raises(ConfigurationError, match="DROP_OLDEST"):
        queue.stage(["a"])


@pytest.mark.parametrize("finder", ["claim", "waiting claim", "backlog"])
def test_the_next_client_finishes_a_publication_that_its_author_left_unfinished(world: World, finder: str) -> None:
    queue = world.queue()
    decide(world, queue, queue.stage(["a", "b"]), queue.stage([NewMessage("c", dedup_key="c")]))
    assert queue.claim() is None  # the author is left alone for a while
    overdue(world)
    if finder == "backlog":
        assert queue.backlog().ready == 3
    found = payloads(queue.claim(max_messages=5, wait=20 if finder == "waiting claim" else 0).messages)
    assert found == ["a", "b", "c"]
    assert keys(world, "stage*") == []


def test_two_clients_that_finish_the_same_publication_move_each_message_once(world: World) -> None:
    queue, other = world.queue(), world.queue()
    messages = [NewMessage(str(number), dedup_key=str(number)) for number in range(3_000)]
    decide(world, queue, queue.stage(map(str, range(3_000, 30_000))), queue.stage(messages))
    overdue(world)
    both = [world.in_background(each.backlog) for each in (queue, other)]
    assert max(each.result(60).ready for each in both) == 30_000
    assert sorted(map(int, drain(queue))) == list(range(30_000))


def test_an_author_whose_answer_got_lost_publishes_once(world: World) -> None:
    queue = world.queue()
    stage = queue.stage(["a", "b"])
    lose_answer(queue, ConnectionError("the answer got lost"))
    queue.publish_staged([stage], sink="s")
    assert drain(queue) == ["a", "b"]


@pytest.mark.parametrize("message_id", ["", "two words", "tab\tbed", "x" * 513, 7])
def test_an_id_that_an_envelope_cannot_contain_is_refused(world: World, message_id: Any) -> None:
    with pytest.raises(PayloadError, match="id "):
        world.queue().stage([NewMessage("a", id=message_id)])
