"""Spark imports every `pyspark_*` package and registers its DefaultSource: this is how `format("rmq")` is found."""

from __future__ import annotations

from rmq_spark.data_source import RmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
