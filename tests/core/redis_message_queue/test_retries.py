"""Tests of broken connections: calls that are resent, claims that are recovered, and errors that the caller gets."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
import redis.asyncio.retry
import redis.retry
from redis.backoff import NoBackoff

from rmq_core.redis_message_queue import RetryBudgetExhaustedError
from tests.core.redis_message_queue.behind import PATIENCE_S, in_hand, logged, waiting
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.wires import client_over, over
from tests.core.redis_message_queue.worlds import World
from tests.faults.proxy import Fault, Proxy

PENDING, PROCESSING = "q::pending", "q::processing"
EVERY_FAULT = pytest.mark.parametrize(
    "fault", [Fault.REPLY_LOST, Fault.REQUEST_LOST], ids=["reply lost", "request lost"]
)


@EVERY_FAULT
def test_a_deduplicated_publish_is_sent_again_and_stored_once(one_world: World, proxy: Proxy, fault: Fault) -> None:
    queue, _ = over(one_world, proxy)
    proxy.cut(fault)
    assert queue.publish("x") is True
    assert proxy.hit == 1
    assert queue.publish("x") is False
    assert waiting(one_world) == ["x"]


@EVERY_FAULT
@pytest.mark.parametrize("timeout_s", [300, None], ids=["leases", "no leases"])
def test_a_claim_is_sent_again_and_takes_one_message(
    one_world: World, proxy: Proxy, fault: Fault, timeout_s: int | None
) -> None:
    queue, _ = over(one_world, proxy, message_visibility_timeout_seconds=timeout_s)
    for text in "ab":
        queue.publish(text)
    proxy.cut(fault)
    with queue.process_message() as message:
        assert message == "a"
        assert (waiting(one_world), in_hand(one_world)) == (["b"], 1)
    assert proxy.hit == 1
    assert in_hand(one_world) == 0


@EVERY_FAULT
@pytest.mark.parametrize("logs", [False, True], ids=["ack", "move"])
@pytest.mark.parametrize("timeout_s", [300, None], ids=["leases", "no leases"])
def test_a_settlement_is_sent_again_and_happens_once(
    one_world: World, proxy: Proxy, fault: Fault, logs: object, timeout_s: int | None
) -> None:
    recorder = Recorder(one_world)
    queue, _ = over(
        one_world, proxy, queue={"enable_completed_queue": logs, "on_event": recorder.callback},
        message_visibility_timeout_seconds=timeout_s,
    )  # fmt: skip
    queue.publish("x")
    with queue.process_message():
        proxy.cut(fault)
    assert proxy.hit == 1
    assert recorder.steps[-1] == "ack/success"
    assert in_hand(one_world) == 0
    assert logged(one_world, "completed") == (["x"] if logs else [])


@EVERY_FAULT
def test_a_renewal_is_sent_again(one_world: World, proxy: Proxy, fault: Fault) -> None:
    queue, gateway = over(one_world, proxy)
    queue.publish("x")
    verbs = one_world.blocking(gateway)
    claim = verbs.wait_for_message_and_move(PENDING, PROCESSING)
    proxy.cut(fault)
    assert verbs.renew_message_lease(PROCESSING, claim.stored_message, claim.lease_token) is True
    assert proxy.hit == 1


def test_retries_that_succeed_emit_no_events(one_world: World, proxy: Proxy) -> None:
    recorder = Recorder(one_world)
    queue, _ = over(one_world, proxy, queue={"on_event": recorder.callback})
    recorder.events.clear()
    proxy.cut(Fault.REPLY_LOST)
    queue.publish("x")
    assert recorder.steps == ["publish/success"]


def test_a_publish_without_deduplication_is_left_to_the_caller(one_world: World, proxy: Proxy) -> None:
    queue, _ = over(one_world, proxy, queue={"deduplication": False})
    proxy.cut(Fault.REQUEST_LOST)
    with pytest.raises(redis.ConnectionError):
        queue.publish("x")
    assert proxy.hit == 1
    assert waiting(one_world) == []
    assert queue.publish("x") is True


def test_without_a_retry_budget_a_lost_connection_is_raised_unchanged(one_world: World, proxy: Proxy) -> None:
    queue, _ = over(one_world, proxy, retry_budget_seconds=0)
    proxy.cut(Fault.REQUEST_LOST)
    with pytest.raises(redis.ConnectionError):
        queue.publish("x")
    assert queue.publish("x") is True


def test_a_spent_retry_budget_raises_with_the_last_failure_as_its_cause(no_world: World, proxy: Proxy) -> None:
    client = client_over(no_world, proxy)
    proxy.close()
    gateway = no_world.gateway(client=client, retry_budget_seconds=1)
    began = time.monotonic()
    with pytest.raises(RetryBudgetExhaustedError) as caught:
        no_world.queue(gateway=gateway).publish("x")
    assert isinstance(caught.value, redis.RedisError)
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    assert 0.5 < time.monotonic() - began < 60


def test_a_server_that_returns_within_the_budget_is_used_again(one_world: World, proxy: Proxy) -> None:
    queue, _ = over(one_world, proxy, retry_budget_seconds=300)
    target = proxy.target
    proxy.point(1)
    publishing = one_world.in_background(queue.publish, "x")
    time.sleep(0.3)
    assert not publishing.done()
    proxy.point(target)
    assert publishing.result(PATIENCE_S) is True
    assert waiting(one_world) == ["x"]


def test_a_client_with_its_own_retries_does_not_duplicate_resent_calls(one_world: World, proxy: Proxy) -> None:
    kind: Any = redis.retry.Retry if one_world.flavour == "sync" else redis.asyncio.retry.Retry
    client = client_over(one_world, proxy, retry=kind(NoBackoff(), 3))
    recorder = Recorder(one_world)
    queue, _ = over(one_world, proxy, client=client, queue={"on_event": recorder.callback})
    proxy.cut(Fault.REPLY_LOST)
    assert queue.publish("x") is True
    assert waiting(one_world) == ["x"]
    proxy.cut(Fault.REPLY_LOST)
    with queue.process_message() as message:
        assert (message, in_hand(one_world)) == ("x", 1)
        proxy.cut(Fault.REPLY_LOST)
    assert recorder.steps[-1] == "ack/success"
    assert in_hand(one_world) == 0


def test_a_wait_ends_after_its_time_with_or_without_a_server(one_world: World, proxy: Proxy) -> None:
    queue, _ = over(one_world, proxy, message_wait_interval_seconds=1, retry_budget_seconds=1)
    began = time.monotonic()
    assert handle(queue) is None
    assert 0.9 <= time.monotonic() - began < 60
    proxy.point(1)
    began = time.monotonic()
    with pytest.raises(redis.RedisError):
        handle(queue)
    assert time.monotonic() - began < 60
