"""One wait hub for each server and event loop, for any number of waiting triggers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, closing
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_airflow import waiting
from rmq_airflow import waiting as wait_hubs
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_airflow.triggers.depth import RedisQueueDepthTrigger
from rmq_airflow.triggers.sensor import RedisQueuePublicationTrigger, RedisQueueTrigger
from rmq_airflow.triggers.shared_stream import RedisQueueSharedStreamTrigger
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from rmq_airflow.waiting import shared_hub
from rmq_core import LeasedQueue
from rmq_core.orchestrate import waiting as hub
from tests.airflow.conftest import QUEUE
from tests.airflow.home import ROOT
from tests.faults.patience import PATIENCE_S, eventually_async
from tests.servers import Cluster, Server, name_on


async def outcome(trigger: RedisQueueTrigger | RedisQueuePublicationTrigger) -> dict[str, Any]:
    (event,) = [event async for event in trigger.run()]
    return dict(event.payload)


async def test_triggers_of_one_server_share_two_connections(connection: str, queue: LeasedQueue) -> None:
    def connections() -> int:
        return sum(client["user"] == "airflow" for client in queue.client.client_list())

    names = [f"{QUEUE}-{n}" for n in range(20)]
    waits = [asyncio.create_task(outcome(RedisQueueTrigger(name))) for name in names for _ in range(5)]
    await eventually_async(connections)
    await asyncio.sleep(1)
    assert connections() <= 2
    for name in names:
        with LeasedQueue(queue.client, name) as other:
            other.publish("one")
    assert {found["report"]["ready"] for found in await asyncio.gather(*waits)} == {1}
    await eventually_async(lambda: connections() == 0)


async def test_triggers_that_start_together_read_their_connection_once(
    connection: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    look_up = RedisQueueHook.async_location

    async def counted(hook: RedisQueueHook, needed: str) -> Any:
        looked_up.append(hook.redis_queue_conn_id)
        return await look_up(hook, needed)

    monkeypatch.setattr(RedisQueueHook, "async_location", counted)
    queue.publish("one")
    await asyncio.gather(*(outcome(RedisQueueTrigger(QUEUE)) for _ in range(50)))
    assert looked_up == [connection]


IMPORTS = """
import asyncio, sys, threading
from rmq_airflow.waiting import shared_hub

in_the_loop = []

def imported(event, args):
    if event == "import" and args[0] == "redis.asyncio":
        in_the_loop.append(threading.current_thread() is threading.main_thread())

async def use():
    async with shared_hub("redis_queue_default"):
        print("in the loop:", in_the_loop)

