"""The sentences of the QueueConsumer specification: each test names the section it holds RMQ to."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from rmq_core import QueueConsumer
from rmq_core.asyncio import QueueConsumer as AsyncQueueConsumer
from rmq_core.errors import QueueError
from rmq_core.streams import QueueConfig
from tests.core.leases import PATIENCE_S, blocked, eventually
from tests.core.streams.stage import BRIEF_MS, GROUP, MINUTE_MS, STREAM, Journal, Stage


def ids(messages: Any) -> list[int]:
    return [message.payload["n"] for message in messages]


def fill(stage: Stage, count: int) -> list[str]:
    queue = stage.queue()
    return [queue.enqueue({"n": number}) for number in range(count)]


def stopping_after(consumer: Any, count: int, inner: Any = None) -> Any:
    """Return a handler that stops the consumer with the message number `count`."""
    seen = []

    def handle(message: Any, tx: Any) -> None:
        seen.append(message)
        if len(seen) == count:
            consumer.stop()
        if inner:
            inner(message, tx)

    return handle


def test_a_consumer_loop_delivers_each_message_of_a_fault_free_stream_once_and_in_order(stage: Stage) -> None:
    """Section 3: provide a consumer loop abstraction; deliver messages to user code."""
    fill(stage, 3)
    consumer, seen = stage.consumer(), []
    for message in consumer.iter_messages():
        seen.append(message)
        consumer.ack(message)
        if len(seen) == 3:
            consumer.stop()
    assert ids(seen) == [0, 1, 2]
    assert stage.pending() == []


def test_next_returns_at_most_one_message_and_leaves_the_others_in_the_stream(stage: Stage) -> None:
    """Section 6.1: returns at most one message. Section 4: no buffering beyond one message."""
    sent = fill(stage, 3)
    consumer = stage.consumer()
    assert consumer.next().payload == {"n": 0}
    assert stage.pending() == sent[:1]


def test_next_returns_none_when_there_is_no_message(stage: Stage) -> None:
    """Section 6.1: returns None if no message is available."""
    assert stage.consumer().next() is None


def test_next_blocks_in_one_xreadgroup_for_the_configured_time(stage: Stage) -> None:
    """Section 6.1: must block using XREADGROUP, by the configured default. Section 3: no CPU spinning."""
    consumer = stage.consumer(block_ms=300)
    consumer.next(1)
    stage.forget_commands()
    began = time.monotonic()
    assert consumer.next() is None
    assert time.monotonic() - began > 0.25
    assert stage.commands() == {"xreadgroup": 1}


def test_next_blocks_for_the_time_it_is_given(stage: Stage) -> None:
    """Section 6.1: block_ms may be provided."""
    consumer = stage.consumer(block_ms=MINUTE_MS)
    began = time.monotonic()
    assert consumer.next(block_ms=100) is None
    assert 0.08 < time.monotonic() - began < 60


def test_a_block_wakes_up_for_a_message(stage: Stage) -> None:
    """Section 6.1: must block using Redis Streams, must not drop messages."""
    consumer, queue = stage.consumer(block_ms=2 * 1000 * PATIENCE_S), stage.queue()
    waiting = stage.world.in_background(consumer.next)
    blocked(stage.world, 1)
    queue.enqueue({"n": 7})
    assert waiting.result(PATIENCE_S).payload == {"n": 7}


def test_a_block_of_zero_which_would_last_for_ever_is_refused(stage: Stage) -> None:
    """Section 6.1: the meaning of a block of 0 is defined: it is refused, because it could not be stopped."""
    with pytest.raises(ValueError, match="block_ms must be > 0"):
        stage.consumer().next(block_ms=0)


def test_the_default_block_of_five_seconds_works_with_a_socket_timeout_of_five_seconds(redis_url: str) -> None:
    """Section 6.1: must block; a client's socket timeout must not make an error of it."""
    config = QueueConfig(STREAM, GROUP, "c")
    assert config.block_ms == 5000

    async def asynchronous() -> Any:
        client = redis.asyncio.Redis.from_url(redis_url, socket_timeout=5)
        async with client, AsyncQueueConsumer(client, config) as consumer:
            return await consumer.next()

    client = redis.Redis.from_url(redis_url, socket_timeout=5)
    with client, QueueConsumer(client, config) as consumer, ThreadPoolExecutor() as threads:
        began = time.monotonic()
        waiting = threads.submit(consumer.next)
        assert asyncio.run(asynchronous()) is None
        assert waiting.result(PATIENCE_S) is None
        assert time.monotonic() - began > 4.9


