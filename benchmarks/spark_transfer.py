"""RMQ in Spark compared with a Python source and a Python sink that use no Redis, which Spark's own transfer limits.

Spark moves every row between Java and Python, whatever the connector does. The source repeats one Arrow batch of RMQ's
columns, and the sink drops all rows. Each ratio is the rate of RMQ divided by the rate of this source or sink, in jobs
of three sizes, with payloads of 190 bytes and two task threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import cores, local_spark
from benchmarks.figures import Figure, Findings
from benchmarks.payloads import SIZE, payloads
from benchmarks.rounds import Contender, race
from benchmarks.spark_read import claimed, reading
from benchmarks.spark_write import QUEUE, saved
from benchmarks.targets import at_least
from rmq_core import LeasedQueue, RedisSettings

SERVER = "7.0"
ROUNDS = {10_000: (21, 10), 200_000: (9, 5), 2_000_000: (3, 1)}
"""By the rows of a job: the measured rounds, and the jobs before them, in which Java compiles the code."""
GOALS = {
    "read over a source without Redis": 0.75,
    "direct write over a sink without Redis": 0.80,
    "staged write over a sink without Redis": 0.65,
}
READ, DIRECT, STAGED = GOALS
TARGETS = {f"Spark: {what}, {rows:,} rows": at_least(goal) for what, goal in GOALS.items() for rows in ROUNDS}
_ALL = (
    "The more rows a job has, the less its fixed cost counts. redis-py by itself, without Spark, reads about 600,000 of"
    " these messages a second and publishes about 430,000, which is less than Spark moves without Redis."
)
_READS = (
    " Of the processor time of a read, Python takes nearly a half, Redis a third and Java the rest. The script that"
    " checks the token and limits the size of the reply takes Redis five times as long as LRANGE, which does neither."
)
REASONS = {target: _ALL + _READS if READ in target else _ALL for target in TARGETS}


def measure(spark: Any, most: int) -> Findings:
    """Measure the sizes up to `most` rows."""
    from benchmarks import spark_bare  # only the benchmarks of Spark need it

    found, (source, sink) = Findings(), spark_bare.register(spark)
    with cores.server(SERVER) as server:
        for rows in ROUNDS:
            if rows <= most:
                found.add(_reads(spark, source, server.url, rows))
                found.add(_writes(spark, sink, server.url, rows))
    return found


def _reads(spark: Any, source: str, url: str, rows: int) -> Findings:
    settings = RedisSettings.from_url(url)
    repeating = spark.read.format(source).option("rows", rows).load()
    with LeasedQueue(settings, QUEUE) as queue:
        queue.publish_many(payloads(rows))
        lease = claimed(queue, rows)
        bare = Contender("bare", lambda: repeating.write.format("noop").mode("overwrite").save(), rows)
        ours = Contender(READ, reading(spark, settings, queue, lease), rows)
        laps = race(bare, [ours], *ROUNDS[rows])
        queue.ack(lease)
    return _compared(laps, [READ], rows)


def _writes(spark: Any, sink: str, url: str, rows: int) -> Findings:
    texts = f"rpad(cast(id AS STRING), {SIZE}, 'x') AS payload"
    frame = spark.range(0, rows, 1, local_spark.THREADS).selectExpr(texts)
    with LeasedQueue(url, QUEUE) as queue:

        def check() -> None:
            assert queue.admin.purge("ready") == rows

        def ours(delivery: str) -> Callable[[], None]:
            return lambda: saved(frame, url, delivery)

        bare = Contender("bare", lambda: frame.write.format(sink).mode("append").save(), rows)
        names = {DIRECT: "direct", STAGED: "staged"}
        contenders = [Contender(name, ours(delivery), rows, after=check) for name, delivery in names.items()]
        laps = race(bare, contenders, *ROUNDS[rows])
    return _compared(laps, [*names], rows)


def _compared(laps: Any, names: list[str], rows: int) -> Findings:
    bare, found = laps["bare"], Findings()
    found.figures = [
        Figure(
            f"Spark: {name}, {rows:,} rows",
            laps[name].ratio,
            context=f"{laps[name].rate:,.0f}/s, without Redis {bare.rate:,.0f}/s",
        )
        for name in names
    ]
    return found
