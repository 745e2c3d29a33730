"""A stream like that of `stream_driver.py`, which appends to a table of Delta Lake or Apache Iceberg, without a key.

`python tests/faults/stream_appender.py <url> <folder> <messages a batch> <kind>`, with a kind of `table_kits`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from rmq_spark.tables import appender
from tests.faults.stream_driver import stream
from tests.spark.table_kits import KITS


def numbers(messages: DataFrame) -> DataFrame:
    """Return the number of each message, as the table holds it."""
    return messages.selectExpr("cast(get_json_object(cast(payload AS STRING), '$.n') AS BIGINT) AS n")


def main(url: str, folder: str, most: str, kind: str) -> None:
    """Append until the process is killed."""
    stream(url, folder, most, appender(KITS[kind](Path(folder)).table, numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
