"""`format("rmq")`: a lease, the content of a queue, or a stream of its messages, as a DataFrame.

`claimed_batch` passes its lease to the executors inside a pickled reader, so that no page, plan or event log shows it.
The mode `claim` is for drivers that claim by themselves: its options are `url`, `username`, `password`, `queue`,
`discipline`, `numPartitions`, `lease` (its id) and `token` (of the lease that claiming or adopting returned). The mode
`browse` reads what a queue holds, and `readStream` claims by itself; the modules `read.browse` and `stream.options`
list their options. Spark prints options, but redacts these three keys: `url`, `password` and `token`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError
from rmq_spark.place.options import Option, OptionValues, check_names, text
from rmq_spark.place.source import MODE, PARTITIONS, PLACE, VALUE_SCHEMA, Source, check_place
from rmq_spark.read.browse import BROWSE, browse_reader
from rmq_spark.read.lease import LeaseReader, info_of, lease_of, plan
from rmq_spark.read.values import check_value
from rmq_spark.schema import BROWSE_SCHEMA, MESSAGE_SCHEMA
from rmq_spark.stream.options import STREAM
from rmq_spark.traces import without_trace
from rmq_spark.versions import HAS_LIMITS

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter

    from rmq_spark.stream.reader import LeasedStreamReader

LEASE = text(
    "lease",
    "the id of a lease that the driver holds. rmq_spark.claimed_batch(spark, url, queue) claims one and gives its"
    " DataFrame; mode=browse shows what a queue holds without claiming it",
)
TOKEN = text("token", "the token of that lease", secret=True)
CLAIM: tuple[Option[Any], ...] = (*PLACE, MODE, PARTITIONS, LEASE, TOKEN, VALUE_SCHEMA)
MESSAGE_DDL = ", ".join(f"{field.name} {field.dataType.simpleString()} NOT NULL" for field in MESSAGE_SCHEMA.fields)
CREATES_TABLE = "provider"
"""Spark passes this table property when CREATE TABLE requests the columns; no query passes it."""


class RmqDataSource(DataSource):
    """Read a lease, a queue or a stream. Raises ConfigurationError for wrong options, LeaseLost for a stale token.

    application: the id of the Spark application, which the process that reads a stream cannot find out.
    """

    application = ""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "rmq"

    @without_trace
    def schema(self) -> StructType | str:
        """Return the columns, by mode and valueSchema. Spark calls this when `load()` makes a DataFrame."""
        browse = self._mode == "browse"
        if CREATES_TABLE not in self.options:  # it is not known yet whether Spark reads a batch or a stream
            check_names(self.options, BROWSE if browse else (*CLAIM, *STREAM))
        if not browse and (value := VALUE_SCHEMA.value(self._option(VALUE_SCHEMA))):
            return (
                f"{MESSAGE_DDL}, value STRUCT<{value}>, reason STRING"  # this process has no parser of DDL, Spark has
            )
        return BROWSE_SCHEMA if browse else MESSAGE_SCHEMA

    @without_trace
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the lease that the options name, or of the messages that the queue holds."""
        self._check(schema)
        if self._mode == "browse":
            return browse_reader(OptionValues(self.options, BROWSE), schema)
        options = OptionValues(self.options, CLAIM)
        source = Source.of(options)
        with source.open() as queue:
            info = info_of(queue, options[LEASE])
            slices = plan(queue, lease_of(queue, info, options[TOKEN]), info, options[PARTITIONS])
        return LeaseReader(source.settings, slices, source.discipline, schema)

    # Not without_trace: Spark replaces an error of this hook by one of its own, and only the trace shows ours.
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of a queue, batch by batch."""
        check_place(self.options)
        options = OptionValues(self.options, STREAM)
        self._check(schema)
        if schema != MESSAGE_SCHEMA and not options[VALUE_SCHEMA]:
            raise ConfigurationError('format("rmq"): a stream is read by spark.readStream...load(), not from a table')
        return stream_reader_class()(options, self.application, schema)

    @without_trace
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of the rows of a DataFrame."""
        from rmq_spark.write.sink import writer_of  # readers do not need it

        check_place(self.options)
        return writer_of(self.options, schema, overwrite=overwrite)

    @without_trace
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of the rows of a stream, batch by batch."""
        from rmq_spark.write.stream import stream_writer_of  # readers do not need it

        return stream_writer_of(self.options, schema, overwrite=overwrite)

    def _check(self, schema: StructType) -> None:
        """Raise ConfigurationError for other columns. A table that an earlier version made may lack new ones.

        Nullability may differ: Spark's catalog makes all columns of a table nullable.
        """
        check_place(self.options)
        expected = self.schema()
        if isinstance(expected, str):
            check_value(schema)
        elif not {(each.name, each.dataType) for each in schema} <= {(each.name, each.dataType) for each in expected}:
            raise ConfigurationError(
                'format("rmq") has columns of its own: leave out .schema(), or in SQL the columns of the view or table,'
                " and choose columns with .select(). A query of a table must name the mode of its CREATE TABLE"
            )

    @property
    def _mode(self) -> str:
        return MODE.value(self._option(MODE))

    def _option(self, option: Option[Any]) -> str | None:
        return self.options.get(option.name)


def stream_reader_class() -> type[LeasedStreamReader]:
    """Return the stream reader whose hooks this version of Spark calls."""
    if not HAS_LIMITS:
        from rmq_spark.stream.spark_4_0 import Spark40StreamReader  # Spark 4.0 and 4.1

        return Spark40StreamReader
    from rmq_spark.stream.spark_4_2 import Spark42StreamReader  # Spark 4.2

    return Spark42StreamReader


def frame_of(spark: SparkSession, reader: LeaseReader) -> DataFrame:
    """Return the DataFrame of a reader made by the driver.

    The reader is an attribute of a data source class made for it, which Spark pickles and ships.
    """
    name = f"rmq_{uuid.uuid4().hex}"
    members = {"name": classmethod(lambda _: name), "reader": lambda _, schema: reader}  # noqa: ARG005  Spark's names
    spark.dataSource.register(type("LeasedSource", (RmqDataSource,), members))
    return spark.read.format(name).load()