sys.addaudithook(imported)
asyncio.run(use())
"""


def test_the_first_trigger_does_not_hold_up_the_event_loop_while_it_imports_the_client(connection: str) -> None:
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTS], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert "in the loop: [False]" in made.stdout


async def test_a_hub_is_closed_with_its_last_user_and_not_earlier(connection: str) -> None:
    async with shared_hub(connection) as first:
        async with shared_hub(connection) as second:
            assert first is second
        patient = asyncio.create_task(first.wait(QUEUE))
        await asyncio.sleep(0.2)
        assert not patient.done()
    with pytest.raises(asyncio.CancelledError):
        await patient
    async with shared_hub(connection) as third:
        assert third is not first


async def test_each_event_loop_has_its_own_hub(connection: str) -> None:
    async def hub_of_this_loop() -> Any:
        async with shared_hub(connection) as hub:
            return hub

    async with shared_hub(connection) as mine:
        assert await asyncio.to_thread(lambda: asyncio.run(hub_of_this_loop())) is not mine


async def test_a_redis_that_hangs_does_not_keep_a_trigger_from_ending(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed, closed = asyncio.Event(), asyncio.Event()
    close = wait_hubs.WaitHub.aclose

    async def once_it_answers(hub: Any) -> None:
        await resumed.wait()  # however long it hangs
        await close(hub)
        closed.set()

    monkeypatch.setattr(wait_hubs.WaitHub, "aclose", once_it_answers)
    waits = [asyncio.create_task(outcome(RedisQueueTrigger(QUEUE, redis_queue_conn_id="own"))) for _ in range(3)]
    with own_server.client() as client:
        await eventually_async(lambda: client.zscore(f"rmq:{{{QUEUE}}}:waiters", "*"))
    own_server.pause()
    async with asyncio.timeout(PATIENCE_S):
        for wait in waits:
            wait.cancel("User action: the task was cleared.")
        await asyncio.gather(*waits, return_exceptions=True)
        assert all(wait.cancelled() for wait in waits)
        own_server.resume()
        resumed.set()
        await closed.wait()


async def test_a_second_cancellation_does_not_interrupt_closing(
    connection: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, cancelled, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    close = wait_hubs.WaitHub.aclose

    async def slowly(hub: Any) -> None:
        closing.set()
        await cancelled.wait()
        await close(hub)
        closed.set()

    monkeypatch.setattr(wait_hubs.WaitHub, "aclose", slowly)
    monkeypatch.setattr(wait_hubs, "CLOSING_S", PATIENCE_S)
    wait = asyncio.create_task(outcome(RedisQueueTrigger(QUEUE)))
    await eventually_async(lambda: queue.client.zscore(f"rmq:{{{QUEUE}}}:waiters", "*"))
    wait.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await closing.wait()
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)
        cancelled.set()
        await closed.wait()


async def test_triggers_retry_at_different_times_and_log_an_outage_once(
    own_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    naps: list[float] = []
    counted: list[str] = []
    monkeypatch.setattr(waiting, "RECONNECT_S", (0.1, 0.5))
    monkeypatch.setattr(waiting.Stats, "incr", lambda name, **_: counted.append(name))
    fields = json.dumps({"conn_type": "redis_queue", "host": "127.0.0.1", "port": own_server.port})
    monkeypatch.setenv("AIRFLOW_CONN_OWN", fields)
    draw = waiting.random.uniform
    monkeypatch.setattr(waiting.random, "uniform", lambda lo, hi: naps.append(draw(lo, hi)) or naps[-1])
    monkeypatch.setattr(RedisQueueHook, "async_location", impatient(RedisQueueHook.async_location))
    own_server.kill9()
    waits = [asyncio.create_task(outcome(RedisQueueTrigger(QUEUE, redis_queue_conn_id="own"))) for _ in range(4)]
    await eventually_async(lambda: len(naps) >= 12)
    await asyncio.to_thread(own_server.restart)
    with LeasedQueue(own_server.url, QUEUE) as queue:
        queue.publish("one")
    assert {found["status"] for found in await asyncio.gather(*waits)} == {"success"}
    assert len(set(naps[:4])) == 4
    assert all(0.1 <= nap <= 0.5 for nap in naps[:4])
    assert counted.count("rmq.trigger.redis_unavailable") == len(naps)
    assert capsys.readouterr().out.count("continues when Redis is back") == 4


async def test_a_wait_for_a_publication_goes_on_after_an_outage(
    own_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = asyncio.Event()
    monkeypatch.setattr(waiting, "RECONNECT_S", (0.1, 0.2))
    monkeypatch.setattr(waiting.Stats, "incr", lambda *_, **__: away.set())
    monkeypatch.setattr(RedisQueueHook, "async_location", impatient(RedisQueueHook.async_location))
    with LeasedQueue(own_server.url, QUEUE) as queue:
        queue.admin.configure(groups="exclusive")
        queue.publish_many(["a", "b"], publication="report")
        trigger = RedisQueuePublicationTrigger(QUEUE, "report", redis_queue_conn_id="own")
        wait = asyncio.create_task(outcome(trigger))
        await eventually_async(lambda: queue.client.zscore(f"rmq:{{{QUEUE}}}:waiters", "*"))
        own_server.kill9()
        async with asyncio.timeout(PATIENCE_S):
            await away.wait()
            await asyncio.to_thread(own_server.restart)
            queue.ack(queue.claim(max_messages=2))
            assert (await wait)["report"]["acked"] == 2
    assert "Redis is back" in capsys.readouterr().out


def impatient(look_up: Any) -> Any:
    """Return a look-up whose waits time out at once, instead of after half a minute."""

    async def location(hook: RedisQueueHook, needed: str) -> Any:
        from dataclasses import replace

        settings, config = await look_up(hook, needed)
        return settings, replace(config, retry_budget=0.05)

    return location


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with closing(Cluster("7.0")) as made:
        yield made


@pytest.fixture
def on_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a connection to the cluster; return its id."""
    fields = {"host": "127.0.0.1", "port": cluster.ports[0], "extra": {"cluster": True}}
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_QUEUE_DEFAULT", json.dumps({"conn_type": "redis_queue", **fields}))
    return "redis_queue_default"


async def of_stream(queue: str) -> Any:
    """Return the event of the first message that the shared stream of a queue reads, and ack it."""
    reader = RedisQueueSharedStreamTrigger.create_shared_stream_producer({"redis_queue": queue})
    async with aclosing(reader), aclosing(reader.open_stream()) as stream:
        read, held = await anext(stream)
        await reader.advance([(held, SimpleNamespace(rejected=False, is_clean=True, failed=False))])
        return read.event


async def of_trigger(trigger: Any) -> Any:
    return (await anext(trigger.run())).payload


async def of_sensor(queue: str) -> Any:
    sensor = RedisQueueSensor(task_id="wait", redis_queue=queue, poke_interval=0.05)
    return await asyncio.to_thread(sensor.execute, {})


WAITS: dict[str, Callable[[str], Awaitable[Any]]] = {
    "RedisQueueTrigger": lambda queue: of_trigger(RedisQueueTrigger(queue)),
    "RedisQueueDoorbellTrigger": lambda queue: of_trigger(RedisQueueDoorbellTrigger(queue)),
    "RedisQueueDepthTrigger": lambda queue: of_trigger(RedisQueueDepthTrigger(queue, "depth", poll_interval=0.1)),
    "RedisQueueSharedStreamTrigger": of_stream,
    "RedisQueueSensor": of_sensor,
}


@pytest.mark.parametrize("wait", WAITS)
async def test_each_trigger_and_sensor_ends_its_wait_for_queues_on_every_node_of_a_cluster(
    cluster: Cluster, on_cluster: str, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    monkeypatch.setattr(hub, "_LONGEST_S", 3600.0)  # only notifications end a wait
    works, text = await asyncio.to_thread(RedisQueueHook(on_cluster).test_connection)
    assert works, text
    names = [name_on(number) for number in range(3)]
    waits = [asyncio.create_task(WAITS[wait](name)) for name in names]
    with cluster.client() as client:
        if wait not in {"RedisQueueDepthTrigger", "RedisQueueSensor"}:
            await eventually_async(lambda: all(client.zscore(f"rmq:{{{name}}}:waiters", "*") for name in names))
        for name in names:
            with LeasedQueue(client, name) as queue:
                queue.publish("one")
        async with asyncio.timeout(PATIENCE_S):
            assert all(await asyncio.gather(*waits))
        for name in names:
            with LeasedQueue(client, name) as queue:
                queue.admin.purge("ready")
