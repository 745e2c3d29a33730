"""On a cluster a driver sends the calls of a queue to the node that has its slot, and follows it when it moves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from typing import Any

import pytest
from redis import exceptions as redis_errors

from rmq_core.exchange import Call, aio_pools
from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.loading import Script
from rmq_core.exchange.sync import SyncDriver
from tests.core.exchange.wire import AsyncConnection, Client, Reply, Wire

CALL = Call(Script("test", b"return 1", b"f" * 40, has_slot=True), (b"key",))
PREFIX, SLOT = b"rmq:{q}:", 11


class Cluster:
    """As much of a redis-py cluster client, and of its `nodes_manager`, as a driver uses; it has two nodes.

    The queue lives on the first node. Where it lives after a move is known once the cluster is read again.
    """

    def __init__(self) -> None:
        self.nodes_manager = self
        self.nodes = Wire(), Wire()
        self.refreshes = self._owner = 0

    def keyslot(self, key: bytes) -> int:
        assert key == PREFIX
        return SLOT

    def get_node_from_slot(self, slot: int) -> Wire:
        assert slot == SLOT
        return self.nodes[self._owner]

    def get_default_node(self) -> Wire:
        return self.nodes[1 - self._owner]

    def get_redis_connection(self, node: Wire) -> Client:
        return Client(node)

    def initialize(self) -> Any:
        self.refreshes += 1
        self._owner = 1


class AsyncNode(Client):
    def acquire_connection(self) -> AsyncConnection:
        return ToConnect(self.wire)


class ToConnect(AsyncConnection):
    async def connect(self) -> None:
        self.wire.opened += 1


class AsyncCluster(Cluster):
    """The asyncio version of Cluster. Its client refreshes at the cluster at first, and its `nodes_manager` again."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes_manager = Again(self)

    def get_node_from_key(self, key: str) -> AsyncNode:
        return AsyncNode(self.get_node_from_slot(self.keyslot(key.encode())))

    def get_random_node(self) -> AsyncNode:
        return AsyncNode(self.get_default_node())

    async def initialize(self) -> None: ...


class Again:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def initialize(self) -> None:
        Cluster.initialize(self.cluster)


@pytest.fixture(params=[Cluster, AsyncCluster], ids=["sync", "async"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    made: Cluster = request.param()
    return made


def ask(cluster: Cluster, *replies: Reply) -> Any:
    """Make one call, where the queue lives; later replies are of the node that it moves to."""

    def operation() -> Generator[Any, Any, Any]:
        return (yield CALL)

    for node, reply in zip(cluster.nodes, replies, strict=False):
        node.replies = [reply]
    driver: Any = (AsyncDriver if isinstance(cluster, AsyncCluster) else SyncDriver)(cluster, PREFIX, 0)
    result = driver.run(operation())
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def test_a_call_goes_to_the_node_that_has_the_slot_of_its_queue(cluster: Cluster) -> None:
    assert ask(cluster, b"ok") == b"ok"
    assert [len(node.sent) for node in cluster.nodes] == [1, 0]
    assert cluster.refreshes == 0


@pytest.mark.parametrize("reply", [redis_errors.MovedError("11 h:1"), redis_errors.ConnectionError("the node is gone")])
def test_a_call_whose_queue_has_moved_is_sent_again_to_its_new_node(cluster: Cluster, reply: Exception) -> None:
    assert ask(cluster, reply, b"ok") == b"ok"
    first, second = (node.sent for node in cluster.nodes)
    assert first == second
    assert cluster.refreshes == 1


def test_a_node_may_be_asked_like_a_pool_of_redis_py_before_5_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver passes the name of the command to such a pool."""
    monkeypatch.setattr(aio_pools, "POOL_ARGS", ("_",))
    assert ask(AsyncCluster(), b"ok") == b"ok"
