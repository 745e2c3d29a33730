"""The demo's Spark job on a few real airport-days, as a submitter runs it and as a stream, and the guide's job."""

from __future__ import annotations

import csv
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from example_dags import flights, flights_delta, flights_stream
from example_dags.jobs import delays
from rmq_core import LeasedQueue
from rmq_spark.tables import appender
from tests.spark import recipes
from tests.spark.conftest import SUBMIT

JOB = Path(delays.__file__)
# 8 February brought a snow storm, 1 January has hours without weather at midnight, 3 November has one hour twice.
DAYS = ("2013-01-01", "2013-02-08", "2013-11-03")


@pytest.fixture(scope="module")
def all_flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All flights, unpacked."""
    return flights.flights_csv(tmp_path_factory.mktemp("input"))


@pytest.fixture(scope="module")
def flights_csv(all_flights: Path) -> Path:
    """The flights of the tested days and of those around them, to save time."""
    wanted = tuple(f"2013,{int(month)}," for _, month, _ in (day.split("-") for day in DAYS))
    header, *lines = all_flights.read_text().splitlines()
    some = all_flights.with_name("some.csv")
    some.write_text("\n".join([header, *(line for line in lines if line.startswith(wanted))]))
    return some


@pytest.fixture(scope="module")
def departures(all_flights: Path) -> Counter[tuple[str, str, str]]:
    """Return how many flights left, by airport, day and carrier, counted without Spark."""
    with all_flights.open(newline="") as lines:
        return Counter(
            (row["origin"], f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}", row["carrier"])
            for row in csv.DictReader(lines)
        )


def some_items() -> list[flights.AirportDay]:
    """Return the work items of three days at three airports."""
    return [item for item in flights.work_items() if item["day"] in DAYS]


@pytest.fixture
def items(queue: LeasedQueue) -> list[flights.AirportDay]:
    """The same items, published and in a lease of a submitter."""
    items = some_items()
    queue.publish_many(list(map(dict, items)))
    queue.claim(max_messages=99, lease_id="run", owner="try-1")
    return items


@pytest.fixture
def run_job(handover: Any, flights_csv: Path, tmp_path: Path) -> Any:
    """Run the job to its end."""

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        options = {"flights": flights_csv, "weather": flights.weather_csv(), "results": tmp_path / "results"}
        arguments = [f"--{name}={value}" for name, value in (options | {"report": tmp_path / "report.json"}).items()]
        return subprocess.run(
            [*SUBMIT, str(JOB), *arguments],
            env=os.environ | handover("run") | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


@pytest.mark.nightly("faults/test_spark_batch.py::test_the_next_driver_takes_over_the_batch_of_a_killed_driver")
def test_a_killed_job_and_its_retry_write_every_departure_once(
    items: list[flights.AirportDay],
    departures: Counter[tuple[str, str, str]],
    queue: LeasedQueue,
    run_job: Any,
    tmp_path: Path,
) -> None:
    expected = {key: count for key, count in departures.items() if key[1] in DAYS}
    killed = run_job(RMQ_DEMO_CRASH_MARKER=str(tmp_path / "crashed"))
    assert killed.returncode != 0
    assert (tmp_path / "crashed").exists()
    assert (tmp_path / "results" / "departures").exists()
    assert not (tmp_path / "report.json").exists()
    assert queue.stats().leased == len(items)

    retried = run_job(RMQ_DEMO_CRASH_MARKER=str(tmp_path / "crashed"))
    assert retried.returncode == 0, retried.stderr[-2000:]
    united = sum(count for (_, _, carrier), count in expected.items() if carrier == "UA")
    rows = sum(expected.values())
    report = json.loads((tmp_path / "report.json").read_text())
    assert report | {"seconds": 0} == {
        "items": 9, "already_settled": False, "rows": rows, "united_rows": united, "seconds": 0,
    }  # fmt: skip
    assert flights.written(tmp_path / "results") == {"airport_days": 9, "rows": rows, "united_rows": united}
    record = queue.settled("run")
    assert record is not None
    assert record.acked == 9

    table = flights.delays(tmp_path / "results")
    assert table["flights"].sum() == rows
    assert {"fair", "snow", "rain", "unknown"} <= set(table["weather"])
    assert flights.plot(tmp_path / "results", tmp_path / "plot.png").stat().st_size > 10_000


def test_a_stream_writes_the_same_in_several_batches_and_acks_it(
    spark: SparkSession,
    redis_url: str,
    flights_csv: Path,
    departures: Counter[tuple[str, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = Counter({key: count for key, count in departures.items() if key[1] in DAYS})
    united = sum(count for (_, _, carrier), count in expected.items() if carrier == "UA")
    monkeypatch.setattr(flights_stream, "work_items", some_items)
    monkeypatch.setattr(flights_stream, "BATCH", 5)
    shutil.copy(flights_csv, tmp_path / "flights.csv")
    work = flights_stream.DelaysOfBatch(tmp_path)
    with LeasedQueue(redis_url, flights_stream.QUEUE, flights_stream.CONFIG) as queue:
        assert flights_stream.publish(queue) == {"published": 9, "deduplicated": 9}
        start = partial(flights_stream.stream, spark, redis_url, tmp_path, work)
        assert any(recipes.ended(start) for _ in range(recipes.TRIES))
        assert flights_stream.report(queue, tmp_path, work) == {
            "batches": 2, "acked": 9, "ready": 0, "leased": 0, "dead": 0,
            "airport_days": 9, "rows": expected.total(), "united_rows": united,
        }  # fmt: skip
    assert flights.delays(tmp_path)["flights"].sum() == expected.total()


@pytest.mark.nightly("spark/test_append_once.py::test_a_micro_batch_that_is_repeated_is_appended_once")
def test_a_stream_into_a_delta_table_that_dies_before_its_ack_has_each_departure_once(
    spark: SparkSession,
    redis_url: str,
    flights_csv: Path,
    departures: Counter[tuple[str, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dying(table: Any, rows: Any) -> Any:
        append = appender(table, rows)

        def die_after(messages: DataFrame, number: int) -> None:
            append(messages, number)
            raise ZeroDivisionError

        return die_after

    monkeypatch.setattr(flights_stream, "work_items", some_items)
    monkeypatch.setattr(flights_delta, "BATCH", 5)
    shutil.copy(flights_csv, tmp_path / "flights.csv")
    start = partial(flights_delta.stream, spark, redis_url, tmp_path)
    with LeasedQueue(redis_url, flights_delta.QUEUE, flights_delta.CONFIG) as queue:
        assert flights_stream.publish(queue) == {"published": 9, "deduplicated": 9}
        with monkeypatch.context() as patch:
            patch.setattr(flights_delta, "appender", dying)
            with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
                any(recipes.ended(start) for _ in range(recipes.TRIES))
        assert any(recipes.ended(start) for _ in range(recipes.TRIES))
        found = flights_delta.report(queue, tmp_path)
    expected = Counter({key: count for key, count in departures.items() if key[1] in DAYS})
    united = sum(count for (_, _, carrier), count in expected.items() if carrier == "UA")
    assert found == {"ready": 0, "leased": 0, "dead": 0, "rows": expected.total(), "united_rows": united}
    rows = DeltaTable(tmp_path / "departures_delta").to_pyarrow_table().to_pylist()
    assert Counter((row["origin"], f"{row['day']}", row["carrier"]) for row in rows) == expected


def test_the_job_of_the_guide_adds_up_the_orders_of_its_batch(
    spark: SparkSession, queue: LeasedQueue, handover: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [{"customer": name, "amount": amount} for name in ("ada", "bob") for amount in (1.5, 2.0, 4.0)]
    queue.publish_many([*orders, "no order"])
    queue.claim(max_messages=99, lease_id="run/1", owner="try-1")
    for name, value in handover("run/1").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["totals.py", str(tmp_path)])
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # `spark` is the session of all tests
    runpy.run_path(str(JOB.with_name("totals.py")))
    rows = pyarrow.parquet.read_table(tmp_path).select(["customer", "total"]).to_pylist()
    assert sorted((row["customer"], row["total"]) for row in rows) == [("ada", 7.5), ("bob", 7.5)]
    (back,) = queue.admin.peek(10)
    assert (back.payload, back.history[0].reason) == ("no order", "payload is not JSON of the declared schema")
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)
