"""Create a Spark session that uses this Python and the Java found here, and register `format("rmq")` in a session."""

from __future__ import annotations

import os

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from rmq_spark.batch.ending import is_connect
from rmq_spark.place.source import application_of
from rmq_spark.runtime.java import spark_environment
from rmq_spark.runtime.shipping import packed, self_contained_source, unpacked


def session(app_name: str, **conf: str | float | bool) -> SparkSession:
    """Return the running session, or a new one, with Spark settings as in `**{"spark.sql.shuffle.partitions": 8}`.

    Raises ConfigurationError when Spark would have to start Java and there is none.
    """
    if "spark.remote" not in conf and not _java_runs():
        os.environ.update(spark_environment())
    builder = SparkSession.builder.appName(app_name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def register(spark: SparkSession, *, ship: bool = False) -> None:
    """Make `format("rmq")` known to a session that does not find the package `pyspark_rmq` by itself.

    This is needed where the package came by `--py-files`, and over Spark Connect; it works for streams too. ship:
    also send the package to the executors, which then need only its dependencies: redis, hiredis, tenacity and pyarrow.
    Afterwards the leases of streams name the application as their owner, as with the option `application`. They do not
    where Spark 4.0 has found `pyspark_rmq` by itself: it does not replace a format that it has found.
    """
    archive = packed()
    if ship and is_connect(spark):
        spark.addArtifacts(unpacked(archive), pyfile=True)
    elif ship:
        spark.sparkContext.addPyFile(unpacked(archive))
    try:
        spark.dataSource.register(self_contained_source(archive, application_of(spark)))
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _java_runs() -> bool:
    """Return whether Java runs already: under spark-submit, with Spark Connect or with a session of this process."""
    started_for_us = {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & os.environ.keys()
    return bool(started_for_us) or SparkSession.getActiveSession() is not None
