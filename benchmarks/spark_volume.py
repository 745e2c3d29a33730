"""Whether the memory of a stream grows with the number of processed messages.

One query reads them in batches of 100,000, with one lease each, while a publisher keeps a few batches ready. The
benchmark compares memory after the first tenth with memory at the end, each time with an empty queue: the heap of
Spark's Java after a garbage collection, the resident memory of the Python process that claims and acks for the driver,
and Redis' `used_memory`.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any, NamedTuple

import psutil
import redis

from benchmarks import cores
from benchmarks.figures import Figure, Findings, Spread
from benchmarks.payloads import payloads
from benchmarks.targets import at_most
from rmq_core import LeasedQueue

BATCH = 100_000
AHEAD = 2 * BATCH
SIDE = "python_streaming_source_runner"
STALLED_S = 600
PARTS = ("Java heap", "Python beside the driver", "Redis")
TARGETS = {f"Spark: {part} at the end over after a tenth": at_most(1.1) for part in PARTS}
REASONS = {
    "Spark: Redis at the end over after a tenth": (
        "the server is empty both times, and what it uses then, clients and scripts, is 2 MiB: the difference is"
        " 0.3 MiB after nine million messages more."
    )
}


class Memory(NamedTuple):
    """Bytes, in the order of PARTS."""

    heap: int
    side: int
    redis: int


def measure(spark: Any, server: str, total: int) -> Findings:
    """Stream `total` messages on a server of its own."""
    with (
        cores.server(server) as running,
        LeasedQueue(running.url, "bench") as queue,
        running.client() as client,
        tempfile.TemporaryDirectory() as checkpoint,
    ):
        options = {"url": running.url, "queue": "bench", "consumer": "bench", "newQueue": True}
        source = spark.readStream.format("rmq").options(**options, maxMessagesPerBatch=BATCH).load()
        query = source.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        began = time.perf_counter()
        _stream(queue, total // 10)
        early = _memory(spark, client)
        _stream(queue, total - total // 10)
        taken_s, late = time.perf_counter() - began, _memory(spark, client)
        query.stop()
    figures = []
    for part, before, after in zip(PARTS, early, late, strict=True):
        context = f"{after / 2**20:.1f} MiB after {total:,} messages, {total / taken_s:,.0f}/s"
        figures.append(Figure(f"Spark: {part} at the end over after a tenth", Spread.of([after / before]), "", context))
    return Findings(figures)


def _stream(queue: LeasedQueue, count: int) -> None:
    """Publish `count` messages, never far ahead of the stream, and wait until all are acked."""
    while count:
        if queue.backlog().ready < AHEAD:
            some = min(count, BATCH)
            queue.publish_many(payloads(some))
            count -= some
        else:
            time.sleep(0.05)
    deadline = time.monotonic() + STALLED_S
    while sum(queue.stats()[:5]):
        assert time.monotonic() < deadline, f"Spark did not finish within {STALLED_S} s"
        time.sleep(0.1)


def _memory(spark: Any, client: redis.Redis) -> Memory:
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # noqa: SLF001  Spark has no other way to its Java
    runtime.gc()
    sides = [each for each in psutil.Process().children(recursive=True) if SIDE in _command(each)]
    side = sum(each.memory_info().rss for each in sides)
    return Memory(runtime.totalMemory() - runtime.freeMemory(), side, int(client.info("memory")["used_memory"]))


def _command(process: psutil.Process) -> str:
    """Return the command line of the process; '' if it has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
