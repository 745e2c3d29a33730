"""The Spark jobs of a block: tagged, so that any thread can cancel them, on a cluster and over Spark Connect alike.

A tag, not a job group: a thread has one group, which is the user's, but any number of tags.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from pyspark.sql import SparkSession

CONNECT_PARALLELISM = 4  # a Connect server does not say how many cores it has


class _Tagging(NamedTuple):
    add: Callable[[str], None]
    remove: Callable[[str], None]
    cancel: Callable[[str], object]


@contextmanager
def tagged_jobs(spark: SparkSession) -> Iterator[Callable[[], object]]:
    """Tag the jobs that this thread starts in the block; yields what cancels those that run, from any thread."""
    tagging, tag = _tagging(spark), f"rmq-{uuid.uuid4().hex}"
    tagging.add(tag)
    try:
        yield partial(tagging.cancel, tag)
    finally:
        tagging.remove(tag)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session talks to a Spark Connect server: it has no SparkContext then."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def parallelism(spark: SparkSession) -> int:
    """How many tasks can run at once, as far as the session knows."""
    return CONNECT_PARALLELISM if is_connect(spark) else spark.sparkContext.defaultParallelism


def _tagging(spark: SparkSession) -> _Tagging:
    if is_connect(spark):
        return _Tagging(spark.addTag, spark.removeTag, spark.interruptTag)
    # The tags of a classic session leave out the jobs of RDDs, which foreachPartition starts.
    context = spark.sparkContext
    return _Tagging(context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)
