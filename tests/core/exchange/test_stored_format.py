"""A queue that a later version of RMQ has migrated: this version says so, and writes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmq_core import LeasedConfig, RedisMessageQueue
from rmq_core.asyncio import WaitHub
from rmq_core.errors import FormatMismatch, WrongKeyType
from rmq_core.protocol import DISCIPLINES
from tests.core.worlds import World

PREFIXES = {
    "leased": "rmq:{q}:",
    "reliable": "rmq:reliable:{q}:",
    "rotation": "rmq:rotation:{q}:",
    "streams": "rmq:{q}:stream:",
    "jobs": "rmq:{q}:jobs:",
}
MAIN_KEYS = {
    "leased": ["rmq:{q}:ready", "rmq:{q}:delayed"],
    "reliable": ["rmq:reliable:{q}:queue"],
    "rotation": ["q"],
    "streams": ["rmq:{q}:stream"],
    "jobs": ["rmq:{q}:jobs:ready", "rmq:{q}:jobs:delayed"],
}
PAYLOADS: dict[str, Any] = {"rotation": "7", "streams": {"n": 1}, "jobs": {"n": 1}}


def migrate(world: World, discipline: str, mark: str = "9 0.9.0") -> None:
    """Do to the keys of the queue what a migration to a later format does."""
    for key in MAIN_KEYS[discipline]:
        if world.client.exists(key):
            world.client.rename(key, f"{key}-2")
        world.client.set(key, f"rmq format {mark}")
    world.client.set(f"{PREFIXES[discipline]}format", mark)


def snapshot(world: World) -> dict[bytes, bytes]:
    """Every key but the call slots and the record of who calls, as DUMP returns it."""
    names = (name for name in world.client.scan_iter("*") if b":slot:" not in name and not name.endswith(b":clients"))
    return {name: world.client.dump(name) for name in names}


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_an_older_client_reports_both_formats_and_writes_nothing(world: World, discipline: str) -> None:
    queue, payload = world.open(discipline), PAYLOADS.get(discipline, "x")
    queue.publish(payload)
    migrate(world, discipline)
    before = snapshot(world)
    for operation in (lambda: queue.publish(payload), queue.claim, lambda: world.open(discipline).publish(payload)):
        with pytest.raises(FormatMismatch, match=r"format 9, .* format [123]: install RMQ 0\.9\.0 or later") as raised:
            operation()
        assert (raised.value.kept, raised.value.understood, raised.value.needs) == (
            9,
            3 if discipline == "leased" else 1,
            "0.9.0",
        )
        assert isinstance(raised.value.__cause__, WrongKeyType)
    assert snapshot(world) == before


def test_batches_and_delayed_messages_are_refused(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    migrate(world, "leased")
    before = snapshot(world)
    for publish in (lambda: queue.publish_many(["a", "b"]), lambda: queue.publish("later", delay=9), queue.stats):
        with pytest.raises(FormatMismatch):
            publish()
    assert snapshot(world) == before


def test_a_lease_that_an_older_client_holds_during_the_migration_can_be_acked(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim()
    migrate(world, "leased")
    queue.extend(lease)
    assert queue.ack(lease).settled == 1


@pytest.mark.parametrize("mark", ["1 0.1.0", "nonsense", ""])
def test_a_value_of_another_program_is_reported_as_a_wrong_type(world: World, mark: str) -> None:
    queue = world.queue()
    migrate(world, "leased", mark)
    with pytest.raises(WrongKeyType):
        queue.publish("x")


def test_a_format_without_a_version_names_the_format(world: World) -> None:
    migrate(world, "leased", "9")
    with pytest.raises(FormatMismatch, match="the version of RMQ that migrated it"):
        world.queue().publish("x")


def test_a_format_key_that_cannot_be_read_leaves_the_first_error(world: World) -> None:
    migrate(world, "leased")
    world.client.delete("rmq:{q}:format")
    world.client.rpush("rmq:{q}:format", "2")
    with pytest.raises(WrongKeyType):
        world.queue().publish("x")


def test_a_message_queue_reports_the_format(redis_client: Any) -> None:
    queue = RedisMessageQueue("q", client=redis_client)
    queue.publish("x")
    redis_client.rename("rmq:{q}:ready", "rmq:{q}:ready-2")
    redis_client.set("rmq:{q}:ready", "rmq format 3")
    redis_client.set("rmq:{q}:format", "9 0.9.0")
    with pytest.raises(FormatMismatch):
        queue.publish("y")


async def test_a_waiter_of_a_hub_gets_the_format_mismatch(redis_client: Any, server_url: str) -> None:
    redis_client.set("rmq:{q}:ready", "rmq format 3")
    redis_client.set("rmq:{q}:format", "9 0.9.0")
    async with WaitHub(server_url, LeasedConfig()) as hub, asyncio.timeout(30):
        with pytest.raises(FormatMismatch):
            await hub.wait("q")
