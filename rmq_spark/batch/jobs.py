"""The Spark jobs of a block: tagged, so that any thread can cancel them, on a cluster and over Spark Connect alike.

It uses a tag and not a job group because a thread has one group, which belongs to the user, but any number of tags.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession

CONNECT_PARALLELISM = 4  # a Connect server does not report how many cores it has


@contextmanager
def tagged_jobs(spark: SparkSession) -> Iterator[Callable[[], object]]:
    """Tag the jobs that this thread starts in the block; yield a function that cancels them from any thread."""
    tag = f"rmq-{uuid.uuid4().hex}"
    cancel: Callable[[str], object]
    if is_connect(spark):
        add, remove, cancel = spark.addTag, spark.removeTag, spark.interruptTag
    else:  # the tags of a classic session leave out the jobs of RDDs, which foreachPartition starts
        context = spark.sparkContext
        add, remove, cancel = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    add(tag)
    try:
        yield partial(cancel, tag)
    finally:
        remove(tag)


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session talks to a Spark Connect server; such a session has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks can run at once, as far as the session knows."""
    return CONNECT_PARALLELISM if is_connect(spark) else spark.sparkContext.defaultParallelism
