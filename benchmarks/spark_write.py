"""Spark publishing to a queue: 200,000 rows of 190 bytes from two task threads.

The baseline is one Python process that runs the publish script through redis-py's pipeline, 1,000 messages a call and 4
calls in flight; all ratios are to that. "By hand" is typical code without a connector: the same in `foreachPartition`,
with rows one by one. The rows are cached in Spark, and each variant runs a few times before it is timed, so that Java
has compiled its code.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import redis

from benchmarks import cores, local_spark
from benchmarks.figures import Figure, Findings, Spread
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, race
from benchmarks.targets import at_least
from rmq_core import LeasedQueue
from rmq_core.exchange.loading import load

Publish: TypeAlias = Callable[[redis.Redis, Iterable[str]], None]
SERVERS = ("7.0", "8.6")
CALL, IN_FLIGHT = 1000, 4
WARM = 5
QUEUE = "bench"
KEYS = tuple(f"rmq:{{{QUEUE}}}:{name}" for name in ("ready", "delayed", "waiters", "wake", "timer"))
TARGETS = {
    "Spark: Arrow write, direct, 7.0": at_least(0.90),
    "Spark: Arrow write, direct, 8.6": at_least(0.95),
    **{f"Spark: Arrow write, staged, {server}": at_least(0.78) for server in SERVERS},
    **{f"Spark: direct write over foreachPartition by hand, {server}": at_least(1.8) for server in SERVERS},
    **{f"Spark: staged write over foreachPartition by hand, {server}": at_least(1.6) for server in SERVERS},
}

_SPARK = (
    "0.09 s of a write are Spark's own, for any number of rows: Spark calls several Python processes, one by one,"
    " before and after the tasks. The 200,000 rows take 0.25 s more, in which two cores share 0.6 s of processor time:"
    " Python 0.3, Java 0.15, the server 0.15."
)
_STAGED = (
    _SPARK + " When all tasks are done, the server moves the messages staged by all tasks but the first to the ready"
    " list, which takes 0.08 s."
)
REASONS = {
    **{f"Spark: Arrow write, direct, {server}": _SPARK for server in SERVERS},
    **{f"Spark: direct write over foreachPartition by hand, {server}": _SPARK for server in SERVERS},
    **{f"Spark: Arrow write, staged, {server}": _STAGED for server in SERVERS},
    **{f"Spark: staged write over foreachPartition by hand, {server}": _STAGED for server in SERVERS},
}
"""The reason, found by a profile, why a figure may miss its target."""


def measure(rounds: int, count: int) -> Findings:
    """Measure writing on each of SERVERS."""
    found = Findings()
    with local_spark.session() as spark:
        with cores.everywhere():
            texts = payloads(count)
            frame = spark.createDataFrame([(text,) for text in texts], "payload string").coalesce(2).persist()
            frame.count()
        for name in SERVERS:
            with cores.server(name) as server:
                found.add(_writes(frame, texts, server.url, name, rounds))
    return found


def _writes(frame: Any, texts: list[str], url: str, server: str, rounds: int) -> Findings:
    count = len(texts)
    publish = publisher()
    with redis.Redis.from_url(url) as client, LeasedQueue(client, QUEUE) as queue:

        def check() -> None:
            assert queue.admin.purge("ready") == count

        baseline = Contender("redis-py", lambda: publish(client, texts), count, after=check)
        steps: dict[str, Callable[[], None]] = {
            "direct": lambda: saved(frame, url, "direct"),
            "staged": lambda: saved(frame, url, "staged"),
            "by hand": lambda: frame.foreachPartition(_by_hand(url, publish)),
        }
        laps = race(baseline, [Contender(name, run, count, after=check) for name, run in steps.items()], rounds, WARM)
    bare = f"redis-py {laps['redis-py'].rate:,.0f}/s"
    found = Findings()
    for delivery in ("direct", "staged"):
        ours, hand = laps[delivery], laps["by hand"]
        over = Spread.of([a / b for a, b in zip(ours.ratios, hand.ratios, strict=True)])
        found.figures += [
            Figure(f"Spark: Arrow write, {delivery}, {server}", ours.ratio, context=f"{ours.rate:,.0f}/s, {bare}"),
            Figure(
                f"Spark: {delivery} write over foreachPartition by hand, {server}",
                over,
                context=f"that writes {hand.rate:,.0f}/s",
            ),
        ]
    return found


def saved(frame: Any, url: str, delivery: str) -> None:
    """Publish the rows with RMQ's sink."""
    options = {"url": url, "queue": QUEUE, "delivery": delivery}
    frame.write.format("rmq").mode("append").options(**options).save()


def _by_hand(url: str, publish: Publish) -> Callable[[Iterable[Any]], None]:
    """Return a function that publishes a partition's rows without a connector; Spark ships the script with it."""

    def publish_rows(rows: Iterable[Any]) -> None:
        with redis.Redis.from_url(url) as client:
            publish(client, (row.payload for row in rows))

    return publish_rows


def publisher() -> Publish:
    """Return a function that publishes payloads; as a closure, Spark pickles it with all that it needs."""
    source = load("leased/publish").source.decode()
    names, call, in_flight, slots = KEYS, CALL, IN_FLIGHT, f"rmq:{{{QUEUE}}}:slot"

    def publish(client: redis.Redis, texts: Iterable[str]) -> None:
        prefix, numbers, seqs, left = uuid.uuid4().hex[:16], itertools.count(), itertools.count(1), iter(texts)
        sha, waiting = client.script_load(source), 0
        pipeline = client.pipeline(transaction=False)
        while bodies := [f"{prefix}-{next(numbers):x} s0 {text}" for text in itertools.islice(left, call)]:
            head = (next(seqs), 60_000, "bell", 0, 0, "0", 0, 0, len(bodies), 0)
            pipeline.evalsha(sha, 6, f"{slots}:{prefix}/0", *names, *head, *bodies)
            waiting += 1
            if waiting == in_flight:
                pipeline.execute()
                waiting = 0
        pipeline.execute()

    return publish
