"""The Spark job of the demo: departure delays by carrier and weather, for the airport-days of one lease.

A submitter hands the lease over (see `rmq_core.orchestrate.Handover`). Each airport-day has a folder of its own. So a
replay overwrites exactly the files of an earlier try, even if the item is redelivered under another lease.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark import StatusTracker
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import rmq_spark

FLIGHTS = """year int, month int, day int, dep_time int, sched_dep_time int, dep_delay double, arr_time int,
    sched_arr_time int, arr_delay double, carrier string, flight int, tailnum string, origin string, dest string,
    air_time double, distance int, hour int, minute int, time_hour timestamp"""
WEATHER = """origin string, year int, month int, day int, hour int, temp double, dewp double, humid double,
    wind_dir double, wind_speed double, wind_gust double, precip double, pressure double, visib double,
    time_hour timestamp"""
SPARK = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": 8, "spark.ui.enabled": False}


def main() -> None:
    """Work on the lease that was handed over, ack it, then report."""
    options = _options()
    started = time.monotonic()
    with _pipes() as pipes:
        spark = rmq_spark.session("flight-delays", **SPARK)
        with tasks_counted(spark), rmq_spark.adopted_batch(spark) as batch:
            report = {"items": len(batch), "already_settled": batch.already_settled}
            if batch:
                report |= work(batch, options)
        report |= {"seconds": round(time.monotonic() - started, 1)}
        print(json.dumps(report), flush=True)
        if options.report:
            options.report.write_text(json.dumps(report))
        if pipes:
            pipes.report_asset_materialization(metadata=report)
        spark.stop()


def work(batch: rmq_spark.ClaimedBatch, options: argparse.Namespace) -> dict[str, Any]:
    """Write both tables; return how many rows went into `departures`. Raises ValueError for an unknown airport-day."""
    report = write(batch.df, options)
    batch.check()
    return report


def write(messages: DataFrame, options: argparse.Namespace) -> dict[str, Any]:
    """Do the same for messages that the caller holds, such as those of a micro-batch."""
    items = airport_days(messages)
    rows = departures(items, options).repartition("origin", "day").persist()
    counted = Observation()
    total, united = F.count(F.lit(1)).alias("rows"), F.count_if(F.col("carrier") == "UA").alias("united_rows")
    overwrite(rows.observe(counted, total, united), options.results / "departures")
    crash_once()
    overwrite(statistics(rows), options.results / "delays")
    unknown = items.join(rows, ["origin", "day"], "left_anti").count()
    rows.unpersist()
    if unknown:
        raise ValueError(f"{unknown} of {messages.count()} messages name no airport-day with departures")
    return dict(counted.get)


def airport_days(messages: DataFrame) -> DataFrame:
    """Return the airport-days that the messages name, each once, even if it was published twice."""
    item = F.from_json(F.col("payload").cast("string"), "origin string, day date")
    return messages.select(item.alias("item")).select("item.*").distinct()


def departures(items: DataFrame, options: argparse.Namespace) -> DataFrame:
    """Return all departures of these airport-days with the weather of their hour, which may be `unknown`."""
    read = items.sparkSession.read.options(header=True, enforceSchema=False, nullValue="NA")
    flights = read.csv(str(options.flights), schema=FLIGHTS).withColumn("day", F.make_date("year", "month", "day"))
    weather = read.csv(str(options.weather), schema=WEATHER).select("origin", "time_hour", weather_class())
    wanted = flights.drop("year", "month", "hour", "minute").join(F.broadcast(items), ["origin", "day"], "left_semi")
    return wanted.join(F.broadcast(weather), ["origin", "time_hour"], "left").fillna("unknown", ["weather"])


def weather_class() -> Column:
    """Classify an hour's weather in one word. The data is in inches, degrees Fahrenheit, miles and miles an hour."""
    wet, freezing = F.col("precip") > 0, F.col("temp") <= 32
    stormy = F.col("wind_speed").between(25, 200)  # one reading is 1,048
    word = F.when(wet & freezing, "snow").when(wet, "rain").when(F.col("visib") < 3, "fog").when(stormy, "wind")
    return word.otherwise("fair").alias("weather")


def statistics(rows: DataFrame) -> DataFrame:
    """Sum by airport-day, carrier and weather, so that results add up. A cancelled flight has no delay."""
    delay = F.col("dep_delay")
    late = F.count_if(delay > 15).alias("late")  # minutes, as the authorities count it
    sums = F.count(F.lit(1)).alias("flights"), F.count(delay).alias("departed"), F.sum(delay).alias("delay_minutes")
    return rows.groupBy("origin", "day", "carrier", "weather").agg(*sums, late)


def overwrite(rows: DataFrame, table: Path) -> None:
    """Replace the folders of the airport-days that have rows here, and no others."""
    writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy("origin", "day").parquet(str(table))


@contextmanager
def tasks_counted(spark: SparkSession) -> Iterator[None]:
    """During the block, keep the counts of finished and of all tasks in the file that `make demo` reads."""
    target, ended = os.environ.get("RMQ_DEMO_TASKS"), threading.Event()
    if target is None:
        yield
        return
    arguments = (spark.sparkContext.statusTracker(), Path(target), ended)
    counting = threading.Thread(target=_count_tasks, args=arguments, daemon=True)
    counting.start()
    try:
        yield
    finally:
        ended.set()
        counting.join()


def _count_tasks(tracker: StatusTracker, target: Path, ended: threading.Event) -> None:
    """Write both counts once a second; the tasks of a stage count as soon as one of them has started."""
    while not ended.wait(1):
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup()))
        stages = map(tracker.getStageInfo, {stage for job in jobs for stage in job.stageIds})
        begun = [stage for stage in stages if stage and stage.numActiveTasks + stage.numCompletedTasks]
        if begun:
            done, total = sum(stage.numCompletedTasks for stage in begun), sum(stage.numTasks for stage in begun)
            written = target.with_suffix(".new")
            written.write_text(f"{done} {total}")
            written.replace(target)  # the reader never finds an empty file


def crash_once() -> None:
    """Kill the first driver here with SIGKILL, in the middle of its work, if `make demo CRASH=1` started the job."""
    marker = os.environ.get("RMQ_DEMO_CRASH_MARKER")
    if marker is None:
        return
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flights", type=Path, required=True, help="CSV of the departures")
    parser.add_argument("--weather", type=Path, required=True, help="CSV of the hourly weather")
    parser.add_argument("--results", type=Path, required=True, help="folder of the tables departures and delays")
    parser.add_argument("--report", type=Path, help="JSON file to write when the work is done and acked")
    return parser.parse_args()


def _pipes() -> AbstractContextManager[Any]:
    """Open the Dagster Pipes session if Dagster started this job; otherwise the context yields None."""
    if "DAGSTER_PIPES_CONTEXT" not in os.environ:
        return nullcontext()
    from dagster_pipes import open_dagster_pipes  # comes with Dagster

    return open_dagster_pipes()


if __name__ == "__main__":
    main()
