"""Compare a queue in shards with one in one slot, on a cluster of three nodes.

On a machine with fewer cores than nodes the rates of a cluster say nothing. So the figure is the processor time of the
busiest node for each message: it bounds what the cluster can do. The names of the shards are chosen for their slots,
and here each node has a third of these, so three shards are on three nodes and six are two on each.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Figure, Findings, Spread, Table
from benchmarks.idling import commands_while
from benchmarks.jobs_tally import Clock
from benchmarks.loops import some
from benchmarks.payloads import payloads
from rmq_core import LeasedQueue
from tests.servers import Cluster
from tests.servers.cluster import MASTERS

CALLS, WAITERS, TRICKLE_S = 300, 10, 0.02
IDLE_S = 10
"""Waiting consumers look every 5 s."""
PLAIN, COUNTS = 0, (1, 3, 6)
"""The queue in one slot, and the numbers of shards of the others."""
LARGER = {3: 6, 12: 24, 48: 48}
"""Numbers of nodes, and of shards on them: at most 64."""
BATCHES = ("publish_many", "claim + read + ack of a batch")


class Cost(NamedTuple):
    """Processor time of a message in seconds: of the busiest node, of all nodes, of the client."""

    busiest_s: float
    nodes_s: float
    client_s: float


Work = Callable[[LeasedQueue, int], int]


def _publish(queue: LeasedQueue, _: int) -> int:
    for text in payloads(CALLS):
        queue.publish(text)
    return CALLS


def _claim_and_ack(queue: LeasedQueue, _: int) -> int:
    for _ in range(CALLS):
        queue.ack(some(queue.claim()))
    return CALLS


def _publish_many(queue: LeasedQueue, size: int) -> int:
    queue.publish_many(payloads(size))
    return size


def _claim_and_ack_batch(queue: LeasedQueue, size: int) -> int:
    """Claim all, read it and ack it."""
    lease = some(queue.claim(max_messages=size))
    count = sum(1 for _ in queue.messages(lease))
    queue.ack(lease)
    return count


WORKS: dict[str, Work] = {
    "publish": _publish,
    "claim + ack": _claim_and_ack,
    "publish_many": _publish_many,
    "claim + read + ack of a batch": _claim_and_ack_batch,
}


def measure(server: str, rounds: int, size: int, seconds: float) -> Findings:
    """Measure the works in turn on all queues; `size` messages are a batch. Then the waiters, for some seconds."""
    cluster = Cluster(server)
    try:
        with _queues(cluster) as queues:
            found = _works(cluster, queues, rounds, size)
            found.tables.append(_waiting(cluster, queues, seconds))
            return found
    finally:
        cluster.close()


@contextmanager
def _queues(cluster: Cluster) -> Iterator[dict[int, LeasedQueue]]:
    queues = {count: LeasedQueue(cluster.url, f"shards-{count}") for count in (PLAIN, *COUNTS)}
    for count, queue in queues.items():
        if count:
            queue.admin.configure(shards=count)
    yield queues
    for queue in queues.values():
        queue.close()


def _works(cluster: Cluster, queues: dict[int, LeasedQueue], rounds: int, size: int) -> Findings:
    clocks = [Clock(node.process.pid) for node in cluster.nodes]
    costs: dict[tuple[str, int], list[Cost]] = {}
    for number in range(rounds + 1):  # the first one warms up
        for name, work in WORKS.items():
            for count, queue in queues.items():
                cost = _cost(clocks, work, queue, size)
                if number:
                    costs.setdefault((name, count), []).append(cost)
    found = Findings([_figure(costs, name, count) for name in WORKS for count in COUNTS])
    found.tables += [_table(costs, size), _larger(costs, size)]
    return found


def _cost(clocks: list[Clock], work: Work, queue: LeasedQueue, size: int) -> Cost:
    before = [clock.now() for clock in clocks]
    count = work(queue, size)
    taken = [clock.now().since(then).per(count) for clock, then in zip(clocks, before, strict=True)]
    each = [one.server_s for one in taken]
    return Cost(max(each), sum(each), taken[0].client_s)


def _figure(costs: dict[tuple[str, int], list[Cost]], name: str, count: int) -> Figure:
    pairs = zip(costs[name, PLAIN], costs[name, count], strict=True)
    return Figure(_called(name, count), Spread.of(plain.busiest_s / own.busiest_s for plain, own in pairs))


def _called(name: str, count: int) -> str:
    return f"shards: {name}, {count} shard{'s' * (count > 1)}"


def _table(costs: dict[tuple[str, int], list[Cost]], size: int) -> Table:
    def shown(name: str, count: int) -> str:
        return " / ".join(f"{median(each) * 1e6:.2f}" for each in zip(*costs[name, count], strict=True))

    rows = [[name, *(shown(name, count) for count in (PLAIN, *COUNTS))] for name in WORKS]
    head = ("work", "one slot", *(f"{count} shard{'s' * (count > 1)}" for count in COUNTS))
    note = (
        "Processor time of a message in µs: of the busiest node / of all nodes / of the client. "
        f"A batch has {size:,} messages."
    )
    return Table("Processor time of queues in shards", head, rows, note)


def _larger(costs: dict[tuple[str, int], list[Cost]], size: int) -> Table:
    """Compute how many messages a second larger clusters handle, from the cost on three nodes."""

    def rate(name: str, nodes: int) -> str:
        fewer, more = ([median(each) for each in zip(*costs[name, count], strict=True)] for count in COUNTS[1:])
        unevenness = more[0] * MASTERS / more[1]
        a_part = max(0.0, more[1] - fewer[1]) * size / (COUNTS[2] - COUNTS[1]) if name in BATCHES else 0.0
        of_message = more[1] + a_part * (LARGER[nodes] - COUNTS[2]) / size
        return f"{nodes / (of_message * unevenness):,.0f}"

    rows = [[str(nodes), str(count), *(rate(name, nodes) for name in WORKS)] for nodes, count in LARGER.items()]
    note = (
        "Messages a second if the main threads of all nodes are busy with one of the works; computed, not measured. A"
        " message that is alone costs one node the same in any cluster. A batch has a part in each shard, and each part"
        " costs what the measured ones do. The slots are divided as evenly as here, clients and network keep up, and"
        " the queue is never empty: a claim that finds nothing asks every shard."
    )
    return Table("What larger clusters can do", ("nodes", "shards", *WORKS), rows, note)


def _waiting(cluster: Cluster, queues: dict[int, LeasedQueue], seconds: float) -> Table:
    rows = [(str(count or "one slot"), *_waiters(cluster, queue, seconds)) for count, queue in queues.items()]
    head = ("shards", "commands a second, idle", "commands for a message", "median time to a waiter")
    note = f"{WAITERS} consumers wait in `claim(wait=...)`. Commands are those of clients, at all nodes."
    return Table("Waiting at queues in shards", head, rows, note)


def _waiters(cluster: Cluster, queue: LeasedQueue, seconds: float) -> tuple[str, str, str]:
    """Count commands while all consumers wait, and while messages come one by one; return the time of those, too."""
    took = list[float]()
    until = time.monotonic() + 2 * seconds + IDLE_S + 4

    def consume() -> None:
        with LeasedQueue(cluster.url, queue.name) as mine:
            while (left := until - time.monotonic()) > 0:
                lease = mine.claim(wait=left)
                if lease is not None:
                    took.append(time.perf_counter() - float(lease.messages[0].payload))
                    mine.ack(lease)

    consumers = [threading.Thread(target=consume) for _ in range(WAITERS)]
    for each in consumers:
        each.start()
    time.sleep(1)
    idle = _commands(cluster, IDLE_S)
    count = int(seconds / TRICKLE_S)

    def trickle() -> None:
        time.sleep(0.3)
        for _ in range(count):
            queue.publish(f"{time.perf_counter()}")
            time.sleep(TRICKLE_S)

    publisher = threading.Thread(target=trickle)
    publisher.start()
    busy = _commands(cluster, seconds * 1.5 + 1)
    publisher.join()
    for each in consumers:
        each.join()
    return f"{idle / IDLE_S:.1f}", f"{busy / count:.1f}", f"{median(took) * 1000:.1f} ms"


def _commands(cluster: Cluster, seconds: float) -> int:
    with ThreadPoolExecutor(len(cluster.ports)) as pool:
        counted = sum(pool.map(lambda port: commands_while(port, seconds), cluster.ports), Counter[str]())
    return counted["client"]
