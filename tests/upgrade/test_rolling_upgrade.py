"""An upgrade and a downgrade with consumers running: processes of both versions share a server, and are killed."""

from __future__ import annotations

import json
import random
import time

import pytest
import redis

from rmq_core.protocol import DISCIPLINES
from tests.faults import tally
from tests.servers import Server
from tests.upgrade.processes import Version

FENCED = [name for name in DISCIPLINES if name != "rotation"]
ROLES = ("publish", "consume", "publish", "consume")
PAUSE_S = (0.3, 0.7)
PATIENCE_S = 60
DIRECTIONS = pytest.mark.parametrize("upgrade", [True, False], ids=["upgrade", "downgrade"])


@pytest.mark.parametrize("discipline", DISCIPLINES)
@DIRECTIONS
def test_no_message_is_lost_or_refused_while_processes_are_replaced_one_by_one(
    shared: Server, client: redis.Redis, old: Version, new: Version, discipline: str, *, upgrade: bool
) -> None:
    former, latter = (old, new) if upgrade else (new, old)
    members = [former.start(role, shared.url, discipline, "q") for role in ROLES]
    assert {member.answer() for member in members} == {"started"}
    for place, role in enumerate(ROLES):
        time.sleep(random.uniform(*PAUSE_S))
        members[place].kill()
        members[place] = latter.start(role, shared.url, discipline, "q")
        assert members[place].answer() == "started"
    time.sleep(random.uniform(*PAUSE_S))
    for member in members:
        member.kill()
    tally.count("process killed at work in a rolling upgrade or downgrade", 2 * len(ROLES))
    published = client.lrange("test:published", 0, -1)
    assert len(published) == len(set(published)) > 100
    drained(shared, client, latter, discipline, set(published))
    assert client.get("test:nacked")
    assert client.get("test:released")
    tally.count("message published and processed while a version was replaced", len(published))


def drained(shared: Server, client: redis.Redis, version: Version, discipline: str, published: set[str]) -> None:
    """Wait until a consumer has worked on everything that was published, and the queue holds no message and no lease.

    A publisher that was killed between its publish and its note may leave messages that are not in `published`.
    """
    consumer = version.start("consume", shared.url, discipline, "q")
    counter = version.start("left", shared.url, discipline, "q")
    assert consumer.answer() == "started"
    deadline, left, missing = time.monotonic() + PATIENCE_S, "", published
    while left != "0" or missing:
        assert time.monotonic() < deadline, f"{len(missing)} of {len(published)} messages are lost; {left} are left"
        time.sleep(0.1)
        left, missing = counter.answer("count"), published - set(client.hkeys("test:effects"))
    consumer.kill()


@pytest.mark.parametrize("discipline", FENCED)
@pytest.mark.parametrize("upgrade", [True, False], ids=["old holder", "new holder"])
def test_a_stale_holder_of_one_version_cannot_settle_what_the_other_claimed(
    shared: Server, client: redis.Redis, old: Version, new: Version, discipline: str, *, upgrade: bool
) -> None:
    former, latter = (old, new) if upgrade else (new, old)
    publisher = former.start("publish", shared.url, discipline, "q")
    assert publisher.answer() == "started"
    publisher.kill()
    stale = former.start("hold", shared.url, discipline, "q")
    assert stale.answer() == "claimed"
    drained(shared, client, latter, discipline, set(client.lrange("test:published", 0, -1)))
    assert stale.answer("ack") == "refused"
    tally.count("settle tried by a stale holder of another version, refused")


@pytest.mark.parametrize("upgrade", [True, False], ids=["old submitter", "new submitter"])
@pytest.mark.parametrize("killed", [False, True], ids=["acked", "killed"])
def test_a_driver_of_one_version_adopts_the_lease_of_a_submitter_of_the_other(
    shared: Server, client: redis.Redis, old: Version, new: Version, *, upgrade: bool, killed: bool
) -> None:
    submitting, driving = (old, new) if upgrade else (new, old)
    publisher = submitting.start("publish", shared.url, "leased", "q")
    while client.llen("test:published") < 10:
        time.sleep(0.02)
    publisher.kill()
    left = submitting.start("left", shared.url, "leased", "q")
    before = int(left.answer("count"))
    submitter = submitting.start("submit", shared.url, "q")
    environment = json.loads(submitter.answer())
    driver = driving.start("drive", shared.url, environment=environment)
    assert driver.answer() == "4"
    assert submitter.answer("poll") == "adopted"
    if not killed:
        assert driver.answer("ack") == "acked"
    driver.kill()
    assert submitter.answer("finish") == ("LeftUnsettled" if killed else "4")
    assert int(left.answer("count")) == (before if killed else before - 4)
    tally.count("lease handed over between two versions")
