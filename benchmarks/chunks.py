"""The longest time that the server is busy with one script, while a lease of 1,000,000 messages goes through all steps.

SLOWLOG contains the server's own time of each call. A call that the machine interrupts seems longer than it is, so the
figure is a 99th percentile of call times: that of the script with the highest one. The table shows the maximum as well.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import redis

from benchmarks.batches import BATCH
from benchmarks.figures import Figure, Findings, Spread, Table, percentile
from benchmarks.inflight import SHOWN
from benchmarks.loops import some
from benchmarks.payloads import payloads
from rmq_core import Lease, LeasedConfig, LeasedQueue
from rmq_core.exchange.loading import load, names

NAMES = [name.partition("/")[2] for name in names("leased/")]
SEEN_US = 100
LOGGED = 50_000


def measure(port: int, messages: int) -> Findings:
    """Measure the slowest script's 99th percentile, in milliseconds; also a table of scripts that took over 0.1 ms."""
    with redis.Redis(port=port, socket_timeout=60) as client:
        client.config_set("slowlog-max-len", LOGGED)
        _warm(client)
        client.config_set("slowlog-log-slower-than", SEEN_US)
        seen = _pass(client, messages)
    p99, slowest = max((_p99(calls), name) for name, calls in seen.items())
    figure = Figure(f"chunks of a lease of {SHOWN[messages]}, p99", Spread.of([p99]), "ms", f"in `{slowest}`")
    return Findings([figure], [_table(seen, messages)])


def _warm(client: redis.Redis) -> None:
    """Load the scripts into the server, so that their compilation is not measured."""
    for step in _steps(client, 10):
        step()


def _pass(client: redis.Redis, messages: int) -> dict[str, list[float]]:
    """Run all steps; return the milliseconds of the logged calls, by script."""
    known = {load(f"leased/{name}").sha.decode(): name for name in NAMES}
    seen: dict[str, list[float]] = defaultdict(list)
    for step in _steps(client, messages):
        client.slowlog_reset()
        step()
        for entry in client.slowlog_get(LOGGED):
            command = entry["command"].decode(errors="replace").split(" ")
            if command[0] == "EVALSHA":
                seen[known.get(command[1], "other")].append(entry["duration"] / 1000)
    return seen


def _steps(client: redis.Redis, messages: int) -> Iterator[Callable[[], object]]:
    """Yield the operations on a large lease: return its messages in every possible way, then ack it."""
    queue = LeasedQueue(client, "chunks")
    strict = LeasedQueue(client, "chunks", LeasedConfig(max_deliveries=1, max_dead=messages))
    unique = LeasedQueue(client, "chunks-unique", LeasedConfig(dedup=True, dedup_window=30))
    yield lambda: _publish(queue, messages)
    yield lambda: _publish(unique, messages // 10)
    yield lambda: unique.admin.purge("ready")
    yield lambda: queue.release(_claim(queue, messages - 1))  # not all messages: a claim of all is done in one step
    yield lambda: _expire(queue, messages)
    for again in ({"reason": "again"}, {"delay": 0.001}):
        # Redriven messages have no failures; messages that failed together twice would be claimed in several parts.
        yield lambda: strict.nack(_claim(queue, messages), reason="dead")
        yield queue.admin.redrive
        yield lambda again=again: queue.nack(_claim(queue, messages), **again)
    yield lambda: _promote(queue, messages)
    yield lambda: _read_and_ack(queue, _claim(queue, messages))
    queue.close()


def _publish(queue: LeasedQueue, messages: int) -> None:
    for first in range(0, messages, 50_000):
        queue.publish_many(payloads(min(50_000, messages - first)))


def _claim(queue: LeasedQueue, messages: int, *, lease_s: float = 7200) -> Lease:
    """Claim exactly this number of messages."""
    lease = some(queue.claim(max_messages=messages, lease=lease_s))
    if lease.count != messages:
        raise RuntimeError(f"claimed {lease.count} of {messages} messages: the benchmark is broken")
    return lease


def _expire(queue: LeasedQueue, messages: int) -> None:
    _claim(queue, messages, lease_s=0.001)
    time.sleep(0.002)
    _expect(queue, messages)


def _promote(queue: LeasedQueue, messages: int) -> None:
    """Read the backlog until all delayed messages are ready; each call moves a chunk of those that are due."""
    while queue.backlog().ready < messages:
        pass


def _read_and_ack(queue: LeasedQueue, lease: Lease) -> None:
    for first in range(0, lease.count, BATCH):
        queue.read(lease, first, first + BATCH)
    queue.ack(lease)


def _expect(queue: LeasedQueue, messages: int) -> None:
    ready = queue.backlog().ready
    if ready != messages:
        raise RuntimeError(f"{ready} of {messages} messages are ready: the benchmark is broken")


def _table(seen: dict[str, list[float]], messages: int) -> Table:
    rows = [
        (f"`{name}`", f"{len(calls):,}", *(f"{of(calls):.2f} ms" for of in (statistics.median, _p99, max)))
        for name, calls in sorted(seen.items())
    ]
    title = f"Server time of scripts while a lease of {messages:,} is claimed, released, reclaimed, read and acked"
    return Table(title, ("script", f"calls over {SEEN_US / 1000} ms", "median of these", "p99", "longest"), rows)


def _p99(values: list[float]) -> float:
    return percentile(values, 99)
