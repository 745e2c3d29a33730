"""Spark beside another version of RMQ: a stream that goes on from the checkpoint of the other, and a hand-over."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import pytest
import redis

from rmq_core import LeasedQueue
from tests.conftest import SPARKS_DEADLINE
from tests.faults import tally
from tests.faults.patience import eventually
from tests.faults.test_spark_stream import START_S, driver
from tests.servers import Server
from tests.spark.conftest import SUBMIT
from tests.spark.readers import publish
from tests.upgrade.processes import Version

DRIVER = Path(__file__).with_name("spark_member.py")
ROUND = 100
BATCH = 30


def test_a_stream_goes_on_from_the_checkpoint_of_another_version_and_writes_each_message_once(
    shared: Server, client: redis.Redis, old: Version, new: Version, tmp_path: Path
) -> None:
    total = 0
    with LeasedQueue(shared.url, "q") as queue:
        for version in (old, new, old, new):
            while True:
                publish(queue, ROUND, first=total)
                total += ROUND
                with driver(shared.url, tmp_path, BATCH, version.environment) as streaming:
                    before = streaming.count("sink")
                    eventually(lambda seen=before, stream=streaming: stream.count("sink") > seen, START_S)
                    time.sleep(random.uniform(0, 0.3))
                if queue.stats().leased:  # on a busy machine, the driver may be killed after its last batch
                    break
            tally.count("Spark driver killed, its stream continued by another version")
        with driver(shared.url, tmp_path, BATCH, old.environment) as streaming:
            eventually(lambda: streaming.count("sink") == total and not sum(queue.stats()[:5]), START_S)
        assert sorted(number for _, number, _ in streaming.rows()) == list(range(total))
        assert [error for error in streaming.errors() if SPARKS_DEADLINE not in error] == [], "a query failed"


@pytest.mark.parametrize("upgrade", [True, False], ids=["old submitter", "new submitter"])
def test_a_spark_driver_of_one_version_adopts_and_acks_the_lease_of_a_submitter_of_the_other(
    shared: Server, client: redis.Redis, old: Version, new: Version, tmp_path: Path, *, upgrade: bool
) -> None:
    submitting, driving = (old, new) if upgrade else (new, old)
    with LeasedQueue(shared.url, "q") as queue:
        publish(queue, 4)
        submitter = submitting.start("submit", shared.url, "q")
        environment = driving.environment | json.loads(submitter.answer())
        command = [*SUBMIT, str(DRIVER), str(driving.folder), str(tmp_path / "marker")]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout[-4000:] + said.stderr[-4000:]
        assert (tmp_path / "marker").read_text() == "4 4"
        submitter.answer("poll")
        assert submitter.answer("finish") == "4"
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    tally.count("lease handed over between two versions")
