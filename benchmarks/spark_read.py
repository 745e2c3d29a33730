"""Spark reading a queue, as a batch and as a stream.

Batch: a lease of 200,000 messages of 190 bytes, read into a `noop` sink by two task threads. The baseline is one Python
process that fetches the same lease with redis-py, 10,000 envelopes at a time, and decodes them to tuples. All ratios
are to this baseline, except those of claiming and acking, which are to RMQ's own read. A claim of all ready messages
turns the ready list into the lease; a claim of all messages but one moves each message; both are measured. Stream: the
time of Spark's hooks in a micro-batch of 1,000 messages, compared with the same hooks of Spark's own `rate-micro-batch`
source, and the commands that an idle stream sends.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis

from benchmarks import cores, local_spark, spark_volume
from benchmarks.figures import Figure, Findings, Spread
from benchmarks.idling import commands_while
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, race
from benchmarks.targets import at_least, at_most
from rmq_core import Lease, LeasedQueue, RedisSettings
from rmq_core.envelope.codec import split

SERVERS = ("7.0", "8.6")
FETCH = 10_000
BATCHES = 12
WARM = 5
HOOKS = ("latestOffset", "getBatch", "queryPlanning")
TARGETS = {
    "Spark: Arrow read, 7.0": at_least(0.85),
    "Spark: Arrow read, 8.6": at_least(0.70),
    "Spark: Arrow read over mapPartitions and createDataFrame, 7.0": at_least(1.5),
    "Spark: Arrow read over mapPartitions and createDataFrame, 8.6": at_least(1.5),
    "Spark: claim and ack over read, 7.0": at_most(0.25),
    "Spark: claim and ack over read, 8.6": at_most(0.25),
    "Spark: micro-batch over the rate source": at_most(50),
    "Spark: idle stream, client commands": at_most(4),
    **spark_volume.TARGETS,
}

_ROWS = (
    "70 to 90 ms of each job are Spark's own, with rows and with Arrow alike, and one job here reads 200,000 messages"
    " in 500 ms."
)
REASONS = {
    **{f"Spark: Arrow read, {server}": _ROWS for server in SERVERS},
    **{f"Spark: Arrow read over mapPartitions and createDataFrame, {server}": _ROWS for server in SERVERS},
    **spark_volume.REASONS,
}
"""The reason, found by a profile, why a figure may miss its target."""


def measure(rounds: int, count: int, streamed: int) -> Findings:
    """Measure reading on each of SERVERS, and streams on the first; one stream reads `streamed` messages."""
    found = Findings()
    with local_spark.session() as spark:
        for name in SERVERS:
            with cores.server(name) as server:
                found.add(_batches(spark, server.url, name, rounds, count))
        with cores.server(SERVERS[0]) as server:
            found.add(_streams(spark, server.url, server.port))
        found.add(spark_volume.measure(spark, SERVERS[0], streamed))
    return found


def _batches(spark: Any, url: str, server: str, rounds: int, count: int) -> Findings:
    settings, found = RedisSettings.from_url(url), Findings()
    with LeasedQueue(settings, "bench") as queue:
        held = [[_held_s(queue, count, spare) for _ in range(5)] for spare in (0, 1)]
        lease = _filled(queue, count)
        baseline = Contender("redis-py", lambda: read_tuples(url, lease), count)
        ours = Contender("arrow", reading(spark, settings, queue, lease), count)
        rows = Contender("rows", _rows(spark, url, lease), count)
        laps = race(baseline, [ours, rows], rounds, WARM)
        queue.ack(lease)
    read_s, bare_s = (statistics.median(laps[name].seconds) * count for name in ("arrow", "redis-py"))
    context = f"{laps['arrow'].rate:,.0f}/s where redis-py reads {laps['redis-py'].rate:,.0f}/s"
    over_rows = [a / b for a, b in zip(laps["arrow"].ratios, laps["rows"].ratios, strict=True)]
    found.figures = [
        Figure(f"Spark: Arrow read, {server}", laps["arrow"].ratio, context=context),
        Figure(
            f"Spark: Arrow read over mapPartitions and createDataFrame, {server}",
            Spread.of(over_rows),
            context=f"those read {laps['rows'].rate:,.0f}/s",
        ),
        *(
            Figure(
                f"Spark: claim and ack{of_what} over read, {server}",
                Spread.of([taken / read_s for taken in times]),
                context=f"{statistics.median(times) * 1000:.1f} ms for {count:,} messages,"
                f" {statistics.median(times) / bare_s:.3f} of redis-py's read",
            )
            for of_what, times in zip(("", " of all but one"), held, strict=True)
        ),
    ]
    return found


def _held_s(queue: LeasedQueue, count: int, spare: int) -> float:
    """Claim and ack `count` of `count + spare` ready messages; return the seconds."""
    queue.publish_many(payloads(count + spare))
    began = time.perf_counter()
    queue.ack(claimed(queue, count))
    taken_s = time.perf_counter() - began
    queue.admin.purge("ready")
    return taken_s


def _filled(queue: LeasedQueue, count: int) -> Lease:
    """Return a lease of `count` messages."""
    queue.publish_many(payloads(count))
    return claimed(queue, count)


def claimed(queue: LeasedQueue, count: int) -> Lease:
    """Return a lease of `count` ready messages."""
    lease = queue.claim(max_messages=count, lease=3600)
    assert lease is not None
    assert lease.count == count
    return lease


def read_tuples(url: str, lease: Lease) -> None:
    """Read a lease with redis-py in one process, the baseline."""
    with redis.Redis.from_url(url) as client:
        rows = sum(len(part) for part in _decoded(client, lease, 0, lease.count))
    assert rows == lease.count


def _decoded(client: redis.Redis, lease: Lease, lo: int, hi: int) -> Iterator[list[tuple[Any, ...]]]:
    key = f"rmq:{{{lease.queue}}}:lease:{lease.id}"
    for at in range(lo, hi, FETCH):
        envelopes: Any = client.lrange(key, at + 1, min(at + FETCH, hi))
        yield [tuple(split(envelope)) for envelope in envelopes]


def reading(spark: Any, settings: RedisSettings, queue: LeasedQueue, lease: Lease) -> Callable[[], None]:
    """Return a function that reads the lease with RMQ's source, and drops the rows."""
    from rmq_spark.data_source import frame_of  # only this benchmark needs Spark
    from rmq_spark.read.lease import LeaseReader, info_of, plan

    frame = frame_of(spark, LeaseReader(settings, plan(queue, lease, info_of(queue, lease.id), 2)))
    return lambda: frame.write.format("noop").mode("overwrite").save()


