"""A plain Python driver that appends the batches of a queue to a table, one after the other, in many short lives.

`python -m tests.faults.table_driver URL FOLDER KIND BATCHES SIZE`. Each line of its input begins a life, in a forked
process: its points in JSON, such as `[["computed", 3]]`. The life prints its process id, and `claimed`, `computed`,
`committed` or, if an earlier life has committed the batch, `found`, and `acked` with the number of the batch. At the
next of its points, or the same point of a later batch, it prints `waiting` and waits for a line. When a life is over,
`ended` is printed. `committed` as a point is the same as `found`.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeasedQueue
from rmq_spark.batch.held import name_of
from rmq_spark.read.lease import info_of
from rmq_spark.tables import BatchName
from rmq_spark.tables.log import append_under
from tests.spark.table_kits import KITS, log, rows_of

QUEUE = "work"
LEASE_S = 600
MANY = 100_000  # deliveries: every kill is one
LOADED = (
    "rmq_spark.tables.delta", "rmq_spark.tables.iceberg", "pandas", "pyarrow.dataset", "pyarrow.parquet",
    "pyiceberg.io.pyarrow", "pyiceberg.expressions.visitors", "sqlalchemy.dialects.sqlite",
)  # fmt: skip
"""Imported before the first fork, because each life would import them again."""


def read_line() -> str:
    """Return the next line of the input, which two processes share: no buffer may take more than that."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in {b"", b"\n"}:
        line += byte
    return line.decode()


class Life:
    """One life of the driver, which waits at given points."""

    def __init__(self, points: list[list[Any]]) -> None:
        self.points = points

    def reach(self, what: str, number: int) -> None:
        print(what, number, flush=True)
        point = "committed" if what == "found" else what
        if self.points and point == self.points[0][0] and number >= self.points[0][1]:
            del self.points[0]
            print("waiting", flush=True)
            read_line()

    def live(self, url: str, folder: str, kind: str, batches: str, size: str) -> None:
        """Work on all batches that are not acked yet."""
        kit = KITS[kind](Path(folder))
        with LeasedQueue(url, QUEUE, LeasedConfig(lease=LEASE_S, max_deliveries=MANY)) as queue:
            for number in range(int(batches)):
                try:
                    lease = queue.claim(max_messages=int(size), lease_id=f"batch {number}", owner="driver")
                except LeaseAlreadySettled:
                    continue
                assert lease is not None
                self.reach("claimed", number)

                def computed(lease: Any = lease, number: int = number) -> pa.Table:
                    numbers = [json.loads(message.raw)["n"] for message in queue.messages(lease)]
                    self.reach("computed", number)
                    return rows_of(numbers)

                names = [BatchName(name_of([info_of(queue, lease.id)]), 0)]
                appended = append_under(names, log(kit), computed, lambda _: None)
                self.reach("committed" if appended else "found", number)
                queue.ack(lease)
                self.reach("acked", number)
        print("done", flush=True)


def main(*args: str) -> None:
    """Begin lives until the input ends."""
    for name in LOADED:
        import_module(name)
    with LeasedQueue(args[0], QUEUE) as queue:
        queue.stats()
    print("ready", flush=True)
    while line := read_line():
        if not (child := os.fork()):
            print("pid", os.getpid(), flush=True)
            try:
                Life(json.loads(line)).live(*args)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
