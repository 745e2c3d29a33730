"""A primary watched by sentinels is killed under load, and the run continues on what they promote.

Redis acknowledges before it replicates, so writes that the primary accepted while no replica received them are lost
with it: only those, and the loss is reported. A publish that waits for the replicas (`Durability`) reports at once that
they do not have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest

from rmq_core import Durability, LeasedConfig, LeaseLost
from rmq_core.protocol import DISCIPLINES
from tests.core.conformance.kits import Kit
from tests.core.conformance.stages import STAGES, Place, Stage
from tests.core.conformance.subject import Subject
from tests.faults import tally
from tests.faults.load import BATCH, Grouped, Load, end
from tests.servers import Trio

DURABLE = Kit(lambda _, lease_s: LeasedConfig(lease=lease_s, durability=Durability(replicas=2, timeout=0.02)))


class Told(NamedTuple):
    """The numbers of messages that a load had published before the lock-out of replicas, after it, and at the kill."""

    load: Load
    before: int
    locked: int
    killed: int

    def between(self, first: int, last: int | None = None) -> set[int]:
        return set(self.load.published[first:last])


class Failover:
    """One failover, in the middle of work on a queue of each discipline and on one that waits for its replicas.

    told: the publishes that were reported to each load, and when. before, after: for each discipline a worker with a
    lease from before, and one with a lease that it claimed when no replica received writes any more.
    """

    def __init__(self, trio: Trio, stage: Stage, ends: ExitStack) -> None:
        def subject(discipline: str, kit: Kit | None = None) -> Subject:
            return ends.enter_context(closing(Subject(stage, discipline, kit)))

        self.before = [subject(discipline).held(1) for discipline in DISCIPLINES]
        self.idle = [subject(discipline) for discipline in DISCIPLINES]
        for one in self.idle:
            one.publish(1)
        self.grouped = Load(ends.enter_context(closing(Grouped(stage))))
        self.loads = [*(Load(subject(discipline)) for discipline in DISCIPLINES), self.grouped]
        self.durable = Load(subject("leased", DURABLE))
        every = [*self.loads, self.durable]
        for load in every:
            load.grows(published=30, acked=30)
            load.rest()
        self.told, self.after = self._kill(trio, every)
        for load in every:
            load.go_on()
            load.grows(published=30, acked=30)
        end(every)

    def _kill(self, trio: Trio, loads: list[Load]) -> tuple[list[Told], list[tuple[Subject, Any]]]:
        before = [len(load.published) for load in loads]
        trio.lock_out()
        locked = [len(load.published) for load in loads]
        claimed = [(subject, subject.queue.claim()) for subject in self.idle]
        for load in loads:
            load.grows(published=20)
        trio.primary.kill9()
        killed = [len(load.published) for load in loads]
        tally.count("primary killed that no replica had heard for a while")
        trio.promoted()
        return [Told(load, *marks) for load, *marks in zip(loads, before, locked, killed, strict=True)], claimed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run once for each concurrency model; five times in full length."""
    times = 5 if metafunc.config.getoption("faults") == "full" else 1
    kinds = [(flavour, turn) for flavour in STAGES for turn in range(times)]
    names = [f"{flavour}-{turn}" if times > 1 else flavour for flavour, turn in kinds]
    metafunc.parametrize("failover", kinds, indirect=True, scope="module", ids=names)


@pytest.fixture(scope="module")
def failover(request: pytest.FixtureRequest) -> Iterator[Failover]:
    """What happened in one failover from Redis 7.0 to Redis 7.0."""
    with closing(Trio("7.0")) as trio, ExitStack() as ends:
        stage = ends.enter_context(closing(STAGES[request.param[0]](Place("sentinel", trio.url, ""))))
        yield Failover(trio, stage, ends)


def test_only_what_no_replica_had_received_is_lost(failover: Failover) -> None:
    for told in failover.told[:-1]:
        load, discipline = told.load, told.load.subject.discipline
        lost = set(load.published) - set(load.delivered)
        unheard = told.between(told.locked, told.killed)
        tally.count(f"{discipline}: message lost that only the killed primary had", len(lost))
        assert unheard & lost, "this failover took nothing back"
        assert len(unheard - lost) <= BATCH, discipline  # an answer from before may be counted after the lock-out
        assert not lost & told.between(0, told.before), discipline
        assert len(lost & told.between(told.killed)) <= BATCH, discipline  # the last answer that was on its way


def test_the_run_continues_without_doing_anything_twice(failover: Failover) -> None:
    for load in failover.loads:
        assert load.delivered == load.acked, load.subject.discipline
        assert max(load.delivered.values()) == 1, load.subject.discipline
        assert load.subject.counts() == (0, 0, 0, 0, 0), load.subject.discipline


def test_groups_keep_their_order_and_a_publication_ends_with_what_is_left_of_it(failover: Failover) -> None:
    subject = failover.grouped.subject
    assert isinstance(subject, Grouped)
    subject.check(failover.grouped)


def test_a_lease_known_to_the_replicas_is_acked_after_the_failover(failover: Failover) -> None:
    for worker, lease in failover.before:
        assert worker.ack(lease).settled == 1, worker.discipline


def test_a_lease_known_only_to_the_killed_primary_is_lost_but_not_its_message(failover: Failover) -> None:
    for subject, lease in failover.after:
        if subject.able("fenced"):
            with pytest.raises(LeaseLost):
                subject.queue.ack(lease)
        again = subject.queue.claim()
        assert again.message.payload == subject.payload(1), subject.discipline
        assert subject.queue.ack(again).settled == 1


def test_no_durably_published_message_is_lost(failover: Failover) -> None:
    load = failover.durable
    lost = (set(load.published) | set(load.unsure)) - set(load.delivered)
    tally.count("leased, durably: message lost of which NotDurable had said that it may be", len(lost))
    assert not failover.told[-1].between(failover.told[-1].locked, failover.told[-1].killed)
    assert set(load.published) <= set(load.delivered)
    assert 0 < len(lost) <= len(load.unsure)
