"""Many waits for work on many queues over a few connections. Nothing is claimed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redis.asyncio

from rmq_core import ConfigurationError, LeasedConfig, QueueUnavailable, RedisSettings
from rmq_core.asyncio import LeasedQueue, WaitHub
from rmq_core.exchange import pubsub as pubsub_module
from rmq_core.orchestrate import waiting as hub_module
from rmq_core.protocol import DISCIPLINES
from rmq_core.reports import Backlog
from tests.core.leases import PATIENCE_S, eventually_later, key
from tests.servers import Cluster, External, Server, name_on, start_server


@pytest.fixture
async def hub(async_redis_client: redis.asyncio.Redis) -> AsyncIterator[WaitHub]:
    async with WaitHub(async_redis_client) as made:
        yield made


@pytest.fixture
async def queue(async_redis_client: redis.asyncio.Redis) -> AsyncIterator[LeasedQueue]:
    async with LeasedQueue(async_redis_client, "q") as made:
        yield made


async def watched(client: Any, *names: str) -> None:
    """Return when these queues have a request for a notification: the hub queried them and found too little."""
    for name in names:
        await eventually_later(lambda name=name: client.zscore(key("waiters", name), "*"))


async def test_a_wait_returns_at_once_for_ready_messages_and_claims_none(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.publish_many(["a", "b"])
    backlog = await hub.wait("q", min_messages=2, timeout=PATIENCE_S)
    assert backlog.ready == 2
    assert backlog.oldest_age is not None
    assert (await queue.stats())[:4] == (2, 0, 0, 0)


async def test_a_wait_on_a_paused_queue_says_so_and_goes_on_until_resumed(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.publish("x")
    await queue.admin.pause()
    paused: asyncio.Queue[Backlog] = asyncio.Queue()
    waiting = asyncio.create_task(hub.wait("q", max_age=0.001, on_pause=paused.put_nowait))
    assert (await asyncio.wait_for(paused.get(), PATIENCE_S)).ready == 1
    await watched(queue.client, "q")
    await queue.publish("y")
    await asyncio.sleep(0.3)
    assert not waiting.done()
    assert paused.empty()
    await queue.admin.resume()
    assert (await asyncio.wait_for(waiting, PATIENCE_S)).ready == 2


async def test_a_wait_for_a_publication_ends_with_it(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.admin.configure(groups="fair")
    for _ in range(10):  # a notification that a busy machine delays is made up for by a poll, five seconds later
        await queue.publish_many(["a", "b"], publication="p")
        lease = await queue.claim(max_messages=2)
        assert lease is not None
        waiting = [asyncio.create_task(hub.wait_for_publication("q", "p", timeout=PATIENCE_S)) for _ in range(3)]
        await watched(queue.client, "q")
        began = asyncio.get_running_loop().time()
        await queue.ack(lease)
        assert [found.done for found in await asyncio.gather(*waiting)] == [True] * 3
        if asyncio.get_running_loop().time() - began < 3:
            break
    else:
        raise AssertionError("the end of a publication woke no wait")
    assert (await hub.wait_for_publication("q", "p")).acked >= 2


async def test_a_wait_for_a_publication_takes_back_what_a_dead_worker_holds(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.admin.configure(groups="fair", max_deliveries=1)
    await queue.publish("a", publication="p")
    lease = await queue.claim()
    assert lease is not None
    await queue.client.zadd(key("leases"), {lease.id: 1})
    assert (await hub.wait_for_publication("q", "p", timeout=PATIENCE_S)).dead == 1


async def test_a_wait_for_a_publication_that_cannot_end_is_refused(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.publish("a")
    with pytest.raises(ConfigurationError, match="has no groups"):
        await hub.wait_for_publication("q", "p", timeout=PATIENCE_S)
    with pytest.raises(TimeoutError):
        await hub.wait("q", min_messages=2, timeout=0.1)


async def test_each_group_has_the_backlog_that_a_claim_of_it_may_get(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.publish("x")
    with pytest.raises(ConfigurationError, match="has no groups"):
        await hub.by_group("q")
    await queue.admin.configure(groups="exclusive")
    await queue.publish_many(["a", "b"], group="a")
    await queue.publish("c", group="a", priority=3)
    await queue.publish_many(["d", "e"], group="d")
    await queue.publish("later", group="delayed", delay=60)
    held = await queue.claim(groups=["d"])
    found = await hub.by_group("q")
    assert {name: backlog.ready for name, backlog in found.items()} == {"a": 3, "": 1}
    assert found["a"].fence == (await queue.backlog()).fence
    assert list(await hub.by_group("q", count=1)) == ["a"]
    await queue.nack(held)
    assert (await hub.by_group("q"))["d"].ready == 2


async def test_partitions_without_messages_cost_a_few_commands_however_many_there_are(
    hub: WaitHub, async_redis_client: redis.asyncio.Redis
) -> None:
    await async_redis_client.sadd("rmq:queues", *(f"q/{number}" for number in range(900)))
    async with LeasedQueue(async_redis_client, "q/held") as held, LeasedQueue(async_redis_client, "p/other") as other:
        await other.publish("a")
        await held.publish("a")
        await held.claim()
        await hub.by_partition("q")
        await async_redis_client.config_resetstat()
        assert {name: backlog.ready for name, backlog in (await hub.by_partition("q")).items()} == {"held": 0}
        calls = await async_redis_client.info("commandstats")
        sent = ("smembers", "eval", "evalsha")
        assert sum(calls.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in sent) == len(DISCIPLINES) + 3


async def test_a_backlog_shows_whether_anything_was_claimed_since_the_one_before(queue: LeasedQueue) -> None:
    await queue.publish_many(["a", "b"])
    first = await queue.backlog()
    await queue.publish("c")
    await queue.claim()
    claimed = await queue.backlog()
    assert claimed.fence != first.fence
    await queue.publish("d")
    await queue.admin.pause()
    assert await queue.claim() is None
    assert (await queue.backlog()).fence == claimed.fence


async def test_an_old_message_is_enough(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.publish("x")
    backlog = await hub.wait("q", min_messages=100, max_age=0.2, timeout=PATIENCE_S)
    assert backlog.ready == 1
    assert backlog.oldest_age is not None
    assert backlog.oldest_age >= 0.2


async def test_a_message_that_becomes_due_ends_the_wait(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.publish("x", delay=0.2)
    assert (await hub.wait("q", timeout=PATIENCE_S)).ready == 1


async def test_a_message_delayed_during_the_wait_ends_it_when_it_is_due(hub: WaitHub, queue: LeasedQueue) -> None:
    waiting = asyncio.create_task(hub.wait("q"))
    await watched(queue.client, "q")
    await queue.publish("x", delay=0.1)
    assert (await asyncio.wait_for(waiting, PATIENCE_S)).ready == 1


async def test_an_expired_lease_ends_the_wait(hub: WaitHub, queue: LeasedQueue) -> None:
    await queue.publish("x")
    await queue.claim(lease=0.2)
    assert (await hub.wait("q", timeout=PATIENCE_S)).ready == 1


@pytest.mark.parametrize("step", ["release", "nack", "redrive", "resume"])
async def test_everything_that_makes_messages_ready_sends_a_notification(
    hub: WaitHub, async_redis_client: Any, step: str
) -> None:
    async with LeasedQueue(async_redis_client, "q", LeasedConfig(max_deliveries=1)) as strict:
        await strict.publish_many(["x", "y"])
        lease = await strict.claim(max_messages=2)
        assert lease is not None
        if step in {"redrive", "resume"}:
            await strict.nack(lease)
        patient = LeasedQueue(async_redis_client, "q")
        waiting = asyncio.create_task(hub.wait("q"))
        await watched(async_redis_client, "q")
        if step == "resume":
            await strict.admin.pause()
            await strict.admin.resume()
            await strict.admin.redrive()
        else:
            await (patient.admin.redrive() if step == "redrive" else getattr(patient, step)(lease))
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).ready == 2
        await patient.close()


async def test_many_waits_on_many_queues_need_few_connections(server_url: str, redis_client: Any) -> None:
    settings = RedisSettings.from_url(server_url, client_name="hub")
    patient = RedisSettings.from_url(server_url, socket_connect_timeout=PATIENCE_S, socket_timeout=PATIENCE_S)
    async with WaitHub(settings) as hub, LeasedQueue(patient, "unused") as publisher:
        names = [f"q{n}" for n in range(60)]
        waits = [asyncio.create_task(hub.wait(name)) for name in names for _ in range(5)]
        await watched(publisher.client, *names)
        mine = [connection for connection in redis_client.client_list() if connection["name"] == "hub"]
        assert len(mine) <= 6
        for name in names:
            async with LeasedQueue(publisher.client, name) as queue:
                await queue.publish("x")
        found = await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S)
        assert [backlog.ready for backlog in found] == [1] * 300


async def test_one_backlog_query_answers_all_waits_on_a_queue(
    hub: WaitHub, queue: LeasedQueue, redis_client: Any
) -> None:
    waits = [asyncio.create_task(hub.wait("q", min_messages=1 + n % 2)) for n in range(100)]
    await watched(queue.client, "q")
    before = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    await queue.publish_many(["a", "b"])
    await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S)
    assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 4


async def test_one_notification_is_sent_for_any_number_of_published_messages(
    hub: WaitHub, queue: LeasedQueue, redis_client: Any
) -> None:
    waiting = asyncio.create_task(hub.wait("q", min_messages=200))
    await watched(queue.client, "q")
    before = redis_client.info("commandstats").get("cmdstat_publish", {"calls": 0})["calls"]
    for n in range(200):
        await queue.publish(str(n))
    assert (await asyncio.wait_for(waiting, PATIENCE_S)).ready == 200
    rings = redis_client.info("commandstats")["cmdstat_publish"]["calls"] - before
    assert 1 <= rings <= 100


async def test_a_cancelled_wait_leaves_the_others_waiting(hub: WaitHub, queue: LeasedQueue) -> None:
    one, two = (asyncio.create_task(hub.wait("q")) for _ in range(2))
    await watched(queue.client, "q")
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    await queue.publish("x")
    assert (await asyncio.wait_for(two, PATIENCE_S)).ready == 1


async def test_a_key_of_a_wrong_type_fails_all_waits_on_its_queue(hub: WaitHub, async_redis_client: Any) -> None:
    waits = [asyncio.create_task(hub.wait("q")) for _ in range(3)]
    await watched(async_redis_client, "q")
    await async_redis_client.set(key("ready"), "foreign")
    hub._notify(key("channel").encode())
    errors = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), PATIENCE_S)
    assert [type(error).__name__ for error in errors] == ["WrongKeyType"] * 3
    await async_redis_client.delete(key("ready"))
    with pytest.raises(TimeoutError):
        await hub.wait("q", timeout=0.05)


async def test_an_unreachable_server_is_reported(server_url: str) -> None:
    async with WaitHub("redis://127.0.0.1:1/0", LeasedConfig(retry_budget=0.05)) as hub:
        with pytest.raises(QueueUnavailable):
            await hub.wait("q", timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("parameter", "value"), [("min_messages", 0), ("max_age", -1), ("timeout", "x"), ("timeout", -1)]
)
async def test_a_wait_with_a_wrong_argument_names_it(hub: WaitHub, parameter: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        await hub.wait("q", **{parameter: value})
    with pytest.raises(ConfigurationError, match="name"):
        await hub.wait("a{b}")
    assert hub._watches == {}


async def test_waits_outlive_a_restart_of_redis(server: Server | External, caplog: pytest.LogCaptureFixture) -> None:
    own = start_server(server.name)
    try:
        async with WaitHub(own.url) as hub, LeasedQueue(own.url, "q") as queue:
            waiting = asyncio.create_task(hub.wait("q"))
            await watched(queue.client, "q")
            with caplog.at_level(logging.ERROR):
                await asyncio.to_thread(own.restart)
                await queue.publish("x")
                assert (await asyncio.wait_for(waiting, PATIENCE_S)).ready == 1
    finally:
        own.stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with contextlib.closing(Cluster("7.0")) as made:
        yield made


@pytest.fixture
def without_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waits end by notifications only, and let a silent server be noticed soon."""
    monkeypatch.setattr(hub_module, "_LONGEST_S", 3600.0)
    monkeypatch.setattr(pubsub_module, "_PATIENCE_S", 0.5)