def test_iteration_yields_until_stopped_and_waits_for_messages_in_redis(stage: Stage) -> None:
    """Section 7: blocks, yields until stopped, does not busy-loop, stops yielding after stop."""
    consumer, queue, seen = stage.consumer(), stage.queue(), []
    consumer.next(1)
    stage.forget_commands()

    def consume() -> None:
        seen.extend(message.payload["n"] for message in consumer.iter_messages())

    began = time.monotonic()
    loop = stage.world.in_background(consume)
    queue.enqueue({"n": 1})
    eventually(lambda: seen)
    time.sleep(4 * BRIEF_MS / 1000)
    consumer.stop()
    loop.result(PATIENCE_S)
    queue.enqueue({"n": 2})
    assert seen == [1]
    assert stage.commands()["xreadgroup"] <= 3 + 1000 * (time.monotonic() - began) / BRIEF_MS


def test_iteration_raises_the_errors_of_redis(stage: Stage) -> None:
    """Section 7: propagates all exceptions."""
    consumer = stage.consumer()
    consumer.next(1)
    stage.client.xgroup_destroy(STREAM, GROUP)
    with pytest.raises(QueueError, match="NOGROUP"):
        list(consumer.iter_messages())


def test_after_stop_no_new_read_is_begun(stage: Stage) -> None:
    """Section 5.1: upon stop, no new reads are initiated. Section 3: support graceful shutdown."""
    sent = fill(stage, 2)
    consumer = stage.consumer()
    message = consumer.next()
    consumer.stop()
    stage.forget_commands()
    assert consumer.next() is None
    assert list(consumer.iter_messages()) == []
    assert stage.commands() == {}
    assert message.id == sent[0]


def test_stop_leaves_messages_in_flight_pending_and_neither_acknowledges_nor_reclaims(stage: Stage) -> None:
    """Section 5.1: in-flight messages remain pending, no automatic acknowledgment, no reclaiming."""
    sent = fill(stage, 2)
    consumer = stage.consumer()
    consumer.next()
    stage.forget_commands()
    consumer.stop()
    consumer.close()
    assert stage.pending() == sent[:1]
    assert {"xack", "xclaim", "xautoclaim"}.isdisjoint(stage.commands())


def test_messages_left_by_a_stopped_consumer_can_be_claimed_by_another(stage: Stage) -> None:
    """Section 5.1: messages delivered but not acknowledged may be reclaimed by another consumer later."""
    fill(stage, 1)
    first, second = stage.consumer(), stage.consumer()
    message = first.next()
    first.stop()
    stage.let_pass()
    assert second.claim_stale(min_idle_ms=MINUTE_MS) == [message]


def test_a_message_that_arrives_while_the_consumer_is_being_stopped_is_returned(stage: Stage) -> None:
    """Section 6.1: must not drop messages, though section 7 stops yielding: the read under way is finished."""
    consumer, queue = stage.consumer(block_ms=2 * 1000 * PATIENCE_S), stage.queue()
    waiting = stage.world.in_background(lambda: list(consumer.iter_messages()))
    blocked(stage.world, 1)
    consumer.stop()
    queue.enqueue({"n": 1})
    assert ids(waiting.result(PATIENCE_S)) == [1]


