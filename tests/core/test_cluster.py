"""A cluster of three: what a queue needs from other nodes than its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from rmq_core import LeasedQueue, RedisSettings
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue
from rmq_core.errors import QueueUnavailable
from rmq_core.exchange import resending
from rmq_core.kernel.keys import QUEUES, queues_of
from rmq_core.protocol import DEFAULT, DISCIPLINES
from tests.core.conformance.kits import KITS, LONG_S
from tests.core.conformance.stages import STAGES, Place, Stage
from tests.core.leases import PATIENCE_S, eventually
from tests.servers import Cluster, Server, name_on


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with closing(Cluster("7.0")) as made:
        yield made


@pytest.fixture(params=list(STAGES))
def stage(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Stage]:
    made = STAGES[request.param](Place(cluster.name, f"{cluster.url}?socket_timeout=1", ""))
    yield made
    made.close()


@pytest.mark.parametrize("fault", [Server.kill9, Server.pause])
def test_new_queues_work_while_the_node_of_the_list_of_queues_is_away_and_join_the_list_when_it_is_back(
    cluster: Cluster, stage: Stage, fault: Callable[[Server], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = cluster.owner(QUEUES.decode())
    name = name_on((cluster.nodes.index(listing) + 1) % 3)
    queues = [stage.open(discipline, name, KITS[discipline].config(name, LONG_S)) for discipline in DISCIPLINES]

    def away(node: Server) -> None:
        fault(node)
        for queue in queues:
            exchanged(queue, 1)

    cluster.fail_over(listing, away)
    monkeypatch.setattr(resending, "_REST_S", 0.0)
    resending._resting.clear()
    for queue in queues:
        exchanged(queue, 2)
        queue.close()
    with cluster.client() as client:
        assert client.smembers(QUEUES) == {name.encode()}
        for discipline in DISCIPLINES:
            of_each = {discipline: client.smembers(queues_of(discipline)) for discipline in DISCIPLINES}
        assert of_each == {discipline: {name.encode()} for discipline in DISCIPLINES} | {DEFAULT: set()}


@pytest.mark.parametrize("discipline", ["leased", "jobs"])
def test_a_lease_is_extended_while_its_slot_moves_and_a_publish_waits_for_the_end(
    cluster: Cluster, stage: Stage, discipline: str
) -> None:
    """Both nodes refuse a script that names a key which does not exist, as that of an empty list."""
    queue, other = (stage.open(discipline, "q", KITS[discipline].config("q", LONG_S)) for _ in range(2))
    queue.publish({"order": 1})
    lease = queue.claim()
    source = cluster.owner("{q}")
    published = []

    def meanwhile() -> None:
        before = cluster.refusals()
        assert queue.extend(lease) is not None
        published.append(stage.in_background(other.publish, {"order": 2}))
        eventually(lambda: cluster.refusals()["ASK"] > before["ASK"] + 5)
        assert not published[0].done()
        assert queue.extend(lease) is not None

    for target in (next(node for node in cluster.nodes if node is not source), source):
        cluster.move_slot("{q}", target, meanwhile=meanwhile)
        assert published.pop().result(PATIENCE_S).accepted
    assert queue.ack(lease).settled == 1
    assert queue.stats()[:5] == (2, 0, 0, 0, 0)


def exchanged(queue: Any, number: int) -> None:
    """Publish a message and consume it."""
    payload = f"order-{number}" if queue.discipline == "rotation" else {"order": number}
    queue.publish(payload)
    lease = queue.claim()
    assert lease is not None, queue.discipline
    queue.ack(lease)


def test_a_client_that_cannot_be_made_says_that_the_server_does_not_answer(cluster: Cluster) -> None:
    made, unavailable = 0, 0
    for node in cluster.nodes:
        node.kill9()
        try:
            RedisSettings.from_url(cluster.url).client().close()
            made += 1
        except QueueUnavailable:  # of the node that redis-py asks for more than the slots
            unavailable += 1
        node.restart()
    assert (made, unavailable) == (2, 1)


async def test_an_asyncio_client_does_not_wait_long_for_a_shard_whose_node_hangs(cluster: Cluster) -> None:
    async with AsyncLeasedQueue(cluster.url, name_on(0)) as queue:
        await queue.admin.configure(shards=3)
        names = [each.name for each in await queue.admin.shards()]
        hanging = cluster.owner(f"{{{queue.name}~{names[-1]}}}")
        lost = [name for name in names[1:] if cluster.owner(f"{{{queue.name}~{name}}}") is hanging]
        assert hanging is not cluster.owner(f"{{{queue.name}}}")
        hanging.pause()
        try:
            began = time.monotonic()
            found = await queue.admin.shards()
            assert time.monotonic() - began < 4  # the socket timeout is five seconds
            assert [each.name for each in found if each.error] == lost
            assert (await queue.backlog()).ready == 0
        finally:
            hanging.resume()


def test_a_publish_succeeds_though_the_node_at_which_consumers_wait_hangs(cluster: Cluster) -> None:
    with LeasedQueue(f"{cluster.url}?socket_timeout=1", name_on(0)) as queue, cluster.client() as client:
        queue.admin.configure(shards=3)
        shards = [(each, f"{{{queue.name}~{each}}}") for each in queue.config.shards.names[1:]]
        waited_at = cluster.owner(f"{{{queue.name}}}")
        name, tag = next(each for each in shards if cluster.owner(each[1]) is not waited_at)
        client.zadd(f"rmq:shard:{tag}:waiters", {"@": (time.time() + 600) * 1000})  # as consumers do before they wait
        names = queue.config.shards.names
        queue._engine.shards._turn = names.index(name) - 1  # so the next message goes there
        waited_at.pause()
        try:
            assert queue.publish("x").accepted
        finally:
            waited_at.resume()
        assert queue.stats().ready == 1
