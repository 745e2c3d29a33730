"""The events that `on_event` receives: which steps, in which order, with which fields, and when."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import redis
import redis.asyncio

from rmq_core.errors import QueueBackpressureError
from rmq_core.events import EventOutcome, QueueEvent
from rmq_core.redis_message_queue import EventOperation, RetryBudgetExhaustedError
from tests.core.redis_message_queue.behind import expire, in_hand, waiting
from tests.core.redis_message_queue.handlers import abandon, handle
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import World


def test_a_message_that_succeeds_is_published_claimed_and_acknowledged(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback)
    queue.publish("x")
    handle(queue)
    assert recorder.steps == ["publish/success", "claim/success", "ack/success"]
    assert all(type(event) is QueueEvent and event.queue == "q" for event in recorder.events)
    assert all(isinstance(event.operation, EventOperation) for event in recorder.events)
    assert all(isinstance(event.outcome, EventOutcome) for event in recorder.events)
    assert all(event.duration_ms is not None and 0 <= event.duration_ms < 20_000 for event in recorder.events)
    assert all((event.exception_type, event.error, event.destination_queue) == (None,) * 3 for event in recorder.events)


def test_the_events_of_one_message_carry_its_id_and_the_hash_of_its_token(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback, deduplication=False, enable_completed_queue=True)
    for _ in range(2):
        queue.publish("same")
        handle(queue)
    claim, completed, ack = recorder.events[1:4]
    assert claim.message_id
    assert claim.lease_token_hash
    assert len(claim.lease_token_hash) == 16
    assert {(step.message_id, step.lease_token_hash) for step in (claim, completed, ack)} == {
        (claim.message_id, claim.lease_token_hash)
    }
    again = recorder.events[5]
    assert again.operation == "claim"
    assert again.message_id != claim.message_id
    assert again.lease_token_hash != claim.lease_token_hash


def test_the_event_for_the_completed_log_precedes_the_acknowledgement(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback, enable_completed_queue=True)
    queue.publish("x")
    handle(queue)
    assert recorder.steps == ["publish/success", "claim/success", "completed/success", "ack/success"]
    assert recorder.only("completed").destination_queue == queue.key.completed


@pytest.mark.parametrize("logs", [True, False], ids=["failed log", "no log"])
def test_the_event_of_a_failed_handler_precedes_the_cleanup_of_its_message(world: World, logs: object) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback, enable_failed_queue=logs)
    queue.publish("x")
    error = ZeroDivisionError("why")
    with pytest.raises(ZeroDivisionError):
        handle(queue, error=error)
    assert recorder.steps == ["publish/success", "claim/success", "failed/failure", "nack/success"]
    failed = recorder.only("failed")
    assert (failed.exception_type, failed.error) == ("ZeroDivisionError", error)
    assert failed.destination_queue == (queue.key.failed if logs else None)
    assert recorder.only("nack").error is None


def test_a_duplicate_emits_a_deduplication_hit_instead_of_a_publish(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback)
    queue.publish("x")
    queue.publish("x")
    assert recorder.steps == ["publish/success", "publish_dedup_hit/skipped"]


def test_a_claim_without_a_message_emits_an_event(world: World) -> None:
    recorder = Recorder(world)
    handle(world.glance(queue={"on_event": recorder.callback}))
    assert recorder.steps == ["claim_empty/skipped"]
    assert recorder.only("claim_empty").message_id is None


def test_a_claim_of_a_drained_queue_emits_the_event_of_an_empty_claim(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback)
    queue.drain()
    handle(queue)
    assert recorder.steps == ["claim_empty/skipped"]


def test_each_reclaimed_message_emits_an_event_before_the_claim(world: World) -> None:
    recorder = Recorder(world)
    queue, crashed = world.queue(on_event=recorder.callback), world.queue()
    for text in "ab":
        crashed.publish(text)
        abandon(crashed)
    expire(world)
    assert handle(queue) == "a"
    assert recorder.steps == ["claim_reclaim/success", "claim_reclaim/success", "claim/success", "ack/success"]


def test_a_dead_letter_event_names_its_destination(world: World) -> None:
    recorder = Recorder(world)
    queue = world.glance(max_delivery_count=1, dead_letter_queue="q::dlq", queue={"on_event": recorder.callback})
    queue.publish("x")
    abandon(queue)
    expire(world)
    assert handle(queue) is None
    assert recorder.only("dlq").destination_queue == "q::dlq"
    assert recorder.only("dlq").outcome == "success"
    assert recorder.steps[-1] == "claim_empty/skipped"


@pytest.mark.parametrize(("fails", "word"), [(False, "ack"), (True, "nack")], ids=["ack", "nack"])
def test_a_stale_lease_emits_its_event_after_the_skipped_settlement(world: World, fails: object, word: str) -> None:
    recorder = Recorder(world)
    slow, other = world.queue(on_event=recorder.callback), world.queue()
    slow.publish("x")
    error = ZeroDivisionError() if fails else None
    with pytest.warns(RuntimeWarning, match="lease"), suppress(ZeroDivisionError):
        handle(slow, lambda: expire(world), lambda: abandon(other), error=error)
    assert recorder.steps[-2:] == [f"{word}/skipped", f"stale_lease_{word}/skipped"]
    assert recorder.events[-1].message_id == recorder.only("claim").message_id


def test_a_refused_publish_emits_a_failure_with_its_error(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback, max_pending_length=1)
    queue.publish("a")
    with pytest.raises(QueueBackpressureError) as caught:
        queue.publish("b")
    assert recorder.steps == ["publish/success", "publish/failure"]
    failure = recorder.events[-1]
    assert (failure.exception_type, failure.error) == ("QueueBackpressureError", caught.value)


def test_events_follow_what_they_report_except_for_a_failing_handler(world: World) -> None:
    seen: dict[str, tuple[int, int]] = {}

    def read(event: QueueEvent) -> None:
        seen[str(event.operation)] = (len(waiting(world)), in_hand(world))

    queue = world.queue(on_event=Recorder(world, also=read).callback, deduplication=False)
    queue.publish("x")
    handle(queue)
    queue.publish("x")
    with pytest.raises(ZeroDivisionError):
        handle(queue, error=ZeroDivisionError())
    assert seen == {"publish": (1, 0), "claim": (0, 1), "ack": (0, 0), "failed": (0, 1), "nack": (0, 0)}


def test_an_unreachable_server_emits_failures_of_publish_and_claim(no_world: World) -> None:
    recorder = Recorder(no_world)
    gateway = no_world.gateway(client=unreachable(no_world), retry_budget_seconds=0)
    queue = no_world.queue(gateway=gateway, on_event=recorder.callback)
    with pytest.raises(redis.ConnectionError):
        queue.publish("x")
    assert recorder.steps == ["publish/failure"]
    assert isinstance(recorder.events[0].error, redis.ConnectionError)
    with pytest.raises(redis.RedisError):
        handle(queue)
    assert recorder.steps[-1] == "claim/failure"
    assert recorder.events[-1].exception_type in {"ConnectionError", "RetryBudgetExhaustedError"}


def test_retries_of_a_claim_emit_events_until_the_budget_is_spent(no_world: World) -> None:
    recorder = Recorder(no_world)
    gateway = no_world.gateway(client=unreachable(no_world), retry_budget_seconds=1)
    queue = no_world.queue(gateway=gateway, on_event=recorder.callback)
    with pytest.raises(RetryBudgetExhaustedError) as caught:
        handle(queue)
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    attempts = [event for event in recorder.events if event.operation == "retry_attempt"]
    assert recorder.steps == ["retry_attempt/failure"] * len(attempts) + ["retry_exhausted/failure", "claim/failure"]
    assert {event.claim_id for event in recorder.events[:-1]} == {attempts[0].claim_id}
    assert attempts[0].claim_id
    assert attempts[0].exception_type == "ConnectionError"


def unreachable(world: World) -> Any:
    """A client of a port on which no server listens."""
    kind: Any = redis.Redis if world.flavour == "sync" else redis.asyncio.Redis
    made = world.call(lambda: kind(port=1, retry=None, decode_responses=True))
    return getattr(made, "inner", made)
