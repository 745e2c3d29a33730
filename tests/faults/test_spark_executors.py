"""Executors that die in a task or are given back while idle, as spot machines and dynamic allocation do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from rmq_core import LeasedQueue
from tests.faults import spark_elastic, tally
from tests.servers import Server
from tests.spark.cluster import standalone_cluster

PATIENCE_S = 900

pytestmark = pytest.mark.slow


def test_a_lost_executor_costs_no_message_and_no_delivery(
    own_server: Server, client: redis.Redis, tmp_path: Path
) -> None:
    with standalone_cluster(tmp_path) as (daemons, conf):
        job = [sys.executable, spark_elastic.__file__, own_server.url, str(tmp_path), json.dumps(conf)]
        ran = subprocess.run(job, env=daemons.driver(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr[-5000:]
    wanted = sorted([str(number), 1] for number in range(spark_elastic.COUNT))
    for name in ("batch", "batch-again", "stream-0"):
        assert sorted(json.loads((tmp_path / name).read_text())) == wanted, name
        assert (tmp_path / f"{name}-killed").exists()
        tally.count("executor of Spark that was killed in a task")
    with LeasedQueue(client, "work") as queue:
        assert sum(queue.stats()[:5]) == 0
        assert queue.stats().leases == 0
