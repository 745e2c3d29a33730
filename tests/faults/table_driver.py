"""A driver that appends the batches of a queue to a table, one after the other, in many short lives.

`python -m tests.faults.table_driver URL FOLDER KIND BATCHES SIZE [REMOTE]`. With the address of a Spark Connect server,
the driver is a client of it, which holds the lease and commits, while tasks of the server read and compute; without, it
is plain Python. Each line of its input begins a life, in a forked process: its points in JSON, such as
`[["computed", 3]]`. The life prints its process id, and `claimed`, `computed`, `committed` or, if an earlier life has
committed the batch, `found`, and `acked` with the number of the batch. At the next of its points, or the same point of
a later batch, it prints `waiting` and waits for a line. When a life is over, `ended` is printed. `committed` as a point
is the same as `found`. While FOLDER/hold exists, tasks leave a file `task-<number>` there and do not end.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeasedQueue
from rmq_spark import BatchPolicy, claimed_batch
from rmq_spark.batch.held import name_of
from rmq_spark.read.lease import info_of
from rmq_spark.tables import BatchName, append_once, appending
from rmq_spark.tables.appending import log_of
from rmq_spark.tables.log import TableLog, append_under
from tests.spark.table_kits import KITS, log, rows_of

QUEUE = "work"
LEASE_S = 600
CONFIG = LeasedConfig(lease=LEASE_S, max_deliveries=100_000)  # every kill is a delivery
POLICY = BatchPolicy(on_settled="raise", partitions=2)
PLAIN = 5  # arguments
LOADED = (
    "rmq_spark.tables.delta", "rmq_spark.tables.iceberg", "pandas", "pyarrow.dataset", "pyarrow.parquet",
    "pyiceberg.io.pyarrow", "pyiceberg.expressions.visitors", "sqlalchemy.dialects.sqlite",
)  # fmt: skip
LOADED_FOR_SPARK = ("pyspark.sql.connect.session", "pyspark.sql.connect.dataframe", "pandas", "grpc")
"""Imported before the first fork, because each life would import them again."""


def say(*words: object) -> None:
    """Print a line in one write, so that a life that is killed leaves no part of a line in the output of the others."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def read_line() -> str:
    """Return the next line of the input, which two processes share: no buffer may take more than that."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in {b"", b"\n"}:
        line += byte
    return line.decode()


class Life:
    """One life of the driver, which waits at given points."""

    def __init__(self, points: list[list[Any]], url: str, folder: str, kind: str, batches: str, size: str) -> None:
        self.points = points
        self.url, self.folder = url, Path(folder)
        self.kit, self.batches, self.size = KITS[kind](self.folder), int(batches), int(size)

    def reach(self, what: str, number: int) -> None:
        say(what, number)
        point = "committed" if what == "found" else what
        if self.points and point == self.points[0][0] and number >= self.points[0][1]:
            del self.points[0]
            say("waiting")
            read_line()

    def live(self) -> None:
        """Work on all batches that are not acked yet."""
        with LeasedQueue(self.url, QUEUE, CONFIG) as queue:
            for number in range(self.batches):
                try:
                    lease = queue.claim(max_messages=self.size, lease_id=f"batch {number}", owner="driver")
                except LeaseAlreadySettled:
                    continue
                assert lease is not None
                self.reach("claimed", number)

                def computed(lease: Any = lease, number: int = number) -> pa.Table:
                    numbers = [json.loads(message.raw)["n"] for message in queue.messages(lease)]
                    self.reach("computed", number)
                    return rows_of(numbers)

                names = [BatchName(name_of(info_of(queue, lease.id)), 0)]
                appended = append_under(names, log(self.kit), computed, lambda _: None)
                self.reach("committed" if appended else "found", number)
                queue.ack(lease)
                self.reach("acked", number)
        say("done")


class SparkLife(Life):
    """A life whose batches are read and computed by tasks of Spark, and appended by `append_once`."""

    def __init__(self, points: list[list[Any]], *args: str) -> None:
        *plain, self.remote = args
        super().__init__(points, *plain)
        self.number = 0

    def live(self) -> None:
        spark = SparkSession.builder.remote(self.remote).getOrCreate()
        spark.interruptAll()  # the tasks that the life before had begun: they read a lease that is taken over
        with mock.patch.object(appending, "log_of", lambda table: WatchedLog(log_of(table), self)):
            for number in range(self.batches):
                self.number = number
                with suppress(LeaseAlreadySettled):
                    self.work(spark)
        say("done")

    def work(self, spark: SparkSession) -> None:
        """Work on the next batch. Raises LeaseAlreadySettled when it is acked."""
        claim: Any = {"lease_id": f"batch {self.number}", "max_messages": self.size, "owner": "driver"}
        with claimed_batch(spark, self.url, QUEUE, config=CONFIG, policy=POLICY, **claim) as batch:
            self.reach("claimed", self.number)
            if not append_once(batch, self.kit.table, self.rows):
                self.reach("found", self.number)
        self.reach("acked", self.number)

    def rows(self, messages: DataFrame) -> DataFrame:
        """Return the numbers of messages that went through the Python of a task."""
        folder = self.folder

        def held_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            if (folder / "hold").exists():
                (folder / f"task-{os.getpid()}").touch()
            while (folder / "hold").exists():
                time.sleep(0.01)
            yield from batches

        return messages.mapInArrow(held_up, messages.schema).selectExpr(
            "cast(get_json_object(cast(payload AS STRING), '$.n') AS BIGINT) AS n"
        )


class WatchedLog:
    """The log of a table in which a life reaches the points before and after the commit."""

    def __init__(self, real: TableLog, life: SparkLife) -> None:
        self.name, self.remembers = real.name, real.remembers
        self.real, self.life = real, life

    def commit(self, names: Sequence[BatchName], rows: pa.Table) -> None:
        self.life.reach("computed", self.life.number)
        self.real.commit(names, rows)
        self.life.reach("committed", self.life.number)


def main(*args: str) -> None:
    """Begin lives until the input ends."""
    kind, loaded = (Life, LOADED) if len(args) == PLAIN else (SparkLife, (*LOADED, *LOADED_FOR_SPARK))
    for name in loaded:
        import_module(name)
    with LeasedQueue(args[0], QUEUE) as queue:
        queue.stats()
    say("ready")
    while line := read_line():
        if not (child := os.fork()):
            say("pid", os.getpid())
            try:
                kind(json.loads(line), *args).live()
            except Exception:  # printed before the end
                traceback.print_exc()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        say("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
