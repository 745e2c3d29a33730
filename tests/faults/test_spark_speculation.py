"""Speculation on a cluster: two attempts at one task write at the same time, and each message is published once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from rmq_core import LeasedQueue
from tests.faults import spark_speculator, tally
from tests.servers import Server
from tests.spark.cluster import HERE, standalone_cluster

ELSEWHERE = "127.0.0.2"  # Spark begins a second attempt only on another host
PATIENCE_S = 600

pytestmark = pytest.mark.slow


def test_the_output_of_two_attempts_at_a_task_is_published_once(
    own_server: Server, client: redis.Redis, tmp_path: Path
) -> None:
    script = spark_speculator.__file__
    with standalone_cluster(tmp_path, (HERE, ELSEWHERE)) as (daemons, conf):
        job = [sys.executable, script, own_server.url, str(tmp_path), json.dumps(conf)]
        ran = subprocess.run(job, env=daemons.driver(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr[-5000:]
    wanted = sorted(map(str, range(spark_speculator.ROWS)))
    for name in spark_speculator.DELIVERIES:
        assert len(list(tmp_path.glob(f"{name}-*"))) == 2
        tally.count("attempt of Spark that ran beside another")
        with LeasedQueue(client, name) as queue:
            lease = queue.claim(max_messages=2 * spark_speculator.ROWS)
            assert lease is not None
            assert sorted(message.payload for message in queue.messages(lease)) == wanted