def test_a_message_is_acknowledged_only_by_an_explicit_call(stage: Stage) -> None:
    """Section 8 and 4: ack must be called explicitly by user code and must not be automatic."""
    sent = fill(stage, 2)
    consumer = stage.consumer()
    first = consumer.next()
    consumer.next()
    assert stage.pending() == sent
    assert consumer.ack(first) is None
    assert stage.pending() == sent[1:]


def test_acknowledging_twice_or_without_a_pending_message_is_no_error(stage: Stage) -> None:
    """Section 8: ack returns nothing; a message that is acknowledged already stays so."""
    fill(stage, 1)
    consumer = stage.consumer()
    message = consumer.next()
    consumer.ack(message)
    consumer.ack(message)
    assert stage.pending() == []


def test_a_message_without_an_acknowledgement_is_delivered_again_once_it_is_stale(stage: Stage) -> None:
    """Section 8: failure to acknowledge implies retry via staleness."""
    fill(stage, 1)
    consumer = stage.consumer()
    consumer.next()
    assert consumer.next() is None
    stage.let_pass()
    assert ids(consumer.claim_stale(MINUTE_MS)) == [0]
    assert stage.deliveries() == [2]


def test_nothing_happens_in_the_background(stage: Stage) -> None:
    """Sections 4, 9.1 and 12.1: no background reclaiming, no health, no liveness, no polling for observability."""
    fill(stage, 1)
    consumer = stage.consumer(claim_idle_ms=20)
    consumer.next()
    threads = {*threading.enumerate()}
    stage.forget_commands()
    time.sleep(0.2)
    assert stage.commands() == {}
    assert {*threading.enumerate()} <= threads
    assert stage.deliveries() == [1]


def test_a_message_may_be_worked_on_for_as_long_as_it_takes(stage: Stage) -> None:
    """Section 4: must not enforce delivery timeouts."""
    fill(stage, 1)
    consumer = stage.consumer(claim_idle_ms=20)
    message = consumer.next()
    time.sleep(0.1)
    consumer.ack(message)
    assert stage.pending() == []


def test_the_loop_never_reclaims_by_itself_however_stale_a_message_is(stage: Stage) -> None:
    """Section 10.2: reclaiming is no part of the hot path, and not done on every loop."""
    fill(stage, 2)
    dead, consumer = stage.consumer(), stage.consumer(claim_idle_ms=1)
    dead.next()
    time.sleep(0.02)
    stage.forget_commands()
    assert ids([consumer.next()]) == [1]
    assert consumer.next() is None
    ran = stage.commands()
    assert ran["xreadgroup"] == 2
    assert {"xclaim", "xautoclaim", "evalsha", "eval"}.isdisjoint(ran)


def test_new_messages_precede_stale_ones(stage: Stage) -> None:
    """Section 10.3: new messages > stale messages; timeliness, fairness and ordering are not promised (4, 10.2)."""
    fill(stage, 2)
    dead, consumer = stage.consumer(), stage.consumer()
    dead.next()
    stage.let_pass()
    order = ids([consumer.next()]) + ids(consumer.claim_stale(MINUTE_MS))
    assert order == [1, 0]


def test_recovery_is_one_call_that_finds_with_xpending_and_claims_with_xclaim(stage: Stage) -> None:
    """Section 10.1: recovery requires explicit use of XPENDING and XCLAIM."""
    fill(stage, 1)
    dead, consumer = stage.consumer(), stage.consumer()
    dead.next()
    consumer.next(1)
    stage.let_pass()
    stage.forget_commands()
    consumer.claim_stale(MINUTE_MS)
    assert stage.commands() == {"xclaim": 1}
    assert stage.client.info("commandstats")["cmdstat_xpending"]["calls"] == 1


