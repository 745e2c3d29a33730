"""Append a batch to a table once, by the table's own transaction log: Delta Lake and Apache Iceberg.

The name of the batch is committed together with its rows, so a repeated batch is found in the log and acked without
computing it again. The rows have no key and nothing is merged. docs/explanation/spark-guarantees.md states the limits.
"""

from __future__ import annotations

from rmq_spark.tables.appending import append_once, appended, appender
from rmq_spark.tables.log import BatchName, TableConflict, TableNotFound, batch_names

__all__ = ["BatchName", "TableConflict", "TableNotFound", "append_once", "appended", "appender", "batch_names"]
