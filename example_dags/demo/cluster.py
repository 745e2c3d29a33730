"""A Redis Cluster on this machine: three masters, of the server that `embedded://` would start."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS

from example_dags.demo.processes import Child
from rmq_core import embedded

NODES = 3
PORTS = range(7001, 9000)
BUS = 10_000  # a node listens also this many ports above its own, for the other nodes
START_S = 60
SILENT_MS = 30_000  # the silence after which the others refuse to work; longer than Spark starves a node


class Cluster:
    """Nodes with equal parts of the slots; their files are below `folder`. `start` starts them, `stop` ends them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: list[int] = []
        self._nodes: list[Child] = []
        self._ends = ExitStack()

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"redis+cluster://{','.join(map(self._address, range(NODES)))}"

    def node_of(self, slot: int) -> str:
        """Return the address of the node that has a slot."""
        return self._address(next(number for number in range(NODES) if slot in _slots_of(number)))

    def start(self) -> None:
        """Start all nodes, and wait until they work together. Raises ChildFailed."""
        server = embedded.find_server().path
        self._ports = list(islice(filter(_is_free, PORTS), NODES))
        folders = [self._folder.resolve() / str(port) for port in self._ports]
        for port, folder in zip(self._ports, folders, strict=True):
            folder.mkdir(parents=True)
            options = {
                "bind": "127.0.0.1", "port": port, "dir": folder, "save": "", "appendonly": "no",
                "cluster-enabled": "yes", "cluster-node-timeout": SILENT_MS,
            }  # fmt: skip
            words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
            self._nodes.append(self._ends.enter_context(Child([server, *words], {}, folder / "log")))
        with ExitStack() as closing:
            clients = [closing.enter_context(redis.Redis(port=port)) for port in self._ports]
            self._await(lambda: all(map(_serves, clients, folders)))
            for number, client in enumerate(clients):
                client.execute_command("CLUSTER ADDSLOTS", *_slots_of(number))
                client.execute_command("CLUSTER MEET", "127.0.0.1", self._ports[0])
            self._await(lambda: all(map(_is_whole, clients)))

    def stop(self) -> None:
        """End all nodes."""
        self._ends.close()

    def _address(self, number: int) -> str:
        return f"127.0.0.1:{self._ports[number]}"

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while not condition():
            for node in self._nodes:
                if not node.runs() or time.monotonic() > deadline:
                    raise node.failure(f"formed no cluster with the others within {START_S} s")
            time.sleep(0.05)


def _slots_of(number: int) -> range:
    return range(SLOTS * number // NODES, SLOTS * (number + 1) // NODES)


def _is_free(port: int) -> bool:
    with socket.socket() as node, socket.socket() as bus:
        try:
            node.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + BUS))
        except OSError:
            return False
        return True


def _serves(client: redis.Redis, folder: Path) -> bool:
    """Return whether a node answers, and not another server that took its port in the meantime."""
    try:
        return bool(client.config_get("dir")["dir"] == str(folder))
    except redis.ConnectionError:
        return False


def _is_whole(client: redis.Redis) -> bool:
    """Return whether a node knows of the other nodes, and that they have all slots."""
    known = client.cluster("INFO")
    return (known["cluster_state"], known["cluster_known_nodes"]) == ("ok", str(NODES))
