"""Queue objects that share the connection pool of an application, which uses it too."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import redis
import redis.asyncio

from rmq_core import LeasedConfig, RedisSettings
from rmq_core.asyncio import LeasedQueue as AsyncQueue
from rmq_core.errors import PoolExhausted
from rmq_core.exchange import pools
from rmq_core.protocol import DISCIPLINES
from tests.core.leases import PATIENCE_S, eventually, frequent_heartbeats, kept, share_of
from tests.core.worlds import World

WAITERS = 110
LEASE_S = 60


class Application:
    """An application with one pool: it makes clients of it, and uses them itself."""

    def __init__(self, world: World) -> None:
        self._module = redis if world.flavour == "sync" else redis.asyncio
        self._loop = getattr(world, "loop", None)
        settings = RedisSettings.from_url(world.url)
        self._place = {"host": settings.hosts[0][0], "port": settings.hosts[0][1], "db": settings.db}
        self._ends = ExitStack()

    def pool(self, kind: str = "ConnectionPool", **options: Any) -> Any:
        made = getattr(self._module, kind)(**self._place, **options)
        self._ends.callback(self.call, made.disconnect)
        return made

    def client(self, pool: Any) -> Any:
        return self._module.Redis(connection_pool=pool)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._loop.call(function, *args) if self._loop else function(*args)

    def pings(self, client: Any) -> bool:
        """Return whether a call of the application gets a connection."""
        try:
            return bool(self.call(client.ping))
        except redis.ConnectionError:
            return False

    def close(self) -> None:
        self._ends.close()


@pytest.fixture
def app(world: World) -> Iterator[Application]:
    made = Application(world)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    with frequent_heartbeats():
        yield


@pytest.mark.parametrize(
    ("kind", "limit"), [("ConnectionPool", 100), ("ConnectionPool", 10), ("BlockingConnectionPool", 1)]
)
def test_waiting_claims_leave_connections_to_heartbeats_and_acks(
    world: World, app: Application, kind: str, limit: int
) -> None:
    client = app.client(app.pool(kind, max_connections=limit))
    idle, work = world.queue("idle", settings=client), world.queue("work", LeasedConfig(lease=LEASE_S), settings=client)
    outside = world.queue("idle")
    assert idle.claim() is None
    with ThreadPoolExecutor(WAITERS) as threads:
        waiting = [threads.submit(idle.claim, wait=PATIENCE_S) for _ in range(WAITERS)]
        try:
            eventually(lambda: world.client.info("clients")["blocked_clients"] + len(share_of(idle).polling) == WAITERS)
            work.publish_many(["a", "b", "c"])
            with ExitStack() as handlers:
                for batch in [handlers.enter_context(work.process()) for _ in range(3)]:
                    kept(batch.lease, LEASE_S)
                eventually(lambda: app.pings(client))
        finally:
            outside.publish_many(map(str, range(WAITERS)))
        assert len({claimed.result().id for claimed in waiting}) == WAITERS
    assert [queue.stats()[:4] for queue in (work, idle)] == [(0, 0, 0, 0), (0, 0, WAITERS, WAITERS)]


@pytest.mark.parametrize("limit", [2, 20])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_any_number_of_queue_objects_leave_the_pool_to_the_application(
    world: World, app: Application, discipline: str, limit: int
) -> None:
    pool = app.pool(max_connections=limit)
    for number in range(limit + 5):
        client = app.client(pool)
        queue = world.open(discipline, f"q{number}", settings=client)
        queue.publish({"n": "1"} if discipline == "streams" else "x")
        if discipline == "streams":
            queue.enqueue({"n": "2"})
        assert app.call(client.ping)
        assert len(pool._in_use_connections) <= 1


def test_many_busy_callers_do_not_keep_heartbeats_from_a_connection(world: World, app: Application) -> None:
    client, stopped = app.client(app.pool(max_connections=3)), False
    busy, work = world.queue("busy", settings=client), world.queue("work", LeasedConfig(lease=LEASE_S), settings=client)

    def publish() -> None:
        while not stopped:
            busy.publish("x")

    work.publish("a")
    with ThreadPoolExecutor(20) as threads, work.process() as batch:
        publishing = [threads.submit(publish) for _ in range(20)]
        for _ in range(3):
            kept(batch.lease, LEASE_S)
        stopped = True
        assert [each.result() for each in publishing] == [None] * 20
    assert work.stats()[:4] == (0, 0, 0, 0)


def test_a_full_pool_is_named_with_its_limit_and_a_call_goes_on_when_it_has_room(
    world: World, app: Application
) -> None:
    pool = app.pool(max_connections=2)
    queue = world.queue(settings=app.client(pool), config=LeasedConfig(retry_budget=0.01))
    queue.publish("x")
    taken = [app.call(pool.get_connection) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "FULL_S", 0.05)
        with pytest.raises(PoolExhausted, match=r"max_connections=2\): raise `max_connections`"):
            queue.publish("x")
    publishing = world.in_background(queue.publish, "x")
    eventually(share_of(queue).turn.locked)
    for connection in taken:
        app.call(pool.release, connection)
    assert publishing.result().accepted


def test_closing_a_queue_reports_what_it_counted_though_its_connection_is_in_the_pool(
    world: World, app: Application
) -> None:
    queue = world.queue(settings=app.client(app.pool(max_connections=2)))
    queue.publish("x")
    queue.close()
    assert world.queue().admin.totals().published == 1


@pytest.mark.filterwarnings("ignore:.*unclosed")  # a loop that ends before its connections are closed leaves them so
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_small_pool_serves_one_event_loop_after_the_other(redis_client: redis.Redis, server_url: str) -> None:
    client = redis.asyncio.Redis.from_url(server_url, max_connections=2)
    queue = AsyncQueue(client, "q")

    async def publish() -> None:
        await asyncio.gather(*(queue.publish("x") for _ in range(4)))

    async def end() -> None:
        await publish()
        await client.aclose()

    asyncio.run(publish())
    asyncio.run(publish())
    asyncio.run(end())
    gc.collect()
    assert redis_client.llen("rmq:{q}:ready") == 12


async def test_bursts_of_tasks_take_each_connection_from_the_pool_once(
    redis_client: redis.Redis, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del redis_client  # it empties the server
    taken: list[Any] = []
    client: Any = redis.asyncio.Redis.from_url(server_url, max_connections=100)
    get, queue = client.connection_pool.get_connection, AsyncQueue(client, "q")

    async def counted(*args: Any) -> Any:
        taken.append(await get(*args))
        return taken[-1]

    await queue.publish("x")
    monkeypatch.setattr(client.connection_pool, "get_connection", counted)
    for _ in range(5):
        await asyncio.gather(*(queue.publish("x") for _ in range(40)))
    assert len(taken) < 60
    held = client.connection_pool._in_use_connections
    for _ in range(100):
        await asyncio.sleep(0.05)
        if len(held) <= 5:
            break
    assert len(held) <= 5
    await queue.close()
    await client.aclose()
