"""The Spark example of the guide with a real Spark: it adds up the orders and nacks a payload that is not an order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from rmq_core import LeasedQueue
from tests.airflow.home import EXAMPLES
from tests.spark.conftest import SHORT_LIVED

pytestmark = pytest.mark.slow


@pytest.mark.nightly("spark/test_delays_job.py::test_the_job_of_the_guide_adds_up_the_orders_of_its_batch")
def test_a_job_adds_up_the_orders_of_its_batch(
    connection: str, secured_url: str, tmp_path: Path, airflow_database: None
) -> None:
    short_lived = {"driver.extraJavaOptions": SHORT_LIVED, "sql.shuffle.partitions": 2, "ui.enabled": "false"}
    settings = "\n".join(f"spark.{name} {value}" for name, value in short_lived.items())
    (tmp_path / "spark-defaults.conf").write_text(settings)
    spark = {
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "SPARK_CONF_DIR": str(tmp_path),
    }
    ended = subprocess.run(
        [sys.executable, EXAMPLES / "airflow_spark.py"],
        env=os.environ | spark | {"TMPDIR": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    rows = pyarrow.parquet.read_table(tmp_path / "totals").select(["customer", "total"]).to_pylist()
    assert sorted((row["customer"], row["total"]) for row in rows) == [("ada", 7.5), ("bob", 7.5)]
    with LeasedQueue(secured_url, "orders") as queue:
        (back,) = queue.admin.peek(10)
        assert (back.payload, back.history[0].reason) == ("no order", "payload is not JSON of the declared schema")
        assert queue.stats()[:5] == (1, 0, 0, 0, 0)