@pytest.mark.usefixtures("without_polls")
@pytest.mark.parametrize("fault", [Server.kill9, Server.pause])
async def test_on_a_cluster_waits_on_every_node_outlive_the_fail_over_of_the_node_with_the_subscriptions(
    cluster: Cluster, fault: Callable[[Server], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "_LONGEST_S", 30.0)  # nodes that link up again may lose a notification
    names = [name_on(number) for number in range(3)]
    async with WaitHub(f"{cluster.url}?socket_timeout=1") as hub:
        waits = [asyncio.create_task(hub.wait(name)) for name in names]
        (hit,) = await eventually_later(lambda: subscribed(cluster, names))
        await asyncio.to_thread(cluster.fail_over, hit, fault)
        await eventually_later(lambda: subscribed(cluster, names))
        async with cluster_client(cluster) as client:
            await watched(client, *names)
            for name in names:
                async with LeasedQueue(client, name) as queue:
                    await queue.publish("x")
        found = await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S)
        assert [backlog.ready for backlog in found] == [1] * 3


@pytest.mark.usefixtures("without_polls")
async def test_on_a_cluster_each_queue_is_read_on_its_own_node(cluster: Cluster) -> None:
    async with cluster_client(cluster) as client, WaitHub(client) as hub:
        names = [f"q{n}" for n in range(6)]
        queues = [LeasedQueue(client, name) for name in names]
        await queues[0].publish("x")
        assert await queues[0].claim(lease=0.5) is not None
        waits = [asyncio.create_task(hub.wait(name)) for name in names]
        await watched(client, *names)
        for queue in queues[1:]:
            await queue.publish("x")
        found = await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S)
        assert [backlog.ready for backlog in found] == [1] * 6
        for queue in queues:
            await queue.close()


def cluster_client(cluster: Cluster) -> redis.asyncio.RedisCluster:
    return redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.ports[0])


async def subscribed(cluster: Cluster, names: list[str]) -> list[Server]:
    """Return the nodes at which all these queues have a subscription."""
    channels = {key("channel", name).encode() for name in names}
    nodes = []
    for node in cluster.nodes:
        with node.client() as client:
            if channels <= set(client.pubsub_channels()):
                nodes.append(node)
    return nodes
