"""On a cluster a driver sends the calls of a queue to the node that has its slot, and follows it when it moves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from typing import Any

import hiredis
import pytest
from redis import exceptions as redis_errors
from tenacity import RetryCallState

from rmq_core.exchange import Call, Chain, Command, Patience, Pipeline, Want, aio_pools, frames
from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.loading import Script
from rmq_core.exchange.resending import terms
from rmq_core.exchange.sync import SyncDriver
from tests.core.exchange.wire import AsyncConnection, Client, Reply, Wire

CALL = Call(Script("test", b"return 1", b"f" * 40, has_slot=True), (b"key",))
LOOK = Call(Script("look", b"return 2", b"e" * 40, has_slot=False), (b"key",))
PREFIX, SLOT = b"rmq:{q}:", 11
ASK, TRY_AGAIN = redis_errors.AskError("11 h:1"), redis_errors.TryAgainError("Multiple keys request")
MOVED, GONE = redis_errors.MovedError("11 h:1"), redis_errors.ConnectionError("the node is gone")


class Cluster:
    """As much of a redis-py cluster client, and of its `nodes_manager`, as a driver uses; it has two nodes.

    The queue lives on the first node. Where it lives after a move is known once the cluster is read again.
    """

    def __init__(self) -> None:
        self.nodes_manager = self
        self.nodes = Wire(), Wire()
        for number, node in enumerate(self.nodes):
            node.name = f"h:{number}"  # type: ignore[attr-defined]
        self.refreshes = self._owner = 0
        self.failed: list[str] = []

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

    def get_node(self, host: str, port: int) -> Wire | None:
        return self.nodes[port] if (host, port) in {("h", 0), ("h", 1)} else None

    def remap_host_port(self, host: str, port: int) -> tuple[str, int]:
        return host, port

    def initialize(self, last_failed_node_name: str = "") -> Any:
        self.refreshes += 1
        self.failed.append(last_failed_node_name)
        self._owner = 1


class AsyncNode(Client):
    @property
    def name(self) -> str:
        name: str = self.wire.name  # type: ignore[attr-defined]
        return name

    def acquire_connection(self) -> AsyncConnection:
        return ToConnect(self.wire)


class ToConnect(AsyncConnection):
    async def connect(self) -> None:
        self.wire.opened += 1


class AsyncCluster(Cluster):
    """The asyncio version of Cluster. Its client refreshes at the cluster at first, and its `nodes_manager` again."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes_manager: Any = Again(self)

    def get_node_from_key(self, key: str) -> AsyncNode:
        return AsyncNode(self.get_node_from_slot(self.keyslot(key.encode())))

    def get_node(self, host: str, port: int) -> AsyncNode | None:  # type: ignore[override]
        found = super().get_node(host, port)
        return None if found is None else AsyncNode(found)

    def get_random_node(self) -> AsyncNode:
        return AsyncNode(self.get_default_node())

    async def initialize(self) -> None: ...


class Again:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def remap_host_port(self, host: str, port: int) -> tuple[str, int]:
        return host, port

    async def initialize(self, **given: str) -> None:
        Cluster.initialize(self.cluster, **given)