def _rows(spark: Any, url: str, lease: Lease) -> Callable[[], None]:
    """Read as in code written by hand: fetch slices in mapPartitions, then create a DataFrame from the rows."""
    half = lease.count // 2

    def fetch(slices: Iterator[tuple[int, int]]) -> Iterator[tuple[Any, ...]]:
        for lo, hi in slices:
            with redis.Redis.from_url(url) as client:
                for part in _decoded(client, lease, lo, hi):
                    yield from ((row[3], bytearray(row[6]), row[0], row[1]) for row in part)

    def run() -> None:
        slices = spark.sparkContext.parallelize([(0, half), (half, lease.count)], 2)
        frame = spark.createDataFrame(slices.mapPartitions(fetch), "id STRING, payload BINARY, deliveries INT, at LONG")
        frame.write.format("noop").mode("overwrite").save()

    return run


def _streams(spark: Any, url: str, port: int) -> Findings:
    with LeasedQueue(url, "bench") as queue, tempfile.TemporaryDirectory() as folder:
        queue.publish_many(payloads(1000 * (BATCHES + 1)))
        options = {"url": url, "queue": "bench", "consumer": "bench", "numPartitions": 1, "maxMessagesPerBatch": 1000}
        source = spark.readStream.format("rmq").options(**options).load()
        query = _started(source, Path(folder) / "rmq")
        ours = _hooks_ms(query)
        _until(lambda: not queue.stats().leased)
        idle = commands_while(port, 10.0)
        query.stop()
        rate = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1000, numPartitions=1).load()
        query = _started(rate, Path(folder) / "rate")
        theirs = _hooks_ms(query)
        query.stop()
    base = statistics.median(theirs)
    context = f"{statistics.median(ours):.0f} ms where rate takes {base:.0f} ms: {', '.join(HOOKS)}"
    return Findings(
        [
            Figure("Spark: micro-batch over the rate source", Spread.of([ms - base for ms in ours]), "ms", context),
            Figure("Spark: idle stream, client commands", Spread.of([idle["client"] / 10]), "/s", "10 s observed"),
        ]
    )


def _started(source: Any, checkpoint: Path) -> Any:
    return source.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def _hooks_ms(query: Any) -> list[float]:
    """Return the milliseconds of the source's hooks in each batch, without the first ones, which start processes."""
    _until(lambda: sum(1 for progress in query.recentProgress if progress.numInputRows) >= BATCHES)
    batches = [progress for progress in query.recentProgress if progress.numInputRows][3:BATCHES]
    return [float(sum(progress.durationMs.get(hook, 0) for hook in HOOKS)) for progress in batches]


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "Spark made no progress in 300 s"
        time.sleep(0.05)
