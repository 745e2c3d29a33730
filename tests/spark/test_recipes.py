"""The documented recipes on local Spark, on a cluster and over Connect: each message has its effects once.

Neither the cluster nor the Connect server has RMQ installed: `register(ship=True)` brings it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from example_dags.spark import forward
from rmq_core import LeasedQueue
from rmq_spark import claimed_batch
from tests.servers.postgres import Postgres, running_postgres
from tests.spark import recipes
from tests.spark.cluster import Daemons, connect_server, standalone_cluster

Order = tuple[int, float]
WANTED = [(number, number / 4) for number in range(recipes.COUNT)]
LARGE = [order for order in WANTED if order[1] >= 50]
CREATE = "CREATE TABLE orders (message_id text PRIMARY KEY, number int, amount double precision)"
PATIENCE_S = 900
ALIKE = pytest.mark.nightly(
    "spark/test_recipes.py::test_a_new_claim_of_a_run_is_forwarded_whatever_the_one_before_had_published"
)
RESTARTED = pytest.mark.nightly("spark/test_stream_source.py::test_a_batch_that_fails_is_read_again_by_the_restart")


class Ran(NamedTuple):
    """The findings of the recipes, and what they wrote: where, and the orders in a database and in queues."""

    said: dict[str, Any]
    folder: Path
    held: dict[str, list[Order]]


class Place(NamedTuple):
    """Where recipes write."""

    url: str
    folder: Path
    postgres: Postgres

    def ran(self, said: dict[str, Any]) -> Ran:
        queues = {name: self._published(name) for name in said if name.startswith("forward")}
        return Ran(said, self.folder, {"upsert": self._query("SELECT number, amount FROM orders"), **queues})

    def run(self, daemons: Daemons, **variables: str) -> Ran:
        """Run the recipes in their own process; return their findings."""
        command = [sys.executable, "-m", "tests.spark.recipes", self.url, str(self.folder), self.postgres.dsn]
        done = subprocess.run(
            command, env=daemons.driver(**variables), capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return self.ran(json.loads(done.stdout.splitlines()[-1]))

    def _published(self, name: str) -> list[Order]:
        with LeasedQueue(self.url, name) as queue:
            orders = [json.loads(message.raw) for message in queue.admin.peek(2 * recipes.COUNT)]
            return [(order["number"], order["amount"]) for order in orders]

    def _query(self, query: str) -> list[Any]:
        with closing(psycopg2.connect(self.postgres.dsn)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def place(redis_url: str, postgres: Postgres, tmp_path: Path) -> Place:
    with closing(psycopg2.connect(postgres.dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS orders; {CREATE}")
    return Place(redis_url, tmp_path, postgres)


def check(ran: Ran, rounds: int = 1) -> None:
    """Assert that every sink contains every order once, and the queue is empty."""
    batch, stream = [recipes.COUNT, 0, 0], [0] * rounds
    batches = dict.fromkeys(("overwrite", "append", "merge", "upsert", "forward"), batch)
    streams = dict.fromkeys(
        ("files stream", "overwrite stream", "merge stream", "append stream", "forward stream"), stream
    )
    assert ran.said == batches | streams
    wanted = {name: LARGE if name.startswith("forward") else WANTED for name in ran.said}
    assert {name: orders == wanted[name] for name, orders in _held(ran).items()} == dict.fromkeys(ran.said, True)


def _held(ran: Ran) -> dict[str, list[Order]]:
    """Return the orders in each sink, in order."""
    files = {name: pyarrow.parquet.read_table(ran.folder / name) for name in ran.said if _in_files(name)}
    delta = {name: DeltaTable(ran.folder / name).to_pyarrow_table() for name in ran.said if _in_delta(name)}
    tables = {name: _orders(table) for name, table in (files | delta).items()}
    return tables | {name: sorted(orders) for name, orders in ran.held.items()}


def _in_files(name: str) -> bool:
    return name.startswith(("files", "overwrite"))


def _in_delta(name: str) -> bool:
    return name.startswith(("merge", "append"))


def _orders(table: Any) -> list[Order]:
    return sorted(zip(table["number"].to_pylist(), table["amount"].to_pylist(), strict=True))


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=RESTARTED)])
def test_recipes_have_their_effects_once_on_a_local_spark(spark: SparkSession, place: Place, rounds: int) -> None:
    check(place.ran(recipes.run_all(spark, place.url, str(place.folder), place.postgres.dsn, rounds)), rounds)


@pytest.mark.nightly("spark/test_unit_shipping.py::test_the_class_works_in_a_python_without_the_package")
def test_recipes_have_their_effects_once_on_a_cluster_without_rmq(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as (daemons, conf):
        check(place.run(daemons, RECIPES_CONF=json.dumps(conf)))


@pytest.mark.nightly("spark/test_unit_shipping.py::test_an_appender_works_in_a_python_without_the_package")
def test_recipes_have_their_effects_once_over_connect_without_rmq(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with connect_server(tmp_path_factory.mktemp("connect")) as (daemons, remote):
        check(place.run(daemons, RECIPES_CONF="{}", SPARK_REMOTE=remote))


@pytest.mark.parametrize(
    "end", [pytest.param(SystemExit, id="expired", marks=ALIKE), pytest.param(ZeroDivisionError, id="nacked")]
)
def test_a_new_claim_of_a_run_is_forwarded_whatever_the_one_before_had_published(
    spark: SparkSession, redis_url: str, end: type[BaseException]
) -> None:
    def first_try() -> None:
        with claimed_batch(spark, redis_url, recipes.QUEUE, lease_id="run") as batch:
            forward.publish(batch, redis_url, "large")
            raise end

    with LeasedQueue(redis_url, recipes.QUEUE) as queue, LeasedQueue(redis_url, "large") as large:
        queue.publish_many([{"number": number, "amount": 100} for number in range(2)])
        with pytest.raises(end):
            first_try()
        queue.client.zadd(f"rmq:{{{recipes.QUEUE}}}:leases", {"run": 1}, xx=True)  # it expires, if it exists
        assert queue.backlog().ready == 2
        queue.publish_many([{"number": number, "amount": 100} for number in range(2, 4)])
        runs = iter(["run", *map(str, range(10))])  # more than one: messages that failed before are claimed one by one
        while forward.run(spark, redis_url, "large", next(runs)):
            pass
        assert recipes._left(queue) == 0
        found = [json.loads(message.raw)["number"] for message in large.admin.peek(100)]
    assert sorted(found) == [0, 0, 1, 1, 2, 3], "the first two came again, the others are there"
