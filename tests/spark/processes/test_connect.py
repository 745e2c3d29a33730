from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmq_core import LeasedQueue
from tests.spark.cluster import connect_server
from tests.spark.conftest import DRIVER, wait_for

PATIENCE_S = 900


@pytest.mark.nightly("spark/test_claimed_batch.py::test_a_takeover_cancels_the_running_job")
def test_a_takeover_interrupts_the_work_of_a_connect_client(queue: LeasedQueue, redis_url: str, tmp_path: Path) -> None:
    queue.publish_many(["x"] * 4)
    script, marker = DRIVER.with_name("connect_driver.py"), tmp_path / "working"
    with (
        connect_server(tmp_path) as (daemons, remote),
        subprocess.Popen(
            [sys.executable, str(script), redis_url, str(marker)],
            env=daemons.driver(SPARK_REMOTE=remote), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as driver,
    ):  # fmt: skip
        wait_for(lambda: marker.exists() or driver.poll() is not None, PATIENCE_S)
        queue.adopt("run", owner="somebody else")
        said, errors = driver.communicate(timeout=PATIENCE_S)
    assert said.split() == ["LeaseLost", "0"], errors[-3000:]
    info = queue.lease_info("run")
    assert info is not None
    assert (info.owner, info.count, info.settled) == ("somebody else", 4, 0)
