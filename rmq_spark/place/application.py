"""The Spark application that runs this code: it publishes messages and owns leases under its id."""

from __future__ import annotations

from typing import TypeVar

from pyspark import TaskContext
from pyspark.sql import SparkSession

from rmq_core.work import PUBLISHERS, publishing_as

Q = TypeVar("Q")
(HEADER,) = PUBLISHERS["spark"]
APPLICATION_ID = "spark.app.id"
"""Spark's setting with the id. Spark passes it to the tasks of a DataFrame, but not to those of an RDD."""


def application_of(spark: SparkSession) -> str:
    """Return the application's id; over Spark Connect that of the server. '' if the session does not say."""
    return spark.conf.get(APPLICATION_ID, "") or ""


def current_application() -> str:
    """Return the id of the application whose task or driver this is; '' if it cannot be found out here."""
    task = TaskContext.get()
    if task is not None:
        return task.getLocalProperty(APPLICATION_ID) or ""
    session = SparkSession.getActiveSession()
    return "" if session is None else application_of(session)


def publisher_headers(application: str | None = None) -> dict[str, str]:
    """Return the headers that name an application, by default the current one, as the publisher of a message."""
    found = current_application() if application is None else application
    return {HEADER: found} if found else {}


def named_publisher(queue: Q, application: str | None = None) -> Q:
    """Return the queue; the messages that it publishes from now on name this Spark application as their publisher.

    For drivers, and for functions on executors, which publish by themselves: `format("rmq")` does so already. Tasks of
    RDDs, such as those of `foreachPartition`, do not know their application: give its id,
    `spark.sparkContext.applicationId`.
    """
    return publishing_as(queue, lambda: publisher_headers(application))


def owner_of(application: str, run: str = "") -> str | None:
    """Return the owner of leases, `spark:<application>[/<run>]`; None if the application is unknown."""
    return f"spark:{application}{run and '/'}{run}" if application else None
