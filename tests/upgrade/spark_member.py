"""A Spark driver of either version that adopts the lease of its environment: `spark_member.py FOLDER MARKER`.

It writes the numbers of messages that the lease and the executors have to MARKER, and acks them at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rmq_core
import rmq_spark


def versions(_: Iterator[Any]) -> Iterator[str]:
    """Return where the Python of an executor finds RMQ."""
    import rmq_core as found

    yield str(found.__file__)


def main(folder: str, marker: str) -> None:
    spark = rmq_spark.session("driver", **{"spark.ui.enabled": False})
    places = {str(rmq_core.__file__), *spark.sparkContext.parallelize([0], 1).mapPartitions(versions).collect()}
    assert all(place.startswith(folder) for place in places), places
    with rmq_spark.adopted_batch(spark) as batch:
        Path(marker).write_text(f"{batch.count} {len(batch.df.collect())}")


if __name__ == "__main__":
    main(*sys.argv[1:])
