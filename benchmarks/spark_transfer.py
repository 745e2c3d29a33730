"""RMQ in Spark compared with a Python source and a Python sink that use no Redis, which Spark's own transfer limits.

Spark moves every row between Java and Python, whatever the connector does. The source repeats one Arrow batch of RMQ's
columns, and the sink drops all rows. Each ratio is the rate of RMQ divided by the rate of this source or sink, in jobs
of three numbers of rows, with payloads of two sizes and two task threads. The server's processor time is shown as well.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import redis

from benchmarks import cores, local_spark
from benchmarks.figures import Figure, Findings
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, race
from benchmarks.spark_read import claimed, reading
from benchmarks.spark_write import QUEUE, saved
from benchmarks.targets import at_least
from rmq_core import LeasedQueue, RedisSettings

SERVER = "7.0"
ROUNDS = {10_000: (21, 10), 200_000: (9, 5), 2_000_000: (3, 1)}
"""By the rows of a job: the measured rounds, and the jobs before them, in which Java compiles the code."""
GOALS = {
    "read over a source without Redis": (0.85, 0.70, 0.50),
    "direct write over a sink without Redis": (0.95, 0.70, 0.60),
    "staged write over a sink without Redis": (0.80, 0.65, 0.55),
}
READ, DIRECT, STAGED = GOALS
SIZES = (190, 20)
TARGETS = {
    f"Spark: {what}, {rows:,} rows of {size} B": at_least(goal)
    for what, goals in GOALS.items()
    for rows, goal in zip(ROUNDS, goals, strict=True)
    for size in SIZES
}
_ALL = (
    "The more rows a job has, the less its fixed cost counts. redis-py by itself, without Spark, reads about 600,000"
    " messages of 190 bytes a second and publishes about 430,000, which is less than Spark moves without Redis."
)
_STAGED = " The server moves the messages staged by all tasks but the first through Lua, half a microsecond for each."
REASONS = {target: _ALL + _STAGED if STAGED in target else _ALL for target in TARGETS}


def measure(spark: Any, most: int) -> Findings:
    """Measure the sizes up to `most` rows."""
    from benchmarks import spark_bare  # only the benchmarks of Spark need it

    found, (source, sink) = Findings(), spark_bare.register(spark)
    with cores.server(SERVER) as server:
        for rows in ROUNDS:
            for size in SIZES if rows <= most else ():
                found.add(_reads(spark, source, server.url, rows, size))
                found.add(_writes(spark, sink, server.url, rows, size))
    return found


def _reads(spark: Any, source: str, url: str, rows: int, size: int) -> Findings:
    settings = RedisSettings.from_url(url)
    repeating = spark.read.format(source).options(rows=rows, size=size).load()
    with LeasedQueue(settings, QUEUE) as queue:
        queue.publish_many(payloads(rows, size))
        lease = claimed(queue, rows)
        bare = Contender("bare", lambda: repeating.write.format("noop").mode("overwrite").save(), rows)
        used = ServerTime(url)
        ours = Contender(READ, used.by(READ, reading(spark, settings, queue, lease)), rows)
        laps = race(bare, [ours], *ROUNDS[rows])
        queue.ack(lease)
    return _compared(laps, used, [READ], rows, size)


def _writes(spark: Any, sink: str, url: str, rows: int, size: int) -> Findings:
    texts, used = f"rpad(cast(id AS STRING), {size}, 'x') AS payload", ServerTime(url)
    frame = spark.range(0, rows, 1, local_spark.THREADS).selectExpr(texts)
    with LeasedQueue(url, QUEUE) as queue:

        def check() -> None:
            assert queue.admin.purge("ready") == rows

        def ours(name: str, delivery: str) -> Callable[[], None]:
            return used.by(name, lambda: saved(frame, url, delivery))

        bare = Contender("bare", lambda: frame.write.format(sink).mode("append").save(), rows)
        names = {DIRECT: "direct", STAGED: "staged"}
        contenders = [Contender(name, ours(name, delivery), rows, after=check) for name, delivery in names.items()]
        laps = race(bare, contenders, *ROUNDS[rows])
    return _compared(laps, used, [*names], rows, size)


class ServerTime:
    """The processor time that a server uses in functions, in seconds, by name."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.took: defaultdict[str, list[float]] = defaultdict(list)

    def by(self, name: str, run: Callable[[], None]) -> Callable[[], None]:
        """Return the function that does the same and is measured."""

        def measured() -> None:
            before = self._used_s()
            run()
            self.took[name].append(self._used_s() - before)

        return measured

    def _used_s(self) -> float:
        used: Any = self.client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def _compared(laps: Any, used: ServerTime, names: list[str], rows: int, size: int) -> Findings:
    bare, found = laps["bare"], Findings()
    found.figures = [
        Figure(
            f"Spark: {name}, {rows:,} rows of {size} B",
            laps[name].ratio,
            context=f"{laps[name].rate:,.0f}/s, without Redis {bare.rate:,.0f}/s;"
            f" server {statistics.median(used.took[name]) / rows * 1e6:.2f} us a message",
        )
        for name in names
    ]
    return found
