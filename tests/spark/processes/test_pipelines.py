"""The declarative pipeline of example_dags, by Spark's command: a dry run claims nothing, a run leaves no lease."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.find_spark_home import _find_spark_home

from rmq_core import LeasedQueue
from rmq_spark import spark_environment

EXAMPLE = Path(__file__).parents[3] / "example_dags" / "spark_pipeline"
SPEC = "spark-pipeline.yml"
COUNT = 30
PATIENCE_S = 900


def pipelines(command: str, folder: Path, url: str) -> None:
    """Run the command in the pipeline's folder, to which tables and checkpoints go, too."""
    program = str(Path(_find_spark_home(), "bin", "spark-pipelines"))
    environment = os.environ | spark_environment() | {"RMQ_URL": url, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [program, command, "--spec", SPEC],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    assert "Run is COMPLETED" in done.stdout + done.stderr


@pytest.mark.nightly(
    "spark/test_stream_source.py::test_available_now_takes_all_ready_messages_in_batches_and_acks_them"
)
def test_a_dry_run_of_a_pipeline_claims_nothing_and_a_run_leaves_no_lease(redis_url: str, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    spec = (folder / SPEC).read_text()
    assert "file:///tmp/orders-pipeline" in spec
    (folder / SPEC).write_text(spec.replace("file:///tmp/orders-pipeline", (tmp_path / "storage").as_uri()))
    with LeasedQueue(redis_url, "orders") as queue:
        queue.publish_many([{"customer": "ab"[number % 2], "amount": number} for number in range(COUNT)])
        wanted = {message.id for message in queue.admin.peek(COUNT)}
        pipelines("dry-run", folder, redis_url)
        assert queue.stats()[:5] == (COUNT, 0, 0, 0, 0)
        assert {message.id for message in queue.admin.peek(COUNT) if not message.deliveries} == wanted
        pipelines("run", folder, redis_url)
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    tables = folder / "spark-warehouse"
    orders = pyarrow.parquet.read_table(tables / "orders")["message_id"].to_pylist()
    assert sorted(orders) == sorted(wanted)
    totals = pyarrow.parquet.read_table(tables / "totals").to_pylist()
    sums = {customer: sum(range(first, COUNT, 2)) for first, customer in enumerate("ab")}
    assert {row["customer"]: row["total"] for row in totals} == sums