def test_claim_stale_claims_at_most_count_messages_that_are_idle_for_long_enough(stage: Stage) -> None:
    """Section 10: staleness is a time, and a recovery is bounded."""
    fill(stage, 5)
    dead, consumer = stage.queue(max_read_count=5), stage.consumer()
    dead.read()
    assert consumer.claim_stale() == []
    stage.let_pass()
    assert ids(consumer.claim_stale(MINUTE_MS, count=2)) == [0, 1]
    assert ids(consumer.claim_stale(MINUTE_MS)) == [2, 3, 4]
    assert consumer.claim_stale(MINUTE_MS) == []


def test_a_deleted_entry_does_not_keep_others_from_being_claimed(stage: Stage) -> None:
    """Section 10.1: what is pending and no longer in the stream is nothing to be recovered."""
    sent = fill(stage, 2)
    dead, consumer = stage.queue(max_read_count=2), stage.consumer()
    dead.read()
    stage.let_pass()
    stage.client.xdel(STREAM, sent[0])
    assert ids(consumer.claim_stale(MINUTE_MS)) == [1]


def test_metrics_come_from_the_inner_queue_and_only_after_success(stage: Stage) -> None:
    """Section 3: emit metrics via lower-level components. Section 12.1: no gauges of its own."""
    told: list[tuple[str, int]] = []
    consumer = stage.consumer(on_event=lambda event: told.append((event.operation.value, event.count)))
    fill(stage, 1)
    message = consumer.next()
    consumer.next()
    consumer.ack(message)
    consumer.ack(message)
    consumer.claim_stale(1)
    assert told == [("claim", 1), ("ack", 1)]


def test_a_callback_that_raises_has_no_further_effect(stage: Stage) -> None:
    """Section 3: metrics never raise into the application."""

    def broken(event: object) -> None:
        raise RuntimeError("metrics are down")

    fill(stage, 1)
    consumer = stage.consumer(on_event=broken)
    consumer.ack(consumer.next())
    assert stage.pending() == []


def test_run_fetches_handles_commits_and_acknowledges_in_that_order(stage: Stage) -> None:
    """Sections 1.1 and 11: fetch, handler, commit, ack; must not change the ordering, nor acknowledge before commit."""
    sent = fill(stage, 1)
    consumer, tx = stage.consumer(), Journal()
    pending_at: list[list[str]] = []

    def handle(message: Any, _: Any) -> None:
        tx.note(f"handle {message.payload['n']}")
        pending_at.append(stage.pending())
        consumer.stop()

    run(stage, consumer, handle, tx)
    assert tx.steps == ["begin", "handle 0", "commit"]
    assert pending_at == [sent]
    assert stage.pending() == []


def test_run_continues_until_stopped_and_finishes_the_current_message(stage: Stage) -> None:
    """Sections 5 and 11: shutdown is between two messages."""
    fill(stage, 5)
    consumer, tx = stage.consumer(), Journal()
    run(stage, consumer, stopping_after(consumer, 3), tx)
    assert tx.steps == ["begin", "commit"] * 3
    assert stage.pending() == []


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)], ids=lambda error: type(error).__name__
)
def test_an_exception_of_the_handler_rolls_back_and_is_raised_without_a_retry(
    stage: Stage, error: BaseException
) -> None:
    """Sections 1.1, 4 and 11: exceptions MUST be re-raised, MUST NOT be swallowed; no retries; it stays pending."""
    sent = fill(stage, 2)
    consumer, tx = stage.consumer(), Journal()
    calls = []

    def handle(message: Any, _: Any) -> None:
        calls.append(message.id)
        raise error

    with pytest.raises(type(error)) as raised:
        run(stage, consumer, handle, tx)
    assert raised.value is error
    assert tx.steps == ["begin", "rollback"]
    assert calls == stage.pending() == sent[:1]


def test_the_exception_of_the_handler_takes_precedence_over_a_failed_rollback(stage: Stage) -> None:
    """Section 1.1: best-effort rollback, do not swallow the original exception."""
    fill(stage, 1)
    with pytest.raises(ValueError, match="mine") as raised:
        run(stage, stage.consumer(), failing(ValueError("mine")), Journal("rollback"))
    assert raised.value.__notes__ == ["the rollback failed too: RuntimeError: rollback failed"]


