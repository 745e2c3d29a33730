"""Features that an older Spark lacks: the tests remove the modules and names that are missing in it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rmq_core import ConfigurationError
from rmq_spark.data_source import RmqDataSource
from rmq_spark.schema import MESSAGE_SCHEMA

SPARK_4_0 = """
import pyspark.sql.datasource as names
for name in [each for each in vars(names) if each.startswith(("Equal", "StringStarts", "DataSourceStreamArrow"))]:
    delattr(names, name)
import rmq_spark, rmq_spark.write.sink
"""
PLACE = {"url": "redis://localhost:6379/0", "queue": "q", "consumer": "c"}


@pytest.mark.parametrize(
    ("hook", "ours", "theirs", "version"),
    [
        ("streamReader", "rmq_spark.stream.reader", "pyspark.sql.streaming.datasource", "4.2"),
        ("streamWriter", "rmq_spark.write.stream", "pyspark.sql.datasource", "4.1"),
    ],
)
def test_the_error_for_an_older_spark_names_the_version_that_streams_need(
    monkeypatch: pytest.MonkeyPatch, hook: str, ours: str, theirs: str, version: str
) -> None:
    monkeypatch.delitem(sys.modules, ours, raising=False)
    monkeypatch.setitem(sys.modules, theirs, None)
    arguments = (MESSAGE_SCHEMA,) if hook == "streamReader" else (MESSAGE_SCHEMA, False)
    with pytest.raises(ConfigurationError, match=rf"needs Spark {version} or later, but this is .*claimed_batch"):
        getattr(RmqDataSource(PLACE), hook)(*arguments)


def test_spark_4_0_has_everything_that_batches_need() -> None:
    ended = subprocess.run([sys.executable, "-c", SPARK_4_0], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
