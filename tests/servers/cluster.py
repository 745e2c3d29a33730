"""Clusters of three masters, and slots that move between them while clients work."""

from __future__ import annotations

import gc
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
from redis.crc import key_slot

from tests.servers.process import START_S, Server, free_port, on_free_ports, start_server, until

MASTERS = 3
BATCH = 2  # keys that move at once; few, so that a slot's keys are on both nodes during most of its move
SILENT_MS = 30_000  # the silence after which the others refuse to work; longer than a loaded machine stalls


class Cluster:
    """Three masters that share the slots: `url`, `nodes`, and the way a slot moves.

    args: further arguments of every node. login: the credentials of a user who may do everything. tls: the arguments
    that make a node listen with TLS on a port, which is then the port that nodes and clients use.
    """

    def __init__(
        self,
        name: str,
        *args: str,
        login: dict[str, str] | None = None,
        tls: Callable[[int], list[str]] | None = None,
    ) -> None:
        self.name = name
        self._login = login or {}
        self._ends = ExitStack()
        self.nodes: list[Server] = []
        self.ports: list[int] = []
        self._buses: list[int] = []
        try:
            for _ in range(MASTERS):
                on_free_ports(lambda: self._start(args, tls))
            self._introduce()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The URL at which clients learn of all nodes."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{port}' for port in self.ports)}"

    def client(self) -> redis.RedisCluster:
        """A plain client, for access without the library, made once all nodes know of every failover."""
        until(lambda: len({_masters(client) for _, client in self._each()}) == 1, START_S)
        return redis.RedisCluster(host="127.0.0.1", port=self.ports[0])

    def owner(self, key: str) -> Server:
        """Return the node that serves the slot of a key."""
        mine = [node for node, client in self._each() if _serves(client, key_slot(key.encode()))]
        assert len(mine) == 1, f"{len(mine)} nodes serve {key!r}"
        return mine[0]

    def move_slot(
        self, key: str, target: Server, pause_s: float = 0, meanwhile: Callable[[], object] = lambda: None
    ) -> int:
        """Move the slot of a key to another node, a few keys at a time; return how many keys moved.

        meanwhile: called when all keys have moved, and the slot has not. See
        https://redis.io/docs/latest/commands/cluster-setslot/, "Redis Cluster live resharding explained".
        """
        slot, source = key_slot(key.encode()), self.owner(key)
        with source.client(**self._login) as leaving, target.client(**self._login) as entering:
            ids = _id(leaving), _id(entering)
            entering.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[0])
            leaving.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[1])
            moved = 0
            while keys := leaving.execute_command("CLUSTER GETKEYSINSLOT", slot, BATCH):
                leaving.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
                moved += len(keys)
                time.sleep(pause_s)
            meanwhile()
            entering.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[1])
            for _, client in self._each():
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[1])
            return moved

    def fail_over(self, node: Server, how: Callable[[Server], None] = Server.kill9) -> Server:
        """Give a node a replica, hit it with `how`, and let the replica take its place; return the replica.

        A node that a test only pauses keeps its connections, and answers none of them.
        """
        place = self.nodes.index(node)
        with node.client(**self._login) as client:
            master = _id(client)
        on_free_ports(lambda: self._start((), None))
        replica = self.nodes[-1]
        with replica.client(**self._login) as client:
            client.execute_command("CLUSTER MEET", "127.0.0.1", self.ports[0], self._buses[0])
            until(lambda: _replicates(client, master), START_S)
            until(lambda: client.info("replication").get("master_link_status") == "up", START_S)
            self._until_linked()  # what hits the node could keep the others from ever hearing of its replica
            # The other nodes accept a fail-over only with a higher epoch than they know.
            until(lambda: _epoch(client) >= max(_epoch(each) for _, each in self._each()), START_S)
            how(node)
            client.execute_command("CLUSTER FAILOVER", "TAKEOVER")
            until(lambda: client.info("replication")["role"] == "master", START_S)
        for known in (self.nodes, self.ports, self._buses):
            del known[place]
        self._until_linked()
        return replica

    def _until_linked(self) -> None:
        """Return when all nodes are connected to all others."""
        living = {_id(client) for _, client in self._each()}
        until(lambda: all(living <= _linked(client) for _, client in self._each()), START_S)

    def refusals(self) -> dict[str, int]:
        """Return how often nodes have answered ASK, MOVED or TRYAGAIN so far."""
        counted: Counter[str] = Counter()
        for _, client in self._each():
            for name, error in client.info("errorstats").items():
                counted[name.removeprefix("errorstat_")] += error["count"]
        return {name: counted[name] for name in ("ASK", "MOVED", "TRYAGAIN")}

    def close(self) -> None:
        """Stop all nodes.

        redis-py's asyncio client leaves connections to nodes open that left the cluster. Whenever they are collected,
        they warn, which would be an error of another test.
        """
        self._ends.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def _start(self, args: tuple[str, ...], tls: Callable[[int], list[str]] | None) -> None:
        port, bus = free_port() if tls else 0, free_port()
        listening = [*tls(port), "--tls-cluster", "yes"] if tls else []
        common = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(SILENT_MS), "--cluster-port", str(bus)]
        node = start_server(self.name, *common, *listening, *args)
        self._ends.callback(node.stop)
        self.nodes.append(node)
        self.ports.append(port or node.port)
        self._buses.append(bus)

    def _introduce(self) -> None:
        with ExitStack() as open_clients:
            clients = [open_clients.enter_context(node.client(**self._login)) for node in self.nodes]
            for number, client in enumerate(clients):  # equal epochs are settled later, perhaps during a fail-over
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            for number, client in enumerate(clients):
                mine = slots_of(number)
                client.execute_command("CLUSTER ADDSLOTSRANGE", mine[0], mine[-1])
                clients[0].execute_command("CLUSTER MEET", "127.0.0.1", self.ports[number], self._buses[number])
            until(lambda: all(map(_is_whole, clients)), START_S)

    def _each(self) -> Iterator[tuple[Server, redis.Redis]]:
        for node in self.nodes:
            with node.client(**self._login) as client:
                yield node, client


