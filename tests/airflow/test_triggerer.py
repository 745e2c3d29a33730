"""Triggers in Airflow's own TriggerRunner, a process under its supervisor; only the metadata database is replaced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from airflow.triggers.base import TriggerEvent

from rmq_airflow.triggers.sensor import RedisQueueTrigger
from rmq_airflow.triggers.shared_stream import RedisQueueSharedStreamTrigger
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from rmq_core import LeasedQueue
from tests.airflow.conftest import QUEUE
from tests.airflow.triggerer import Supervisor, running
from tests.faults.patience import eventually

MANY, QUEUES, BURST = 200, 20, 10_000


@pytest.fixture
def watched(queue: LeasedQueue) -> Iterator[list[LeasedQueue]]:
    names = [f"{QUEUE}-{n}" for n in range(QUEUES)]
    opened = [LeasedQueue(queue.client, name) for name in names]
    yield opened
    for one in opened:
        one.close()


def connections(queue: LeasedQueue) -> int:
    return sum(client["user"] == "airflow" for client in queue.client.client_list())


def test_many_triggers_take_two_connections_and_all_fire(
    connection: str, queue: LeasedQueue, watched: list[LeasedQueue]
) -> None:
    triggers = [RedisQueueTrigger(watched[n % QUEUES].name, min_messages=2) for n in range(MANY)]
    with running(triggers) as supervisor:
        eventually(lambda: all(one.client.zscore(f"rmq:{{{one.name}}}:waiters", "*") for one in watched))
        assert connections(queue) <= 2
        for one in watched:
            one.publish("one")
        time.sleep(1.5)
        assert not supervisor.fired
        for one in watched:
            one.publish("two")
        eventually(lambda: len(supervisor.fired) == MANY)
        eventually(lambda: connections(queue) == 0)


@attrs.define(kw_only=True)
class ForgetfulAirflow(Supervisor):
    """Loses two of three events, and starts a run for each of the others; a run claims until it has its share."""

    queue: Any
    share: int
    rings: int = attrs.field(default=0, init=False)
    seen: list[str] = attrs.field(factory=list, init=False)

    def on_trigger_event(self, trigger_id: int, event: TriggerEvent) -> None:
        self.rings += 1
        if self.rings % 3 == 0:
            self._run()

    def _run(self) -> None:
        with self.queue.process(max_messages=self.share) as batch:
            self.seen += [message.id for message in batch]


def test_a_burst_of_ten_thousand_leaves_no_message_waiting_although_notifications_are_lost(
    connection: str, queue: LeasedQueue
) -> None:
    doorbell = RedisQueueDoorbellTrigger(QUEUE, repeat_interval=1)
    with running([doorbell], ForgetfulAirflow, queue=queue, share=4000) as airflow:
        queue.publish_many(str(n) for n in range(BURST))
        eventually(lambda: len(airflow.seen) == BURST)
    assert len(set(airflow.seen)) == BURST
    assert queue.stats()[:3] == (0, 0, 0)
    assert airflow.rings >= 9, "three runs were needed, and each took three rings"


@attrs.define(kw_only=True)
class Storing(Supervisor):
    """Stores events, and fails to store those it is configured to refuse."""

    refused: set[str] = attrs.field(factory=set)
    stored: list[dict[str, Any]] = attrs.field(factory=list, init=False)

    def on_trigger_event(self, trigger_id: int, event: TriggerEvent) -> None:
        self.stored.append({**event.payload, "trigger": trigger_id})


def test_the_bridge_acks_what_every_watcher_has_stored_and_dead_letters_what_one_refuses(
    connection: str, queue: LeasedQueue
) -> None:
    watchers = [RedisQueueSharedStreamTrigger(QUEUE, max_payload_bytes=100) for _ in range(2)]
    with running(watchers, Storing) as airflow:
        queue.publish({"n": 1}, headers={"traceparent": "00-1-2-01"})
        queue.publish("x" * 101)
        queue.publish(b"\xff")
        eventually(lambda: queue.stats()[:5] == (0, 0, 0, 0, 1))
    payloads = sorted(str(found.get("payload") or found["payload_base64"]) for found in airflow.stored)
    assert payloads == ["/w==", "/w==", "{'n': 1}", "{'n': 1}"]
    assert {found["trigger"] for found in airflow.stored} == {1, 2}
    assert {found["headers"].get("traceparent") for found in airflow.stored} == {"00-1-2-01", None}
    (dead,) = queue.admin.dead_letters()
    assert dead.raw == b"x" * 101


@attrs.define(kw_only=True)
class NeverStoring(Storing):
    """A triggerer whose database is unreachable: the events it gets are never confirmed."""

    def handle_events(self) -> None:
        self.stored += [{"trigger": entry.trigger_id} for entry in self.events]
        self.events.clear()


def test_the_bridge_releases_what_was_not_stored_when_it_ends(connection: str, queue: LeasedQueue) -> None:
    with running([RedisQueueSharedStreamTrigger(QUEUE)], NeverStoring) as airflow:
        queue.publish("one")
        eventually(lambda: airflow.stored)
        assert queue.stats()[:3] == (0, 0, 1)
    eventually(lambda: queue.stats()[:3] == (1, 0, 0))
    assert queue.admin.peek()[0].deliveries == 0
