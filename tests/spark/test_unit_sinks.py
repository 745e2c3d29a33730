from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rmq_core import ConfigurationError, RedisMessageQueueError, Stage, Unsupported
from rmq_spark.write.settling import FailedDelivery, settler_of
from rmq_spark.write.sink import Written, sink_of, stages_of, writer_of
from rmq_spark.write.stream import stream_writer_of

PLACE = {"url": "redis://user:canary@localhost", "queue": "work"}
SCHEMA = StructType([StructField("payload", StringType())])
ROWS = StructType(
    [
        StructField("message_id", StringType()),
        StructField("lease", StringType()),
        StructField("deliveries", IntegerType()),
    ]
)


def test_stages_are_ordered_by_partition_without_the_empty_ones() -> None:
    first, second = (Written(Stage(name, 1, plain=True)) for name in "ab")
    assert [stage.id for stage in stages_of([first, None, Written(), second])] == ["a", "b"]


@pytest.mark.parametrize("make", [writer_of, stream_writer_of])
def test_a_queue_is_not_overwritten(make: Any) -> None:
    with pytest.raises(ConfigurationError, match="a queue cannot be overwritten"):
        make(PLACE, SCHEMA, overwrite=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"delivry": "direct"}, ConfigurationError, "did you mean 'delivery'"),
        ({"asyncProgressTrackingEnabled": "true"}, ConfigurationError, "asyncProgressTrackingEnabled: leave it out"),
        ({"maxReady": "0"}, ConfigurationError, "option maxReady must be a whole number >= 1"),
        ({"discipline": "jobs"}, Unsupported, "needed by a sink"),
        ({"operation": "ack"}, ConfigurationError, "option operation must be one of publish, nack, dead"),
        ({"operation": "nack"}, ConfigurationError, "nack needs the columns message_id, lease, deliveries"),
        ({"operation": "nack", "delivery": "staged"}, ConfigurationError, "has no option 'delivery' here"),
    ],
)
def test_invalid_options_are_refused(
    options: dict[str, str], error: type[RedisMessageQueueError], message: str
) -> None:
    with pytest.raises(error, match=message):
        writer_of(PLACE | options, SCHEMA, overwrite=False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"operation": "nack", "discipline": "jobs"},
            Unsupported,
            "'jobs' has no writing back of failed rows .*leased",
        ),
        ({"operation": "dead", "discipline": "streams"}, Unsupported, "no writing back of failed rows"),
        ({"operation": "dead", "maxDeliveries": "3"}, ConfigurationError, "option maxDeliveries: operation=dead sets"),
        ({"operation": "dead", "delay": "3 s"}, ConfigurationError, "option delay: operation=dead sets"),
    ],
)
def test_invalid_options_for_failed_rows_are_refused(
    options: dict[str, str], error: type[RedisMessageQueueError], message: str
) -> None:
    with pytest.raises(error, match=message):
        writer_of(PLACE | options, ROWS, overwrite=False)


@pytest.mark.parametrize("make", [writer_of, stream_writer_of])
@pytest.mark.parametrize(
    ("options", "missing", "message"),
    [
        ({"delivery": "direct", "sinkId": "run"}, {"delivery": "staged"}, "option sinkId: .*staged, or dedupKey"),
        ({"delivery": "direct", "keepStaged": "1 h"}, {"delivery": "staged"}, "option keepStaged: .*delivery=staged"),
        ({"WaitForRoom": "10 s"}, {"maxReady": "5"}, "option waitForRoom: .* without maxReady"),
        ({"dedupWindow": "1 h"}, {"dedupKey": "payload"}, "option dedupWindow: .* without dedupKey"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    make: Any, options: dict[str, str], missing: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make(PLACE | options, SCHEMA, overwrite=False)
    assert sink_of(PLACE | options | missing, SCHEMA)


@pytest.mark.parametrize(
    ("make", "options", "columns", "message"),
    [
        (writer_of, {}, ["publication"], "option publication: the column publication names it"),
        (stream_writer_of, {}, [], "option publication: a stream has no end"),
    ],
)
def test_a_publication_that_nothing_could_count_is_refused(
    make: Any, options: dict[str, str], columns: list[str], message: str
) -> None:
    schema = StructType([*SCHEMA.fields, *(StructField(name, StringType()) for name in columns)])
    with pytest.raises(ConfigurationError, match=message):
        make(PLACE | options | {"publication": "report"}, schema, overwrite=False)
    assert sink_of(PLACE | options, schema)


def test_failed_rows_of_another_queue_are_refused_before_any_is_settled() -> None:
    settler = settler_of(PLACE | {"operation": "nack", "reason": "odd"}, ROWS)
    row = {"message_id": "m", "lease": "l", "deliveries": 1}
    own, unnamed = (pa.RecordBatch.from_pylist([row | {"queue": name}]) for name in ("work", None))
    found = settler.write(iter([own, unnamed, pa.RecordBatch.from_pylist([row])]))
    assert found.failed == (FailedDelivery("m", "l", 1, "odd"),) * 3
    other = pa.RecordBatch.from_pylist([row | {"queue": "work"}, row | {"queue": "work/s1"}])
    with pytest.raises(ConfigurationError, match=r"'work/s1' cannot be settled in 'work'; .*batch\.nack"):
        settler.write(iter([other]))
