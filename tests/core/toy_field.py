"""Prints, as JSON, what each place that shows messages has of one message.

`test_message_fields.py` runs this beside a copy of `rmq_core` that has a field more, whose header the message has.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import types

from rmq_cli import records, search
from rmq_cli.consume import environment
from rmq_console.shown import message_shown
from rmq_core.envelope.codec import arrow_columns, body, message_of
from rmq_core.jobs.job import job_of
from rmq_spark.schema import FILTERED, BrowsedMessage, browsed_batch, browsed_row, leased_batch
from rmq_spark.write import columns
from tests.airflow.home import prepare

TEXTS = types.MapType(types.StringType(), types.StringType())


def shown() -> dict[str, Any]:
    """Return what each place has, by its name."""
    prepare()
    from rmq_airflow.triggers.shared_stream import Read
    from rmq_dagster.assets.dead_letters import NEWEST_COLUMNS, letter, table

    envelope = b"0 1500 0 " + body("id-1", "s", b"text", b'{"rmq-tenant":"acme"}')
    message = message_of(envelope)
    leased = arrow_columns().batch_of([envelope], [0], 1, "lease", "q")
    newest = table(NEWEST_COLUMNS, [letter(message)])
    return {
        "Message": {"tenant": message.tenant},
        "Job": {"tenant": job_of(envelope).tenant},
        "--json": records.message_record("q", message),
        "rmq peek": dict(zip(records.MESSAGES, records.message_row(message), strict=True)),
        "rmq search": dict(zip(search.COLUMNS, search.row(search.Hit("ready", message, None, None)), strict=True)),
        "rmq consume": {name.removeprefix("RMQ_").lower(): text for name, text in environment("q", message).items()},
        "the console": message_shown(message, lambda _: None),
        "Spark's lease": leased_batch(leased).select(["tenant"]).to_pylist()[0],
        "Spark's browse": browsed_batch([browsed_row(BrowsedMessage(message, "ready", "q"))]).to_pylist()[0],
        "Spark's filters": dict.fromkeys(FILTERED, "acme"),
        "Airflow's event": Read.of("q", message).event,
        "Dagster's table": {column.name: newest.records[0].data[column.name] for column in newest.schema.columns},
    }


def published() -> list[Any]:
    """Return the headers of what a sink publishes from rows whose `headers` and `tenant` agree, and do not."""
    other = {"rmq-tenant": "other", "k": "v"}
    rows = {
        "payload": pa.array(["a", "b", "c", "d"]),
        "headers": pa.array([other, other, None, None], pa.map_(pa.string(), pa.string())),
        "tenant": pa.array(["acme", "", "acme", None]),
    }
    kinds = {"payload": types.StringType(), "headers": TEXTS, "tenant": types.StringType()}
    found = columns.columns_of(types.StructType([types.StructField(name, kind) for name, kind in kinds.items()]))
    return [message.headers for message in found.messages(pa.RecordBatch.from_pydict(rows), {"by": "me"})]


if __name__ == "__main__":
    print(json.dumps({"shown": shown(), "published": published()}, default=str))
