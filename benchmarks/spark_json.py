"""The cost of separating payloads that fit a schema from others: `split_json` compared with one plain `from_json`.

200,000 JSON payloads of 190 bytes are in Spark's memory, so that only parsing is compared, and all rows go into a
`noop` sink. Of `split_json`, the payloads that fit are measured; `parsed` keeps all rows. The plain `from_json` checks
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.figures import Figure, Findings, Spread
from benchmarks.rounds import Contender, race
from benchmarks.targets import at_most

COUNT = 200_000
WARM = 5
SCHEMA = "number INT NOT NULL, origin STRING, delay DOUBLE, flown STRUCT<at: TIMESTAMP, miles: INT>, note STRING"
TARGETS = {
    "Spark: split_json over one from_json": at_most(1.2),
    "Spark: parsed over one from_json": at_most(1.2),
}


def measure(spark: Any, rounds: int, count: int = COUNT) -> Findings:
    """Measure the time of each, divided by that of one `from_json`."""
    from rmq_spark import parsed, split_json  # only this benchmark needs Spark

    messages = _messages(spark, count)
    plain = messages.selectExpr("*", f"from_json(cast(payload AS STRING), '{SCHEMA}') AS value")
    ours = {"split_json": split_json(messages, SCHEMA).good, "parsed": parsed(messages, SCHEMA)}
    contenders = [Contender(name, _written(frame), count) for name, frame in ours.items()]
    laps = race(Contender("from_json", _written(plain), count), contenders, rounds, WARM)
    messages.unpersist()
    context = f"{count / laps['from_json'].rate * 1000:.0f} ms for {count:,} payloads"
    return Findings([_figure(name, laps[name].ratios, context) for name in ours])


def _figure(name: str, rates: list[float], context: str) -> Figure:
    return Figure(f"Spark: {name} over one from_json", Spread.of([1 / rate for rate in rates]), context=context)


def _messages(spark: Any, count: int) -> Any:
    """Return cached rows with payloads of 190 bytes and the message columns that a job usually keeps."""
    made = spark.range(0, count, 1, 2).selectExpr(
        "concat('m', id) AS message_id",
        'cast(rpad(concat(\'{"number":\', id, \',"origin":"JFK","delay":\', id % 60, \'.5,"flown":{"at":'
        '"2013-01-01T05:15:00Z","miles":\', id % 2500, \'},"note":"\'), 188, \'x\') || \'"}\' AS BINARY) AS payload',
    )
    messages = made.cache()
    assert messages.count() == count
    return messages


def _written(frame: Any) -> Callable[[], None]:
    return lambda: frame.write.format("noop").mode("overwrite").save()
