"""The small examples' data: 26,115 hours of 2013's weather at New York's airports; a work item is an airport-month.

Each result is a file of its own, named after its work item: processing an item twice writes the same file twice.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

from flights import AIRPORTS, weather_csv

RESULTS = Path(os.environ.get("RMQ_DEMO_RESULTS", Path(tempfile.gettempdir(), "weather"))).absolute()


class AirportMonth(TypedDict):
    """A work item."""

    origin: str
    month: int


def airport_months() -> list[AirportMonth]:
    """Return all 36 airport-months."""
    return [AirportMonth(origin=origin, month=month) for month in range(1, 13) for origin in AIRPORTS]


def summarise(item: Mapping[str, Any], folder: str) -> dict[str, float]:
    """Write the hours, mean temperature (°F) and rain (inches) of an airport-month into a folder of the results."""
    hours = _hours().get((item["origin"], item["month"]))
    if hours is None:
        raise ValueError(f"there is no weather of {item['origin']} in month {item['month']}")
    temperatures = [float(row["temp"]) for row in hours if row["temp"] not in ("", "NA")]
    rain = sum(float(row["precip"]) for row in hours if row["precip"] not in ("", "NA"))
    summary = {"hours": len(hours), "mean_temp": sum(temperatures) / len(temperatures), "rain": rain}
    target = RESULTS / folder / f"{item['origin']}-{item['month']:02}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(summary))
    return summary


def written(folder: str) -> dict[str, float]:
    """Return how many airport-months a folder of the results has, and how many hours they cover."""
    found = [json.loads(path.read_text()) for path in (RESULTS / folder).glob("*.json")]
    return {"months": len(found), "hours": sum(each["hours"] for each in found)}


@cache
def _hours() -> dict[tuple[str, int], list[dict[str, str]]]:
    """All hours of each airport-month, read once in a process."""
    found = defaultdict(list)
    with weather_csv().open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["origin"], int(row["month"])].append(row)
    return dict(found)
