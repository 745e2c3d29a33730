"""Redis in other forms than one healthy server: a cluster, a sentinel, no memory left, minimal clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio

from rmq_core import ConfigurationError, RedisMessageQueueError, RedisSettings
from tests.core.redis_message_queue.behind import PATIENCE_S, eventually, in_hand, waiting
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import World
from tests.core.topologies import PASSWORD, USER, Topology, cluster, sentinel

ACCOUNT = {"username": USER, "password": PASSWORD}


@pytest.fixture(scope="module")
def clustered() -> Iterator[Topology]:
    with cluster(None) as found:  # type: ignore[arg-type]
        yield found


@pytest.fixture(scope="module")
def watched() -> Iterator[Topology]:
    with sentinel(None) as found:  # type: ignore[arg-type]
        yield found


@contextmanager
def client_of(world: World, topology: Topology) -> Iterator[Any]:
    """Return redis-py's client for a topology, for the concurrency model of the world."""
    settings = RedisSettings.from_url(topology.url, **ACCOUNT, **topology.options)
    made = world.call(settings.client if world.flavour == "sync" else settings.async_client)
    client = getattr(made, "inner", made)
    try:
        yield client
    finally:
        world.call(client.close if world.flavour == "sync" else client.aclose)


def round_trip(queue: Any) -> None:
    assert [queue.publish("x"), queue.publish("x")] == [True, False]
    with queue.process_message() as message:
        assert message in {"x", b"x"}


def test_a_queue_on_a_cluster_needs_a_hash_tag(no_world: World, clustered: Topology) -> None:
    with client_of(no_world, clustered) as client:
        for name in ("jobs", "{}jobs"):
            with pytest.raises(ConfigurationError, match="hash tag"):
                no_world.queue(name, client=client)
        gateway = no_world.gateway(client=client)
        assert gateway.is_redis_cluster is True
        with pytest.raises(ConfigurationError, match="hash tag"):
            no_world.queue("jobs", gateway=gateway)


def test_dead_letters_on_a_cluster_must_be_in_the_slot_of_their_queue(no_world: World, clustered: Topology) -> None:
    with client_of(no_world, clustered) as client:
        gateway = no_world.gateway(client=client, max_delivery_count=2, dead_letter_queue="elsewhere::dlq")
        with pytest.raises(ConfigurationError):
            no_world.queue("{jobs}", gateway=gateway)


def test_a_queue_with_a_hash_tag_works_on_a_cluster(no_world: World, clustered: Topology) -> None:
    with client_of(no_world, clustered) as client:
        round_trip(no_world.queue(f"{{jobs-{no_world.flavour}}}", client=client, enable_completed_queue=True))


def test_a_queue_follows_a_sentinel(no_world: World, watched: Topology) -> None:
    with client_of(no_world, watched) as client:
        round_trip(no_world.queue(no_world.flavour, client=client))


def test_a_gateway_that_declares_itself_a_cluster_gets_the_same_check(no_world: World) -> None:
    made = type("Wrapped", (no_world.module.RedisGateway,), {"is_redis_cluster": True})
    wrapped = no_world.call(made, redis_client=no_world.client())
    with pytest.raises(ConfigurationError, match="hash tag"):
        no_world.queue("jobs", gateway=wrapped)
    assert no_world.queue("{jobs}", gateway=wrapped)


@pytest.fixture
def full(one_world: World) -> Iterator[World]:
    """A world whose server can be filled, and is emptied again."""
    one_world.inspector.config_set("maxmemory-policy", "noeviction")
    yield one_world
    one_world.inspector.config_set("maxmemory", 0)


def test_a_full_server_refuses_to_publish_and_loses_nothing(full: World) -> None:
    queue = full.glance(queue={"enable_completed_queue": True})
    for text in "ab":
        queue.publish(text)
    full.inspector.config_set("maxmemory", 1)
    with pytest.raises((redis.RedisError, RedisMessageQueueError)):
        queue.publish("c")
    assert waiting(full) == ["a", "b"]
    full.inspector.config_set("maxmemory", 0)
    assert [handle(queue) for _ in range(3)] == ["a", "b", None]


def test_a_full_server_is_drained_by_its_consumers(full: World) -> None:
    queue = full.glance()
    for text in "ab":
        queue.publish(text)
    full.inspector.config_set("maxmemory", 1)
    assert [handle(queue) for _ in range(3)] == ["a", "b", None]
    assert in_hand(full) == 0


def test_a_queue_with_a_heartbeat_needs_two_connections(one_world: World) -> None:
    recorder = Recorder(one_world)
    client = one_world.client(max_connections=2)
    queue = one_world.queue(client=client, heartbeat_interval_seconds=0.02, on_event=recorder.callback)
    for text in "ab":
        queue.publish(text)
        handle(queue, lambda: eventually(lambda: recorder.steps[-1] == "lease_renew/success"))
    assert in_hand(one_world) == 0


class Wrapped:
    """A client as tracing libraries wrap it: it delegates everything and is not a `redis.Redis` itself."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class Simple:
    """A client that runs commands one by one and has nothing else: no pool, no connection to block on."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def execute_command(self, *args: Any, **options: Any) -> Any:
        return self._client.execute_command(*args, **options)

    def eval(self, *args: Any) -> Any:
        return self._client.eval(*args)

    def evalsha(self, *args: Any) -> Any:
        return self._client.evalsha(*args)


class AsyncSimple:
    """The asyncio version of `Simple`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        return await self._client.execute_command(*args, **options)

    async def eval(self, *args: Any) -> Any:
        return await self._client.eval(*args)

    async def evalsha(self, *args: Any) -> Any:
        return await self._client.evalsha(*args)


@pytest.fixture(params=["wrapped", "simple"])
def odd_client(request: pytest.FixtureRequest, one_world: World) -> Any:
    """A client that is not of redis-py."""
    simple: Any = Simple if one_world.flavour == "sync" else AsyncSimple
    return (Wrapped if request.param == "wrapped" else simple)(one_world.client())


def test_a_client_that_is_not_of_redis_py_is_sufficient(one_world: World, odd_client: Any) -> None:
    round_trip(one_world.glance(client=odd_client))


def test_a_waiting_consumer_with_such_a_client_gets_published_messages(one_world: World, odd_client: Any) -> None:
    queue = one_world.queue(client=odd_client)
    consumer = one_world.in_background(handle, queue)
    one_world.queue().publish("x")
    assert consumer.result(PATIENCE_S) in {"x", b"x"}


def test_a_wrapped_client_that_decodes_returns_text(one_world: World) -> None:
    for decode, expected in ((True, "x"), (False, b"x")):
        queue = one_world.glance(f"decode {decode}", client=Wrapped(one_world.client(decode_responses=decode)))
        queue.publish("x")
        with queue.process_message() as message:
            assert message == expected
