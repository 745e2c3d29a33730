"""`why`: the timeline of a message, with and without a journal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, timedelta
from typing import Any

import pytest
import redis

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, NewMessage
from rmq_core.observe.history import acting_as
from rmq_core.orchestrate import publishing_as
from tests.core.leases import expire
from tests.core.worlds import World

KEY = "rmq:{q}:journal"
JOURNAL = LeasedConfig(max_deliveries=3, journal=1000)


def told(timeline: Any) -> list[tuple[str, str]]:
    return [(step.what, step.who) for step in timeline.steps if step.source != "marks"]


@pytest.fixture
def full(world: World) -> Iterator[World]:
    """A server that can be filled; its memory is free again at the end."""
    world.client.config_set("maxmemory-policy", "noeviction")
    yield world
    world.client.config_set("maxmemory", 0)


def test_without_a_journal_a_message_tells_its_failures_and_where_it_is(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=3))
    message_id = queue.publish("x").id
    queue.nack(queue.claim(owner="w1"), reason="it broke")
    expire(world, queue.claim(owner="w2").id)
    queue.backlog()
    lease = queue.claim(owner="w3", lease_id="job")
    timeline = queue.admin.why(message_id)
    assert (timeline.state, timeline.acks) == ("leased", None)
    assert told(timeline) == [("published", ""), ("nacked", "w1"), ("expired", "w2"), ("held", "w3")]
    assert (timeline.steps[1].detail, timeline.steps[-1].lease_id) == ("it broke", "job")
    assert any("no journal" in sentence for sentence in timeline.unknown)
    queue.nack(lease, reason="again")
    timeline = queue.admin.why(message_id)
    assert (timeline.state, timeline.steps[-1].what, timeline.steps[-1].detail) == (
        "dead",
        "dead",
        "after 3 deliveries",
    )
    with acting_as("alice"):
        queue.admin.redrive()
    timeline = queue.admin.why(message_id)
    assert (timeline.state, timeline.steps[-1].what, timeline.steps[-1].who) == ("ready", "queue: redrive", "alice")


@pytest.mark.parametrize("config", [JOURNAL, LeasedConfig()])
def test_messages_name_the_work_that_published_them(world: World, config: LeasedConfig) -> None:
    run = {"dagster-job": "etl", "dagster-run-id": "42", "dagster-step-key": "load", "airflow-dag-id": "copied"}
    queue = world.queue(config=config)
    publishing_as(getattr(queue, "inner", queue), lambda: run)
    ids = [
        queue.publish("x", headers={"tenant": "acme"}).id,
        *queue.publish_many(["y", NewMessage("z", headers={})]).ids,
    ]
    queue.publish_staged([queue.stage(payloads=[NewMessage("s", headers={"dagster-run-id": "41"})])])
    staged = queue.admin.browse("ready").messages[-1]
    assert [queue.admin.why(each).steps[0].who for each in [*ids, staged.id]] == ["dagster etl/42/load"] * 4
    assert queue.admin.browse("ready").messages[0].headers == {"tenant": "acme", **run}


def test_the_journal_names_the_publisher_of_messages_that_are_gone(world: World) -> None:
    queue = world.queue(config=JOURNAL)
    for headers in ({"spark-application-id": "app-1"}, {"airflow-dag-id": "etl", "airflow-run-id": "r"}):
        ids = [queue.publish("x", headers=headers).id, *queue.publish_many(["y"], headers=headers).ids]
        queue.ack(queue.claim(max_messages=2))
        who = "spark app-1" if "spark-application-id" in headers else "airflow etl/r"
        assert [queue.admin.why(each).steps[0].who for each in ids] == [who, who]


def test_every_place_of_a_queue_is_searched(world: World) -> None:
    queue = world.queue(config=LeasedConfig(completed_log=5, failed_log=5))
    delayed = queue.publish("later", delay=100).id
    timeline = queue.admin.why(delayed)
    assert (timeline.state, timeline.steps[-1].what) == ("delayed", "due")
    assert 90 < (timeline.steps[-1].at - queue.admin.server_time()).total_seconds() < 101
    ready, together = queue.publish("ready").id, None
    assert queue.admin.why(ready).state == "ready"
    queue.ack(queue.claim())
    assert queue.admin.why(ready).state == "completed"
    together, _ = queue.publish_many([*"ab"]).ids
    for _ in range(2):
        queue.nack(queue.claim(max_messages=2))
    timeline = queue.admin.why(together)
    assert (timeline.state, timeline.steps[-1].what, timeline.steps[-1].at) == ("isolated", "isolated", None)


def test_a_message_that_is_unknown_is_gone_and_the_story_says_what_that_can_mean(world: World) -> None:
    timeline = world.queue().admin.why("nothing")
    assert (timeline.state, timeline.steps) == ("gone", ())
    assert any("acked, dropped, replaced, removed by an operator" in sentence for sentence in timeline.unknown)
    assert "unknown" in timeline.verdict
    kept = world.queue(config=LeasedConfig(journal=100))
    kept.publish("another")
    assert any("does not name this id" in sentence for sentence in kept.admin.why("nothing").unknown)
    for wrong in ("", "two words", 7):
        with pytest.raises(ConfigurationError, match="message_id"):
            world.queue().admin.why(wrong)


def test_a_journal_tells_after_the_ack_who_processed_a_message_and_how_often(world: World) -> None:
    queue = world.queue(config=JOURNAL)
    with acting_as("dag/run/load"):
        first, second = queue.publish_many([*"ab"]).ids
    stale = queue.claim(max_messages=2, lease_id="job", owner="host-1")
    lease = queue.claim(lease_id="job", owner="host-2")
    queue.ack(lease, [lease.messages[0]])
    queue.nack(lease, reason="bad row")
    again = queue.claim(owner="host-3")
    queue.ack(again)
    assert stale.count == 2
    timeline = queue.admin.why(first)
    assert (timeline.state, timeline.claims, timeline.acks) == ("gone", 2, 1)
    assert told(timeline) == [
        ("published", "dag/run/load"), ("claimed", "host-1"), ("taken over", "host-2"), ("acked", "host-2"),
    ]  # fmt: skip
    assert "more than once" in timeline.verdict
    timeline = queue.admin.why(second)
    assert told(timeline)[3:] == [("nacked", "host-2"), ("claimed", "host-3"), ("acked", "host-3")]
    assert timeline.steps[3].detail == "bad row"
    assert all(step.at.tzinfo is UTC for step in timeline.steps)
    assert timeline.record()["steps"][0]["who"] == "dag/run/load"


def test_each_message_of_a_claim_that_takes_several_entries_has_its_ack(world: World) -> None:
    queue = world.queue(config=JOURNAL)
    queue.publish_many([str(number) for number in range(1100)])
    queue.release(queue.claim(max_messages=1100, lease_id="job", owner="w1"))
    lease = queue.claim(max_messages=1100, lease_id="job", owner="w2")
    queue.ack(lease)
    for message in (lease.messages[0], lease.messages[-1]):
        timeline = queue.admin.why(message.id)
        assert told(timeline)[1:] == [("claimed", "w1"), ("released", "w1"), ("claimed", "w2"), ("acked", "w2")]
        assert timeline.steps[1].detail == "with 1,099 others"


@pytest.mark.parametrize("journal", [None, 1000])
def test_only_the_dead_letters_that_were_chosen_have_the_redrive_in_their_timeline(
    world: World, journal: int | None
) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1, journal=1000))
    chosen, left = queue.publish_many(["a", "b"]).ids
    queue.nack(queue.claim(max_messages=2))
    operator = world.queue(config=LeasedConfig(journal=journal))
    with acting_as("alice"):
        assert operator.admin.redrive_some([chosen]) == 1
    operator.close()
    assert [step.what for step in queue.admin.why(chosen).steps if step.who == "alice"] == ["redriven"]
    assert not [step for step in queue.admin.why(left).steps if step.who == "alice"]


def test_each_expiry_names_the_holder_of_its_lease_however_soon_they_follow(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=None, journal=100))
    message_id = queue.publish("x").id
    for owner in ("w1", "w2"):
        expire(world, queue.claim(owner=owner).id)
        queue.backlog()
    others = world.queue(config=LeasedConfig(max_deliveries=None))
    expire(world, others.claim(owner="w3").id)
    others.backlog()  # this client keeps no journal: only the message knows
    expired = [("expired", "w1"), ("expired", "w2"), ("expired", "w3")]
    assert [step for step in told(queue.admin.why(message_id)) if step[0] == "expired"] == expired
    queue.ack(queue.claim(owner="w4"))
    assert [step for step in told(queue.admin.why(message_id)) if step[0] == "expired"] == expired[:2]


def test_a_release_by_an_operator_and_a_handover_are_no_further_delivery(world: World) -> None:
    queue = world.queue(config=LeasedConfig(journal=100))
    message_id = queue.publish("x").id
    queue.claim(owner="w1", lease_id="job")
    queue.adopt("job", owner="w1", if_owner="w1")
    with acting_as("alice"):
        queue.admin.release_lease("job")
    timeline = queue.admin.why(message_id)
    assert told(timeline)[1:] == [("claimed", "w1"), ("handed over", "w1"), ("released", "alice")]
    assert timeline.steps[-1].detail == "held by w1"
    assert timeline.verdict == "delivered once, acked never"
    assert queue.claim().message.deliveries == 1


@pytest.mark.parametrize("journal", [None, 100])
def test_what_an_operator_does_to_a_message_is_in_the_journal_though_his_process_keeps_none(
    world: World, journal: int | None
) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1, journal=100))
    first, second, third = queue.publish_many([*"abc"]).ids
    fourth, fifth = (queue.publish("x", delay=60).id for _ in range(2))
    queue.nack(queue.claim(max_messages=2))
    operator = world.queue(config=LeasedConfig(journal=journal))
    with acting_as("alice"):
        assert operator.admin.run_now(fourth)
        assert operator.admin.edit(first, "z", by="bob")
        assert operator.admin.discard([second]) == 1
        assert [operator.admin.cancel(each) for each in (third, fifth)] == [True, True]
    operator.close()
    for message_id, what, who in (
        (fourth, "run now", "alice"), (first, "edited", "bob"), (second, "deleted", "alice"),
        (third, "cancelled", "alice"), (fifth, "cancelled", "alice"),
    ):  # fmt: skip
        steps = [step for step in queue.admin.why(message_id).steps if step.what == what]
        assert [(step.who, step.source) for step in steps] == [(who, "journal")]
        assert not any(step.what in {"queue: cancel", "queue: discard"} for step in queue.admin.why(message_id).steps)
    assert next(step.detail for step in queue.admin.why(first).steps if step.what == "edited") == "payload"


def test_without_a_journal_the_marks_say_who_removed_a_message(world: World) -> None:
    queue = world.queue()
    kept, gone = queue.publish_many([*"ab"]).ids
    with acting_as("alice"):
        queue.admin.cancel(gone)
    timeline = queue.admin.why(gone)
    assert (timeline.state, told(timeline)) == ("gone", [])
    assert [(step.what, step.who, step.source) for step in timeline.steps] == [("cancelled", "alice", "marks")]
    assert [step.what for step in queue.admin.why(kept).steps] == ["published"]
    assert not world.client.exists(KEY)


def test_a_journal_keeps_the_newest_entries(world: World) -> None:
    queue = world.queue(config=LeasedConfig(journal=100))
    for n in range(400):
        queue.publish(str(n))
    assert 100 <= world.client.xlen(KEY) <= 250, "Redis trims whole blocks of a stream"


def test_the_claim_of_a_worker_that_is_killed_is_on_record(redis_client: redis.Redis, server_url: str) -> None:
    code = f"""
import os, signal, rmq_core
queue = rmq_core.LeasedQueue({server_url!r}, "q", rmq_core.LeasedConfig(journal=100))
queue.claim(owner="doomed")
os.kill(os.getpid(), signal.SIGKILL)
"""
    with LeasedQueue(server_url, "q", LeasedConfig(journal=100)) as queue:
        message_id = queue.publish("x").id
        ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
        assert ended.returncode == -signal.SIGKILL
        assert ("claimed", "doomed") in told(queue.admin.why(message_id))


def test_a_full_server_refuses_an_entry_and_not_the_operation(full: World) -> None:
    queue = full.queue(config=JOURNAL)
    queue.publish_many([*"ab"])
    full.client.config_set("maxmemory", 1)
    queue.ack(queue.claim(max_messages=2))
    full.client.config_set("maxmemory", 0)
    assert queue.stats().ready == 0
    assert [fields[b"e"] for _, fields in full.client.xrange(KEY)] == [b"published"]


@pytest.mark.parametrize("wrong", [0, -1, True, "x", timedelta(0)])
def test_a_length_of_the_journal_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="journal"):
        LeasedConfig(journal=wrong)