def test_a_commit_that_fails_is_raised_and_nothing_is_acknowledged(stage: Stage) -> None:
    """Section 1.1: must not acknowledge before commit."""
    sent = fill(stage, 1)
    tx = Journal("commit")
    with pytest.raises(RuntimeError, match="commit failed"):
        run(stage, stage.consumer(), lambda *_: None, tx)
    assert tx.steps == ["begin", "commit", "rollback"]
    assert stage.pending() == sent


def test_a_transaction_that_cannot_begin_leaves_the_message_pending(stage: Stage) -> None:
    """Section 11: no swallowing of errors."""
    sent = fill(stage, 1)
    with pytest.raises(RuntimeError, match="begin failed"):
        run(stage, stage.consumer(), lambda *_: None, Journal("begin"))
    assert stage.pending() == sent


def test_a_pass_over_stale_messages_takes_one_at_a_time(stage: Stage) -> None:
    """Sections 4 and 10.2: recovery is explicit, bounded and buffers nothing."""
    fill(stage, 3)
    dead, consumer, seen = stage.queue(max_read_count=3), stage.consumer(), []
    dead.read()
    stage.let_pass()

    def handle(message: Any, _: Any) -> None:
        seen.append((message.payload["n"], stage.deliveries()))

    options = {"handler": stage.handler(handle), "db_factory": stage.database(Journal().begin)}
    assert consumer.run_claim_stale(**options, min_idle_ms=MINUTE_MS, count=2) == 2
    assert seen == [(0, [2, 1, 1]), (1, [2, 1])]
    assert consumer.run_claim_stale(**options, min_idle_ms=MINUTE_MS) == 1
    assert consumer.run_claim_stale(**options, min_idle_ms=MINUTE_MS) == 0


def test_a_stopped_consumer_begins_no_pass_over_stale_messages(stage: Stage) -> None:
    """Section 5.1: upon stop, no reclaiming occurs."""
    fill(stage, 1)
    stage.queue().read()
    consumer = stage.consumer()
    consumer.stop()
    options = {"handler": stage.handler(lambda *_: None), "db_factory": stage.database(Journal().begin)}
    assert consumer.run_claim_stale(**options, min_idle_ms=1) == 0
    assert stage.deliveries() == [1]


def test_a_backlog_is_counted_without_any_effect(stage: Stage) -> None:
    """Section 12.2: backlog_stats must be bounded, have no side effects, and not run automatically."""
    queue = stage.queue()
    assert tuple(queue.backlog_stats()) == (0, 0, 0, 0, None)
    assert stage.client.keys() == []
    fill(stage, 5)
    reader = stage.queue(max_read_count=3, claim_idle_ms=MINUTE_MS)
    message, *_ = reader.read()
    reader.ack(message)
    found = reader.backlog_stats()
    assert found[:4] == (5, 2, 2, 0)
    assert 0 <= found.oldest_idle_ms < MINUTE_MS
    stage.let_pass()
    assert reader.backlog_stats()[:4] == (5, 2, 2, 2)
    assert stage.deliveries() == [1, 1]


def test_a_backlog_is_counted_up_to_a_limit(stage: Stage) -> None:
    """Section 12.2: must be bounded."""
    queue = stage.queue(max_read_count=2000, claim_idle_ms=1)
    with stage.client.pipeline(transaction=False) as pipeline:
        for number in range(1500):
            pipeline.xadd(STREAM, {"data": b'{"n":%d}' % number})
        pipeline.execute()
    queue.read()
    time.sleep(0.01)
    assert queue.backlog_stats()[:4] == (1500, 0, 1500, 1000)


def run(stage: Stage, consumer: Any, handle: Any, tx: Journal) -> None:
    consumer.run(handler=stage.handler(handle), db_factory=stage.database(tx.begin))


def failing(error: BaseException) -> Any:
    def handle(*_: Any) -> None:
        raise error

    return handle
