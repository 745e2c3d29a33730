"""`format("rmq")`: the messages of a lease that the driver holds, as a DataFrame.

`claimed_batch` hands its lease to the executors inside a pickled reader, where no page, plan or event log shows it. The
options are for drivers that claim by themselves: `url`, `username`, `password`; `queue`, `lease` (its id), `token` (of
the lease that claiming or adopting returned) and `numPartitions`. Spark prints options, but redacts these three keys:
`url`, `password` and `token`.
"""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError, Lease, LeasedQueue, LeaseLost, RedisSettings
from rmq_spark.reader import MESSAGE_SCHEMA, LeaseReader, plan

DEFAULT_PARTITIONS = 4


class RmqDataSource(DataSource):
    """Reads a lease; claims nothing. Raises ConfigurationError for a missing option, LeaseLost for a stale token."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rmq"

    def schema(self) -> StructType:
        """The columns, which are always the same."""
        return MESSAGE_SCHEMA

    def reader(self, schema: StructType) -> LeaseReader:
        """A reader of the lease that the options name."""
        if schema != MESSAGE_SCHEMA:
            raise ConfigurationError('format("rmq") has columns of its own: leave out .schema(), use .select()')
        credentials = {name: self.options.get(name) for name in ("username", "password")}
        settings = RedisSettings.from_url(self._option("url"), **credentials)
        with LeasedQueue(settings, self._option("queue")) as queue:
            lease = self._lease(queue)
            return LeaseReader(settings, lease, plan(queue, lease, self._partitions()))

    def _lease(self, queue: LeasedQueue) -> Lease:
        lease_id = self._option("lease")
        info = queue.lease_info(lease_id)
        if info is None:
            raise LeaseLost(lease_id)
        return Lease(queue.name, lease_id, info.owner, info.count, None, self._option("token"))

    def _partitions(self) -> int:
        text = self.options.get("numPartitions", str(DEFAULT_PARTITIONS))
        if not text.isdecimal() or text == "0":
            raise ConfigurationError(f"option numPartitions must be a positive integer, not {text!r}")
        return int(text)

    def _option(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            raise ConfigurationError(f'format("rmq") needs the option {name!r}')
        return value


def register(spark: SparkSession) -> None:
    """Make `format("rmq")` known to a session that does not find the package `pyspark_rmq` by itself."""
    spark.dataSource.register(RmqDataSource)


def frame_of(spark: SparkSession, reader: LeaseReader) -> DataFrame:
    """The DataFrame of a reader made by the driver. The reader travels in the class, which Spark ships as bytes."""
    name = f"rmq_{uuid.uuid4().hex}"
    members = {"name": classmethod(lambda _: name), "reader": lambda _, schema: reader}  # noqa: ARG005  Spark's names
    spark.dataSource.register(type("LeasedSource", (RmqDataSource,), members))
    return spark.read.format(name).load()
