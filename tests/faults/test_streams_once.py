"""Workers on a stream are killed at random, also between commit and ack: every effect happens, and happens once."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import redis

from rmq_core import StreamQueue
from rmq_core.streams import EffectsOnce, QueueConfig
from tests.core.streams.databases import Ledger, ledger, place_of
from tests.faults import tally
from tests.faults.crew import Member
from tests.faults.patience import eventually
from tests.faults.stream_worker import GROUP, STALE_MS, STREAM
from tests.servers import Server
from tests.servers.postgres import Postgres, running_postgres

ROLES = ("run", "run", "recover")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


class Crew:
    """Workers; a dead one is replaced."""

    def __init__(self, ends: ExitStack, *args: str) -> None:
        self.ends, self.args = ends, args
        self.members = [self.hire(role) for role in ROLES]

    def hire(self, role: str) -> Member:
        return self.ends.enter_context(Member("stream_worker", role, *self.args))

    def kill_one(self) -> None:
        place = random.randrange(len(ROLES))
        self.members[place].kill()
        self.members[place] = self.hire(ROLES[place])

    def replace(self) -> None:
        for place, member in enumerate(self.members):
            if (status := member.process.poll()) is not None:
                assert status == -signal.SIGKILL, "a worker failed by itself"
                tally.count("process gone between commit and ack")
                self.members[place] = self.hire(ROLES[place])


def prepared(kind: str, place: str) -> Ledger:
    effects = ledger(kind, place)
    effects.create()
    with closing(effects.connect()) as connection:
        EffectsOnce(effects.paramstyle).create_table(connection)
    return effects


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_effects_happen_exactly_once_although_workers_are_killed(
    own_server: Server, client: redis.Redis, tmp_path: Path, postgres: Postgres, kind: str, *, full_faults: bool
) -> None:
    total, kills = (1000, 40) if full_faults else (300, 4)
    place = place_of(kind, tmp_path, postgres.dsn)
    effects = prepared(kind, place)
    config = QueueConfig(STREAM, GROUP, "watcher", claim_idle_ms=STALE_MS)
    with StreamQueue(own_server.url, config) as queue, ExitStack() as ends:
        crew = Crew(ends, own_server.url, kind, place)
        for part in range(kills):
            for number in range(part * total // kills, (part + 1) * total // kills):
                queue.enqueue({"n": number})
            time.sleep(random.uniform(0.2, 0.5))
            crew.kill_one()

        def done() -> bool:
            crew.replace()
            return queue.backlog_stats()[1:3] == (0, 0)

        eventually(done)
    assert effects.effects() == list(range(total))
    entries = client.xinfo_stream(STREAM)["length"]
    assert entries == total
