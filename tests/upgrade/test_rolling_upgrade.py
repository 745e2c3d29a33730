"""An upgrade and a downgrade with consumers running: processes of both versions share a server, and are killed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from rmq_core import DISCIPLINES
from tests.faults import tally
from tests.servers import Server
from tests.upgrade.processes import Version, answer, kill

FENCED = [name for name in DISCIPLINES if name != "rotation"]
PHASE_S = 1.0
PATIENCE_S = 120


@pytest.fixture
def client(shared: Server) -> Iterator[redis.Redis]:
    """A plain client of the server, which is emptied."""
    with shared.client(decode_responses=True) as plain:
        plain.flushall()
        yield plain


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_no_message_is_lost_or_refused_in_an_upgrade_and_a_downgrade(
    shared: Server, client: redis.Redis, old: Version, new: Version, discipline: str
) -> None:
    for pair in ((old, old), (old, new), (new, new), (new, old), (old, old)):
        publishers = [version.start("publish", shared.url, discipline, "q") for version in set(pair)]
        members = publishers + [version.start("consume", shared.url, discipline, "q") for version in pair]
        assert [answer(member) for member in members] == ["started"] * len(members)
        time.sleep(PHASE_S)
        for member in members:
            kill(member)
            tally.count("process of another version killed at work")
    published = set(client.lrange("test:published", 0, -1))
    assert len(published) > 100
    drained(shared, client, new, discipline, published)
    tally.count("message delivered by processes of two versions", len(published))


def drained(shared: Server, client: redis.Redis, version: Version, discipline: str, published: set[str]) -> None:
    """Wait until a consumer has worked on everything that was published."""
    with ExitStack() as ends:
        consumer = version.start("consume", shared.url, discipline, "q")
        ends.callback(kill, consumer)
        deadline = time.monotonic() + PATIENCE_S
        while missing := published - set(client.hkeys("test:effects")):
            assert time.monotonic() < deadline, f"{len(missing)} of {len(published)} messages are lost"
            time.sleep(0.1)


@pytest.mark.parametrize("discipline", FENCED)
@pytest.mark.parametrize("upgrade", [True, False], ids=["old holder", "new holder"])
def test_a_stale_holder_of_one_version_cannot_settle_what_the_other_claimed(
    shared: Server, client: redis.Redis, old: Version, new: Version, discipline: str, *, upgrade: bool
) -> None:
    former, latter = (old, new) if upgrade else (new, old)
    publisher = former.start("publish", shared.url, discipline, "q")
    assert answer(publisher) == "started"
    kill(publisher)
    count = client.llen("test:published")
    stale = former.start("hold", shared.url, discipline, "q")
    assert answer(stale) == "claimed"
    drained(shared, client, latter, discipline, set(client.lrange("test:published", 0, -1)))
    assert answer(stale, "ack") == "refused"
    stale.communicate()
    assert client.llen("test:published") == count
    tally.count("settle tried by a stale holder of another version, refused")


@pytest.mark.parametrize("upgrade", [True, False], ids=["old submitter", "new submitter"])
@pytest.mark.parametrize("killed", [False, True], ids=["acked", "killed"])
def test_a_driver_of_one_version_adopts_the_lease_of_a_submitter_of_the_other(
    shared: Server, client: redis.Redis, old: Version, new: Version, *, upgrade: bool, killed: bool
) -> None:
    submitting, driving = (old, new) if upgrade else (new, old)
    publisher = submitting.start("publish", shared.url, "leased", "q")
    while client.llen("test:published") < 4:
        time.sleep(0.02)
    kill(publisher)
    ready = client.llen("rmq:{q}:ready")
    submitter = submitting.start("submit", shared.url, "q")
    environment = json.loads(answer(submitter))
    driver = driving.start("drive", shared.url, environment=environment)
    assert answer(driver) == "4"
    assert answer(submitter, "poll") == "adopted"
    if not killed:
        assert answer(driver, "ack") == "acked"
    kill(driver)
    assert answer(submitter, "finish") == ("LeftUnsettled" if killed else "4")
    submitter.communicate()
    assert client.llen("rmq:{q}:ready") == (ready if killed else ready - 4)
    tally.count("lease handed over between two versions")
