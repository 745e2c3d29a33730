"""Runs the recipes of example_dags/spark, each after a first try that crashed between its sink and its ack.

`python -m tests.spark.recipes URL FOLDER DSN` does so on the Spark that the environment names and prints its findings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import rmq_spark
from example_dags.spark import append, files, forward, merge, orders, overwrite, upsert
from rmq_core import LeasedQueue
from rmq_spark.tables import append_once

QUEUE = "orders"
COUNT = 300
TRIES = 5
KEEP = rmq_spark.BatchPolicy(on_failure="keep")
MODULES = (append, files, forward, merge, orders, overwrite, upsert)
Sink = Callable[[rmq_spark.ClaimedBatch], object]


class Crash(Exception):
    """The end of a driver, as far as the batch is concerned."""


def run_all(spark: SparkSession, url: str, folder: str, dsn: str, rounds: int = 1) -> dict[str, Any]:
    """Return the outcome of the messages, by recipe; streams run that many times, each time with new messages."""
    for module in MODULES:  # as if they were the script, which no executor can import
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        return dict(_found(spark, url, folder, dsn, rounds))
    finally:
        for module in MODULES:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _found(spark: SparkSession, url: str, folder: str, dsn: str, rounds: int) -> Iterator[tuple[str, Any]]:
    def written(sink: Callable[[DataFrame], object]) -> Sink:
        return lambda batch: sink(batch.df)

    def upserted(messages: DataFrame) -> None:
        orders.orders(messages).foreachPartition(partial(upsert.upsert, dsn))

    batch, place, delta = partial(_batch, spark, url), f"{folder}/overwrite", f"{folder}/merge"
    yield "overwrite", batch("a", written(partial(overwrite.overwrite, table=place, batch="a")), overwrite.run, place)
    yield "append", _appended(batch, f"{folder}/append")
    yield "merge", batch("b", written(partial(merge.merge, table=delta)), merge.run, delta)
    yield "upsert", batch("c", written(upserted), upsert.run, dsn)
    yield "forward", batch("d", partial(forward.publish, url=url, queue="forward"), forward.run, "forward")
    for module in (files, overwrite, merge, append, forward):
        name = f"{module.__name__.rpartition('.')[2]} stream"
        target = name if module is forward else f"{folder}/{name}"
        yield name, _stream(url, partial(module.stream, spark, url, target, f"{folder}/{name} log"), rounds)


def _appended(batch: Callable[..., list[int]], table: str) -> list[int]:
    DeltaTable.create(table, append.SCHEMA, mode="ignore")
    return batch("e", lambda claimed: append_once(claimed, table, orders.orders), append.run, table)


def _batch(spark: SparkSession, url: str, run_id: str, sink: Sink, run: Callable[..., int], target: str) -> list[int]:
    """Return how many messages the tries after the crash had, and how many are left in the queue."""
    with LeasedQueue(url, QUEUE) as queue:
        _publish(queue, range(COUNT))
        with suppress(Crash), rmq_spark.claimed_batch(spark, url, QUEUE, lease_id=run_id, policy=KEEP) as batch:
            sink(batch)
            raise Crash
        second, third = (run(spark, url, target, run_id) for _ in range(2))
        return [second, third, _left(queue)]


def _stream(url: str, start: Callable[[], Any], rounds: int) -> list[int]:
    """Return how many messages were left in the queue after each run."""
    edges = [COUNT * part // rounds for part in range(rounds + 1)]
    with LeasedQueue(url, QUEUE) as queue:
        return [_drained(queue, range(*part), start) for part in pairwise(edges)]


def _drained(queue: LeasedQueue, part: range, start: Callable[[], Any]) -> int:
    _publish(queue, part)
    assert any(ended(start) for _ in range(TRIES))
    return _left(queue)


def ended(run: Callable[[], object]) -> bool:
    """Return whether a query was drained. Spark gives the source's process ten seconds; a busy machine needs longer."""
    try:
        run()
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error):
            raise
        return False
    return True


def _publish(queue: LeasedQueue, numbers: range) -> None:
    queue.publish_many([{"number": number, "amount": number / 4} for number in numbers])


def _left(queue: LeasedQueue) -> int:
    return sum(queue.stats()[:5])


if __name__ == "__main__":
    session = rmq_spark.session("recipes", **json.loads(os.environ["RECIPES_CONF"]))
    rmq_spark.register(session, ship=True)
    print(json.dumps(run_all(session, *sys.argv[1:])), flush=True)
    session.stop()
