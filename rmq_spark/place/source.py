"""The source of rows: the Redis, the queue and its discipline, and the application; checked on the driver.

Two disciplines hold leases large enough for Spark, `leased` and `jobs`; the others raise Unsupported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

from pyspark import TaskContext
from pyspark.sql import SparkSession

from rmq_core import (
    ConfigurationError,
    JobQueue,
    LeasedConfig,
    LeasedQueue,
    RedisSettings,
    Unsupported,
    discipline_of,
    disciplines,
)
from rmq_core.jobs import JobsConfig
from rmq_core.orchestrate import PUBLISHERS, publishing_as
from rmq_core.protocol import DISCIPLINES
from rmq_spark.place.options import Option, OptionValues, one_of, text, whole

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


SourceQueue: TypeAlias = LeasedQueue | JobQueue

URL = text("url", "where Redis is, such as 'redis://host:6379/0'", secret=True)
USERNAME = text("username").or_else(None)
PASSWORD = text("password", secret=True).or_else(None)
QUEUE = text("queue", "the name of a queue")
MODE = one_of("mode", "claim", "browse").or_else("claim")
DISCIPLINE = one_of("discipline", *DISCIPLINES).or_else("leased")
PARTITIONS = whole("numPartitions").or_else(4)
VALUE_SCHEMA = text("valueSchema", "columns in DDL, such as 'id INT NOT NULL, name STRING'").or_else(None)
DELIVERIES = whole("maxDeliveries").or_else(10)
PLACE: tuple[Option[Any], ...] = (URL, USERNAME, PASSWORD, QUEUE, DISCIPLINE)
"""The options of every source and sink."""
ABLE = ("leased", "jobs")


@dataclass(frozen=True)
class Source:
    """A queue as the options name it. It is pickled to the executors, including the credentials."""

    settings: RedisSettings
    queue: str
    discipline: str = "leased"

    @classmethod
    def of(cls, options: OptionValues) -> Source:
        """Build it from the options in `PLACE`. Raises ConfigurationError for a wrong URL."""
        settings = RedisSettings.from_url(
            options[URL], username=options[USERNAME], password=options[PASSWORD], client_name="rmq_spark"
        )
        return cls(settings, options[QUEUE], options[DISCIPLINE])

    def open(self, **config: Any) -> SourceQueue:
        """Open the queue. `config`: settings that both disciplines have. Raises Unsupported for other disciplines."""
        if self.discipline == "leased":
            return LeasedQueue(self.settings, self.queue, LeasedConfig(**config))
        if self.discipline == "jobs":
            return JobQueue(self.settings, self.queue, JobsConfig(**config))
        raise Unsupported(self.discipline, 'large_leases (needed by format("rmq"))', ABLE)

    def check(self) -> None:
        """Raise ConfigurationError for a queue that was never used or has another discipline: often a misspelt name."""
        found = discipline_of(self.settings, self.queue)
        if found is None:
            near = get_close_matches(self.queue, disciplines(self.settings), n=1)
            meant = f"; did you mean {near[0]!r}?" if near else "; publish to it first"
            raise ConfigurationError(f"option queue: this server has no queue {self.queue!r}{meant}")
        if found != self.discipline:
            raise ConfigurationError(
                f"option discipline: queue {self.queue!r} is not {self.discipline!r}; set it to {found!r}"
            )


def check_place(given: Mapping[str, str]) -> None:
    """Raise ConfigurationError for options that name neither Redis nor queue, as Spark drops those of a table."""
    names = {name.lower() for name, value in given.items() if value}
    if not names & {URL.name, QUEUE.name}:
        raise ConfigurationError(
            'format("rmq") needs the options url and queue, and got neither. Spark drops those of CREATE TABLE: use'
            " CREATE TEMPORARY VIEW v USING rmq OPTIONS (url '...', queue '...'), or name them in each query, as in"
            " SELECT * FROM t WITH ('url' = '...', 'queue' = '...')"
        )