@pytest.fixture(params=[Cluster, AsyncCluster], ids=["sync", "async"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    made: Cluster = request.param()
    return made


def ask(cluster: Cluster, *replies: Reply) -> Any:
    """Make one call, where the queue lives; later replies are of the node that it moves to."""
    return answers(cluster, CALL, *([reply] for reply in replies))


def answers(cluster: Cluster, want: Want, *replies: list[Reply], budget_s: float = 0, beside: Any = None) -> Any:
    """Make a request; return its result. Each node has a list of the replies that it gives."""

    def operation() -> Generator[Any, Any, Any]:
        return (yield want)

    for node, own in zip(cluster.nodes, replies, strict=False):
        node.replies = own
    driver: Any = (AsyncDriver if isinstance(cluster, AsyncCluster) else SyncDriver)(cluster, PREFIX, budget_s)
    driver.beside = beside
    result = driver.run(operation())
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def test_a_call_goes_to_the_node_that_has_the_slot_of_its_queue(cluster: Cluster) -> None:
    assert ask(cluster, b"ok") == b"ok"
    assert [len(node.sent) for node in cluster.nodes] == [1, 0]
    assert cluster.refreshes == 0


@pytest.mark.parametrize("reply", [MOVED, GONE])
def test_a_call_whose_queue_has_moved_is_sent_again_to_its_new_node(cluster: Cluster, reply: Exception) -> None:
    assert ask(cluster, reply, b"ok") == b"ok"
    first, second = (node.sent for node in cluster.nodes)
    assert first == second
    assert cluster.refreshes == 1


def test_a_node_may_be_asked_like_a_pool_of_redis_py_before_5_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver passes the name of the command to such a pool."""
    monkeypatch.setattr(aio_pools, "POOL_ARGS", ("_",))
    assert ask(AsyncCluster(), b"ok") == b"ok"


def commands(node: Wire) -> list[list[bytes]]:
    """Return the commands that a node got."""
    reader = hiredis.Reader()
    reader.feed(b"".join(node.sent))
    return [*iter(reader.gets, False)]


class Beside:
    """Settings that a driver reads with every write."""

    look_at, unrecorded = 0.0, frozenset[str]()

    def __init__(self) -> None:
        self.taken: list[Reply] = []

    def along(self, name: str) -> tuple[Any, ...]:
        del name
        return "GET", b"settings"

    def take(self, reply: Reply) -> None:
        self.taken.append(reply)


def test_what_changes_nothing_is_asked_of_the_node_to_which_its_key_has_moved(cluster: Cluster) -> None:
    found = answers(cluster, LOOK, [ASK], [b"OK", b"found"])
    assert found == b"found"
    assert commands(cluster.nodes[1]) == [[b"ASKING"], [b"EVAL", b"return 2", b"1", b"key"]]
    assert cluster.refreshes == cluster.nodes[0].closed == 0


def test_only_those_commands_follow_that_their_node_refused(cluster: Cluster) -> None:
    """The next node has no other key yet, and would answer that it does not exist."""
    want = Pipeline((Command(("GET", b"stays")), Command(("GET", b"moved")), LOOK))
    assert answers(cluster, want, [b"here", ASK, ASK], [b"OK", b"there", b"OK", b"too"]) == [b"here", b"there", b"too"]
    assert [each[-1] for each in commands(cluster.nodes[1])] == [b"ASKING", b"moved", b"ASKING", b"key"]


def test_settings_that_a_moving_slot_does_not_have_keep_no_call_from_ending(cluster: Cluster) -> None:
    beside = Beside()
    assert answers(cluster, CALL, [b"done", ASK], [b"OK", None], beside=beside) == b"done"
    assert beside.taken == [None]
    assert commands(cluster.nodes[1]) == [[b"ASKING"], [b"GET", b"settings"]]


@pytest.mark.parametrize("refused", [[ASK], [TRY_AGAIN]])
@pytest.mark.parametrize("want", [CALL, Chain((CALL,))])
def test_a_script_that_changes_data_waits_for_the_end_of_the_move(
    cluster: Cluster, want: Want, refused: list[Reply]
) -> None:
    result = answers(cluster, want, [*refused, *refused, b"done"], budget_s=9)
    assert result in (b"done", [b"done"])
    assert [len(node.sent) for node in cluster.nodes] == [3, 0]
    assert cluster.refreshes == cluster.nodes[0].closed == 0


@pytest.mark.parametrize("refusal", [ASK, TRY_AGAIN, redis_errors.MovedError("11 h:2")])
def test_a_refusal_of_the_next_node_means_to_send_the_call_again(cluster: Cluster, refusal: Exception) -> None:
    assert answers(cluster, LOOK, [ASK, b"ok"], [b"OK", refusal, b"ok"], budget_s=9) == b"ok"


def test_a_node_that_the_client_does_not_know_yet_is_not_asked(cluster: Cluster) -> None:
    unknown = redis_errors.AskError("11 elsewhere:7")
    assert answers(cluster, LOOK, [unknown, b"ok"], budget_s=9) == b"ok"


def test_a_call_is_sent_again_soon_after_the_end_of_a_move() -> None:
    """A server that is away gets the longer pauses, because many clients wait for it."""
    pause_s = terms(Patience(30))["wait"]

    def after(error: Exception) -> float:
        state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
        state.attempt_number = 9
        state.set_exception((type(error), error, None))
        return float(pause_s(state))

    assert [after(error) for error in (ASK, TRY_AGAIN, MOVED)] == [0.1] * 3
    assert after(GONE) >= 1


def test_the_cluster_is_read_again_right_before_an_attempt_and_the_node_that_failed_is_asked_last(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says before the pause may be old after it. A silent node costs a timeout."""
    read: list[int] = []

    async def later(*_: Any) -> None:
        read.append(cluster.refreshes)

    monkeypatch.setattr(frames, "_ASKS_LAST", True)
    monkeypatch.setattr(SyncDriver, "_nap", lambda *_: read.append(cluster.refreshes))
    monkeypatch.setattr(AsyncDriver, "_nap", later)
    assert answers(cluster, CALL, [GONE], [GONE, GONE, b"ok"], budget_s=9) == b"ok"
    assert [*read, cluster.refreshes] == [1, 2, 3]
    assert cluster.failed == ["h:0", "h:1", "h:1"]
