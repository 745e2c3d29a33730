"""What a submitter hands to a Spark driver, and what a Spark stream leaves for its next run, is read for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmq_core import Lease, LeasedConfig, LeaseLost, LeaseOwnedByOther, RedisSettings
from rmq_core.errors import ConsumerTaken
from rmq_core.kernel.base import tools_of
from rmq_core.orchestrate import Handover, Submission
from tests.core.leases import key
from tests.core.stored.golden import load
from tests.core.stored.leased_scenes import HOUR_S, queue
from tests.core.stored.other_scenes import batch_leases_of
from tests.core.stored.scenes import FOLDER, golden

OWNER = "dag/run/task/-1 try 1"
SETTINGS = RedisSettings.from_url(
    "sentinel://s1:26379,s2:26379/main/3?tls=true",
    username="spark", password="p@ss", sentinel_username="watch", sentinel_password="w", ssl_password="key",
)  # fmt: skip
REFERENCES = {
    "password": "env:REDIS_PASSWORD",
    "sentinel_password": "file:/run/sentinel",
    "ssl_password": "aws:redis#key",
}
SUBMITTED = Lease("q", "dag/run/task/-1", OWNER, 2, None, "1.0000000000001abc", named=True)


def parameters() -> list[str]:
    """The golden parameters of a driver."""
    return ["--rmq-handover", (FOLDER / "handover.json").read_text("utf-8").strip()]


def environment() -> dict[str, str]:
    """The golden environment of a driver."""
    lines = (FOLDER / "handover.env").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_submitter_writes_the_environment_of_the_golden_file() -> None:
    handover = Handover(SETTINGS, "q", "dag/run/task/-1", OWNER, 3_600_000)
    assert handover.environment() == environment()


def test_a_driver_reads_the_environment_of_the_golden_file() -> None:
    handover = Handover.from_environment(environment())
    assert handover == Handover(SETTINGS, "q", "dag/run/task/-1", OWNER, 3_600_000)
    assert handover.config == LeasedConfig(lease=HOUR_S)


def test_a_submitter_writes_the_parameters_of_the_golden_file() -> None:
    handover = Handover(SETTINGS, "q", "dag/run/task/-1", OWNER, 3_600_000, adopt_ms=600_000)
    assert handover.parameters(REFERENCES) == parameters()


def test_a_driver_reads_the_parameters_of_the_golden_file() -> None:
    secrets = {reference: getattr(SETTINGS, name) for name, reference in REFERENCES.items()}
    handover = Handover.from_parameters(parameters(), resolve=secrets.__getitem__)
    assert handover == Handover(SETTINGS, "q", "dag/run/task/-1", OWNER, 3_600_000, adopt_ms=600_000)


def test_a_driver_ignores_what_a_later_submitter_adds() -> None:
    found = environment()
    found["RMQ_HANDOVER"] = json.dumps({**json.loads(found["RMQ_HANDOVER"]), "later": {"n": 1}})
    assert Handover.from_environment(found) == Handover.from_environment(environment())
    flag, text = parameters()
    later = json.dumps({**json.loads(text), "later": {"n": 1}})
    assert Handover.from_parameters([flag, later], resolve=str) == Handover.from_parameters([flag, text], resolve=str)


def test_a_driver_adopts_the_lease_of_its_submitter(redis_client: Any, server_url: str) -> None:
    load(redis_client, golden("handed_over"))
    handover = Handover.from_environment(environment())
    with queue(server_url) as submitter, queue(server_url) as driver:
        submission = Submission(submitter, SUBMITTED)
        submission.poll()
        adopted = driver.adopt(handover.lease_id, owner=handover.owner, if_owner=handover.owner)
        assert [(one.payload, one.deliveries) for one in driver.messages(adopted)] == [("m0", 1), ("m1", 1)]
        submission.poll()
        assert submission.adopted
        driver.ack(adopted)
        assert submission.finish() == 2
        with pytest.raises(LeaseLost):
            submitter.extend(SUBMITTED)


def test_a_submitter_finds_that_its_driver_acked(redis_client: Any, server_url: str) -> None:
    load(redis_client, golden("handed_over"))
    with queue(server_url) as submitter:
        mine = Lease("q", "dag/run/other/-1", "dag/run/other/-1 try 1", 1, None, "2.x", named=True)
        assert Submission(submitter, mine).finish() == 1
        others = Lease("q", "dag/run/other/-1", "dag/run/other/-1 try 2", 1, None, "2.x", named=True)
        with pytest.raises(LeaseOwnedByOther):
            Submission(submitter, others).poll()


def test_a_lease_in_json_is_written_and_read() -> None:
    text = (FOLDER / "lease.json").read_text("utf-8").strip()
    lease = Lease("q", "part", "worker", 4, 1764000000000, "secret", named=True)
    assert lease.to_json() == text
    assert Lease.from_json(text) == Lease("q", "part", "worker", 4, 1764000000000, None, named=True)


def test_an_offset_of_spark_is_written_and_read() -> None:
    from rmq_spark.stream.batch_leases import Offset

    text = (FOLDER / "spark_offset.json").read_text("utf-8").strip()
    assert json.dumps(Offset("q", "reader", "s1", 2).plain) == text
    offset = Offset.read(json.loads(text), "q", "reader")
    assert (offset, offset.lease_id) == (Offset("q", "reader", "s1", 2), "reader/s1/2")
    assert Offset.read({**json.loads(text), "later": 1}, "q", "reader") == offset


def test_a_restarted_query_goes_on_with_its_batches(redis_client: Any, server_url: str) -> None:
    from rmq_spark.stream.batch_leases import BatchLeases, ReplayedBatch

    load(redis_client, golden("spark_stream"))
    with queue(server_url) as source:
        leases = batch_leases_of(BatchLeases, server_url, source, seq=1)
        assert leases.finished == 1
        with pytest.raises(ReplayedBatch):
            leases.claim(1, 9, 0)
        assert leases.exists(2)
        batch = leases.lease(2)
        assert [one.payload for one in source.messages(batch)] == ["m2", "m3"]
        leases.finish(2)
        assert leases.claim(3, 9, 0).count == 1
        leases.close()
        assert redis_client.hget(key("consumer:reader"), "finished") == b"2"


def test_a_query_with_a_new_checkpoint_inherits_the_batches_of_the_one_before(
    redis_client: Any, server_url: str
) -> None:
    from rmq_spark.stream.batch_leases import BatchLeases

    load(redis_client, golden("spark_stream"))
    with queue(server_url) as source:
        with pytest.raises(ConsumerTaken):
            tools_of(source).register_consumer("reader", run="other", stream="s2", alive=9)
        redis_client.hset(key("consumer:reader"), "until", 1)
        leases = batch_leases_of(BatchLeases, server_url, source, seq=0, stream="s2")
        assert source.stats().leased == 0
        assert [one.payload for one in source.messages(leases.claim(1, 9, 0))] == ["m2", "m3", "m4"]
        leases.close()
