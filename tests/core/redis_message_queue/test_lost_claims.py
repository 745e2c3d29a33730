"""Claims whose reply was lost: the message has no holder and must be found again, once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis

from tests.core.redis_message_queue.behind import PATIENCE_S, expire, in_hand
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.wires import over
from tests.core.redis_message_queue.worlds import World
from tests.faults.proxy import Fault, Proxy


def lose_claim(queue: Any, proxy: Proxy) -> int:
    """Let a claim take effect and cut its connection before the reply; return the port of the server."""
    target = proxy.target
    proxy.cut(Fault.REPLY_LOST, meanwhile=lambda: setattr(proxy, "target", 1))
    with pytest.raises(redis.RedisError):
        handle(queue, lambda: pytest.fail("the block began"))
    return target


@pytest.mark.parametrize("timeout_s", [300, None], ids=["leases", "no leases"])
def test_a_claim_whose_reply_was_lost_is_found_by_the_next_claim(
    one_world: World, proxy: Proxy, timeout_s: int | None
) -> None:
    queue, _ = over(
        one_world, proxy, retry_budget_seconds=0, message_wait_interval_seconds=0,
        message_visibility_timeout_seconds=timeout_s,
    )  # fmt: skip
    for text in "ab":
        queue.publish(text)
    target = lose_claim(queue, proxy)
    assert in_hand(one_world) == 1
    proxy.target = target  # connections that the fault spared stay open
    seen = []
    for _ in range(2):
        with queue.process_message() as message:
            seen.append(message)
    assert seen == ["a", "b"]
    assert in_hand(one_world) == 0


def test_a_claim_whose_reply_was_lost_is_found_by_one_of_several_consumers(one_world: World, proxy: Proxy) -> None:
    queue, _ = over(one_world, proxy, retry_budget_seconds=0, message_wait_interval_seconds=0)
    for text in "abcd":
        queue.publish(text)
    target = lose_claim(queue, proxy)
    proxy.target = target  # connections that the fault spared stay open
    together = threading.Barrier(4)
    consumers = [one_world.in_background(handle, queue, lambda: together.wait(PATIENCE_S)) for _ in range(4)]
    assert sorted(consumer.result(PATIENCE_S) for consumer in consumers) == [*"abcd"]
    assert in_hand(one_world) == 0


@pytest.mark.parametrize("timeout_s", [300, None], ids=["leases", "no leases"])
def test_draining_finds_a_claim_whose_reply_was_lost(one_world: World, proxy: Proxy, timeout_s: int | None) -> None:
    queue, _ = over(
        one_world, proxy, retry_budget_seconds=0, message_wait_interval_seconds=0,
        message_visibility_timeout_seconds=timeout_s,
    )  # fmt: skip
    queue.publish("x")
    target = lose_claim(queue, proxy)
    assert queue.drain(timeout=0) is False
    began = time.monotonic()
    assert queue.drain(timeout=1) is False
    assert time.monotonic() - began < 60
    proxy.target = target  # connections that the fault spared stay open
    assert queue.drain(timeout=PATIENCE_S) is True
    with one_world.glance().process_message() as message:
        assert message == "x"


def test_a_claim_that_is_found_again_starts_with_its_full_time(one_world: World, proxy: Proxy) -> None:
    queue, _ = over(one_world, proxy, retry_budget_seconds=0, message_wait_interval_seconds=0)
    queue.publish("x")
    target = lose_claim(queue, proxy)
    expire(one_world)
    proxy.target = target  # connections that the fault spared stay open
    with queue.process_message() as message:
        assert message == "x"
        assert handle(one_world.glance()) is None
    assert in_hand(one_world) == 0
