from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import sum as sum_of

from rmq_core import ConfigurationError
from rmq_spark import parsed, split_json

SCHEMA = "id INT NOT NULL, name STRING, inner STRUCT<at: TIMESTAMP>"
PAYLOADS = {
    "good": b'{"id": 1, "name": "\xc3\xbc", "inner": {"at": "2026-01-01T00:00:00Z"}, "more": [1]}',
    "sparse": b'{"id": 2}',
    "no id": b'{"name": "x"}',
    "wrong type": b'{"id": "seven"}',
    "not json": b"{",
    "a list": b"[1]",
    "empty": b"",
    "null": b"null",
    "not utf-8": b'{"id": 3, "name": "\xff"}',
}


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    """One message of each kind, named by its id."""
    return spark.createDataFrame(
        [(name, bytearray(payload)) for name, payload in PAYLOADS.items()], "message_id STRING, payload BINARY"
    )


def test_payloads_that_fit_the_schema_become_columns_and_others_are_separated(messages: DataFrame) -> None:
    good, corrupt = split_json(messages, SCHEMA)
    assert good.columns == ["message_id", "payload", "value"]
    values = {row.message_id: row.value for row in good.collect()}
    assert set(values) == {"good", "sparse"}
    assert (values["good"].id, values["good"].name, values["good"].__fields__) == (1, "ü", ["id", "name", "inner"])
    assert (values["sparse"].id, values["sparse"].name, values["sparse"].inner) == (2, None, None)
    assert corrupt.columns == ["message_id", "payload", "reason"]
    reasons = {row.message_id: row.reason for row in corrupt.collect()}
    assert set(reasons) == set(PAYLOADS) - set(values)
    assert reasons["not utf-8"] == "payload is not UTF-8"
    assert reasons["no id"] == "payload has no 'id', which is NOT NULL"
    assert reasons["wrong type"] == reasons["not json"] == "payload is not JSON of the declared schema"


@pytest.mark.parametrize("kept", ["good", "corrupt", "both"])
def test_each_payload_is_parsed_once_whatever_is_done_with_it(messages: DataFrame, kept: str) -> None:
    split = split_json(messages.repartition(2), SCHEMA)
    rows = {"good": split.good, "corrupt": split.corrupt, "both": parsed(messages.repartition(2), SCHEMA)}[kept]
    assert executed_plan(rows).count("from_json(") == 1
    if kept != "corrupt":
        fit = rows.where("value.name is not null and message_id <> 'x'")
        assert executed_plan(fit.select("value.*")).count("from_json(") == 1
        assert executed_plan(fit.groupBy("value.name").agg(sum_of("value.id"))).count("from_json(") == 1


def executed_plan(rows: DataFrame) -> str:
    """Return the plan that Spark runs, with every expression of it."""
    rows.write.format("noop").mode("overwrite").save()
    return str(rows._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize("schema", ["", "INT"])
def test_a_schema_without_fields_is_refused(messages: DataFrame, schema: str) -> None:
    with pytest.raises(Exception, match=r"struct|PARSE|parse"):
        parsed(messages, schema)


def test_a_frame_without_payloads_is_refused(messages: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match="no column payload"):
        parsed(messages.drop("payload"), SCHEMA)
