"""A report in Dagster when all of a month is done: the delays of each airline, computed by many runs.

    export RMQ_URL=embedded:///tmp/flights-redis RMQ_DEMO_RESULTS=/tmp/flights
    dagster dev -m example_dags.flights_report_dagster

Materialize `airline_airports`. It publishes an item for each airport of each airline, in a group for each airline, and
names the month as their publication. A doorbell sensor requests runs of `airline_delays`, of which no two ever work on
one airline, because the groups are exclusive: so they may change the airline's file. When the last item is acked, the
publication sensor requests `month_report`, whose check shows the counts and fails if an item is a dead letter.
"""

# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from example_dags.flights import flights_csv
from rmq_core import LeasedConfig, NewMessage
from rmq_dagster import (
    RedisQueueResource,
    build_redis_queue_sensor,
    redis_queue_publication_check,
    redis_queue_publication_sensor,
)

if TYPE_CHECKING:
    import pandas as pd

QUEUE = "airline-airports"
CONFIG = LeasedConfig(lease=60)
BATCH = 6
RESULTS = Path(os.environ.get("RMQ_DEMO_RESULTS", Path(tempfile.gettempdir(), "flights"))).absolute()


class Month(dg.Config):
    """The month to work on."""

    month: str = "2013-01"


@dg.asset(group_name="flights")
def airline_airports(
    context: dg.AssetExecutionContext, config: Month, redis_queue: RedisQueueResource
) -> dg.MaterializeResult[Any]:
    """Publish the airports of each airline, once however often this step is retried."""
    redis_queue.queue(QUEUE, CONFIG).admin.configure(groups="exclusive")
    pairs = flights_of(config.month)[["carrier", "origin"]].drop_duplicates().to_dict("records")
    messages = [NewMessage({**pair, "month": config.month}, group=pair["carrier"]) for pair in pairs]
    with redis_queue.outbox(context, QUEUE, config=CONFIG) as outbox:
        outbox.publish(messages, publication=f"report {config.month}")
    return dg.MaterializeResult(metadata={"items": len(messages)})


@dg.asset(group_name="flights", deps=[airline_airports], retry_policy=dg.RetryPolicy(max_retries=2))
def airline_delays(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
    """Put the sums of some airports into the files of their airlines."""
    with redis_queue.claimed(context, QUEUE, max_messages=BATCH, config=CONFIG) as batch:
        for message in batch:
            item = message.payload
            of_month = flights_of(item["month"])
            flights = of_month[(of_month["carrier"] == item["carrier"]) & (of_month["origin"] == item["origin"])]
            target = RESULTS / item["month"] / f"{item['carrier']}.json"
            known = json.loads(target.read_text()) if target.exists() else {}
            sums = {"flights": len(flights), "delay_minutes": int(flights["dep_delay"].sum())}
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps({**known, item["origin"]: sums}))  # no other run works on this airline
        return dg.MaterializeResult(metadata=batch.metadata)


@dg.asset(group_name="flights", deps=[airline_delays])
def month_report(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    """Add up the files of all airlines for the month whose publication has ended."""
    month = context.run.tags["rmq/publication"].removeprefix("report ")
    files = sorted((RESULTS / month).glob("*.json"))
    airlines = {file.stem: json.loads(file.read_text()) for file in files}
    total = {name: sum(each["flights"] for each in airports.values()) for name, airports in airlines.items()}
    table = "\n".join(["| airline | flights |", "|---|---|", *(f"| {name} | {n:,} |" for name, n in total.items())])
    shown = {"flights": sum(total.values()), "airlines": dg.MetadataValue.md(table)}
    return dg.MaterializeResult(metadata={"month": month, **shown})


@cache
def flights_of(month: str) -> "pd.DataFrame":
    """Return the departures of a month."""
    import pandas as pd  # only steps need it

    flights = pd.read_csv(flights_csv(RESULTS), usecols=["year", "month", "carrier", "origin", "dep_delay"])
    year, number = map(int, month.split("-"))
    return flights[(flights["year"] == year) & (flights["month"] == number)]


running: dict[str, Any] = {"minimum_interval_seconds": 5, "default_status": dg.DefaultSensorStatus.RUNNING}
doorbell = build_redis_queue_sensor(QUEUE, target=airline_delays, batch=BATCH, config=CONFIG, **running)
month_is_done = redis_queue_publication_sensor(QUEUE, target=[month_report], prefix="report ", config=CONFIG, **running)
all_is_done = redis_queue_publication_check(QUEUE, asset=month_report, config=CONFIG)

defs = dg.Definitions(
    assets=[airline_airports, airline_delays, month_report],
    asset_checks=[all_is_done],
    sensors=[doorbell, month_is_done],
    resources={"redis_queue": RedisQueueResource(url=dg.EnvVar("RMQ_URL"))},
    executor=dg.in_process_executor,
)
