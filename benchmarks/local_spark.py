"""The Spark session of the benchmarks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import cores

THREADS = 2


@contextmanager
def session() -> Iterator[Any]:
    """Yield a local Spark session with two threads, on all cores; restore the environment after the block."""
    import rmq_spark  # only the benchmarks of Spark need it

    logging.getLogger("py4j.clientserver").setLevel(logging.WARNING)
    before = dict(os.environ)
    quiet = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False}
    settings = {"spark.master": f"local[{THREADS}]", "spark.default.parallelism": THREADS, **quiet}
    with cores.everywhere():
        spark = rmq_spark.session("benchmark", **settings)
    spark.sparkContext.setLogLevel("FATAL")
    try:
        yield spark
    finally:
        spark.stop()
        os.environ.clear()
        os.environ.update(before)