def slots_of(number: int) -> range:
    """Return the slots that the first, second or third master begins with."""
    return range(SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS)


def name_on(number: int) -> str:
    """Return a name of a queue that the first, second or third master serves at first."""
    return next(name for name in (f"q{n}" for n in range(100)) if key_slot(name.encode()) in slots_of(number))


def _id(client: redis.Redis) -> str:
    return str(client.execute_command("CLUSTER MYID").decode())


def _replicates(client: redis.Redis, master: str) -> bool:
    try:
        return bool(client.execute_command("CLUSTER REPLICATE", master))
    except redis.ResponseError:  # it does not know that node yet
        return False


def _serves(client: redis.Redis, slot: int) -> bool:
    mine = _id(client).encode()
    return any(
        first <= slot <= last and master[2] == mine
        for first, last, master, *_ in client.execute_command("CLUSTER SLOTS")
    )


def _epoch(client: redis.Redis) -> int:
    return int(client.cluster("INFO")["cluster_current_epoch"])


def _linked(client: redis.Redis) -> set[str]:
    """Return the nodes to which a node has a link: without one, notifications of its clients do not reach them."""
    nodes: Any = client.cluster("NODES")
    return {node["node_id"] for node in nodes.values() if node["connected"]}


def _masters(client: redis.Redis) -> frozenset[tuple[int, bytes]]:
    """Return the first slot of each range, with the id of its master."""
    return frozenset((first, master[2]) for first, _, master, *_ in client.execute_command("CLUSTER SLOTS"))


def _is_whole(client: redis.Redis) -> bool:
    """Return whether a node serves, and has a link to every other node: without one, notifications do not reach it."""
    nodes: Any = client.cluster("NODES")
    return client.cluster("INFO")["cluster_state"] == "ok" and all(node["connected"] for node in nodes.values())
