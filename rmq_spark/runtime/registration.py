"""Making `format("rmq")` known to a session, and this package to a cluster that does not have it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rmq_spark.batch.jobs import is_connect
from rmq_spark.runtime.parcel import carrying, packed, unpacked


def register(spark: SparkSession, *, ship: bool = False) -> None:
    """Make `format("rmq")` known to a session that does not find the package `pyspark_rmq` by itself.

    Needed where this package came by `--py-files` and over Spark Connect; works for streams there too. ship: send the
    package to the executors as well, which then need only its dependencies: redis, hiredis, tenacity and pyarrow.
    """
    archive = packed()
    if ship:
        _ship(spark, unpacked(archive))
    spark.dataSource.register(carrying(archive))


def _ship(spark: SparkSession, path: str) -> None:
    if is_connect(spark):
        spark.addArtifacts(path, pyfile=True)
    else:
        spark.sparkContext.addPyFile(path)
