"""The methods of a queue for the people who operate it: counting, peeking, redriving and purging."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.errors import GatewayContractError
from tests.core.redis_message_queue.behind import expire
from tests.core.redis_message_queue.gateways import foreign
from tests.core.redis_message_queue.handlers import abandon, fail, handle
from tests.core.redis_message_queue.worlds import World

LOGS: dict[str, Any] = {"enable_completed_queue": True, "enable_failed_queue": True}
PLACES = ("pending", "processing", "completed", "failed", "dead_letter")


def with_everything(world: World) -> Any:
    """A queue with a message in each of its places."""
    queue = world.queue(**LOGS, max_delivery_count=1)
    for text in ("dead", "held", "good", "bad", "waits 1", "waits 2"):
        queue.publish(text)
    abandon(queue)
    expire(world)
    abandon(queue)
    assert handle(queue) == "good"
    fail(queue)
    return queue


def counts(queue: Any) -> list[int | None]:
    stats = queue.stats()
    return [getattr(stats, place) for place in PLACES]


def test_stats_count_messages_by_place(world: World) -> None:
    queue = with_everything(world)
    assert counts(queue) == [2, 1, 1, 1, 1]


def test_peeking_shows_payloads_and_takes_nothing(world: World) -> None:
    queue = with_everything(world)
    before = counts(queue)
    assert sorted(queue.peek(10)) == ["waits 1", "waits 2"]
    assert len(queue.peek()) == 1
    assert {place: queue.peek(10, source=place) for place in PLACES[1:]} == {
        "processing": ["held"], "completed": ["good"], "failed": ["bad"], "dead_letter": ["dead"],
    }  # fmt: skip
    assert counts(queue) == before


def test_peeking_gives_bytes_when_the_client_does_not_decode(world: World) -> None:
    queue = world.queue(client=world.client(decode_responses=False))
    queue.publish("größe")
    assert queue.peek() == ["größe".encode()]


def test_peeking_and_purging_refuse_an_unknown_place(no_world: World) -> None:
    queue = no_world.queue()
    with pytest.raises(ConfigurationError, match="source"):
        queue.peek(source="elsewhere")
    for target in ("elsewhere", "processing"):
        with pytest.raises(ConfigurationError, match=r"processing|target"):
            queue.purge(target=target)


@pytest.mark.parametrize("target", ["pending", "completed", "failed", "dead_letter"])
def test_purging_empties_one_place_and_returns_the_count(world: World, target: str) -> None:
    queue = with_everything(world)
    before = counts(queue)
    expected = [0 if place == target else count for place, count in zip(PLACES, before, strict=True)]
    assert queue.purge(target=target) == before[PLACES.index(target)]
    assert counts(queue) == expected
    assert queue.purge(target=target) == 0


def poisoned(world: World, count: int) -> Any:
    queue = world.glance(max_delivery_count=1, dead_letter_queue="q::dlq")
    for n in range(count):
        queue.publish(f"m{n}")
        abandon(queue)
    expire(world)
    assert handle(queue) is None
    return queue


def test_redriven_dead_letters_start_with_a_fresh_delivery_count_oldest_first(world: World) -> None:
    queue = poisoned(world, 3)
    assert queue.redrive_dead_letters(2) == 2
    assert queue.stats().dead_letter == 1
    assert [handle(queue), handle(queue), handle(queue)] == ["m0", "m1", None]
    assert queue.redrive_dead_letters() == 1
    assert handle(queue) == "m2"
    assert queue.redrive_dead_letters() == 0


def test_redriving_a_queue_without_dead_letters_raises(no_world: World) -> None:
    queue = no_world.queue(max_delivery_count=None)
    for ask in (queue.redrive_dead_letters, lambda: queue.peek(source="dead_letter")):
        with pytest.raises(ConfigurationError, match="dead"):
            ask()
    with pytest.raises(ConfigurationError, match="dead"):
        queue.purge(target="dead_letter")


def test_a_custom_gateway_does_not_support_operator_methods(no_world: World) -> None:
    gateway, _ = foreign(no_world)
    queue = no_world.queue(gateway=gateway)
    for ask in (queue.stats, queue.peek):
        with pytest.raises(GatewayContractError):
            ask()


def test_the_dead_letter_key_is_where_dead_letters_are_stored(world: World) -> None:
    queue = world.queue()
    assert queue.key.dead_letter == "q::dlq"
    other = world.queue("p", gateway=world.gateway(max_delivery_count=1, dead_letter_queue="p::dead_letter"))
    assert other.key.dead_letter == "p::dead_letter"


def test_the_keys_of_a_queue_are_made_of_its_name_and_separator(no_world: World) -> None:
    key = no_world.queue("jobs", key_separator="/").key
    assert (key.pending, key.processing, key.completed, key.failed) == (
        "jobs/pending", "jobs/processing", "jobs/completed", "jobs/failed",
    )  # fmt: skip
    assert key.deduplication("1") == "jobs/deduplication/1"
