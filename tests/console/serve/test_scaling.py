"""What an autoscaler is told when nobody consumes: the clock is real, and the server is a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from rmq_core import LeasedQueue, open_queue
from tests.console.serve.conftest import QUEUE, serving
from tests.servers.process import Server

PATIENCE_S = 60.0  # it takes less than a second, unless the machine is busy
SOON_S = 0.5
LATE_S = 600.0  # after the test has ended, also on a busy machine


@pytest.fixture(scope="module")
def url(shared_redis: Server) -> Iterator[str]:
    """A server without options."""
    with serving(shared_redis.url) as address:
        yield address


def told(url: str, queue: str = QUEUE) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{url}/keda/{queue}", timeout=PATIENCE_S).raise_for_status().json()
    return found


def until(url: str, ready: int, queue: str = QUEUE) -> None:
    """Wait until the server tells that so many messages are ready."""
    began = time.monotonic()
    while told(url, queue)["ready"] != ready:
        assert time.monotonic() - began < PATIENCE_S, told(url, queue)
        time.sleep(0.05)


def test_a_delayed_message_counts_as_soon_as_it_is_due_although_nobody_consumes(url: str, queue: LeasedQueue) -> None:
    queue.publish("late", delay=LATE_S)
    before = told(url)
    assert (before["ready"], before["total"], before["delayed"]) == (0, 0, 1)
    queue.publish("soon", delay=SOON_S)
    until(url, 1)
    assert (told(url)["total"], told(url)["delayed"]) == (1, 1)


def test_messages_of_an_expired_lease_count_although_nobody_consumes(url: str, redis_server: Server) -> None:
    with LeasedQueue(redis_server.url, QUEUE) as queue:
        queue.publish_many([*"abcd"])
        queue.claim(lease=LATE_S)
        before = told(url)
        assert (before["ready"], before["leased"], before["total"]) == (3, 1, 4)
        queue.claim(max_messages=3, lease=SOON_S)
    until(url, 3)
    assert (told(url)["leased"], told(url)["total"]) == (1, 4)


def test_a_paused_queue_asks_for_no_worker_but_for_those_of_its_leases(url: str, queue: LeasedQueue) -> None:
    queue.publish_many([*"abcd"])
    queue.claim(lease=LATE_S)
    queue.admin.pause()
    asked = told(url)
    assert [asked[name] for name in ("ready", "leased", "total", "oldest_age", "paused")] == [0, 1, 1, 0, True]
    queue.admin.resume()
    assert told(url)["total"] == 4


@pytest.mark.parametrize("how", ["delay", "lease"])
def test_jobs_are_told_when_they_are_due_or_their_lease_expired(url: str, redis_server: Server, how: str) -> None:
    with open_queue(redis_server.url, "mails", "jobs") as jobs:  # type: ignore[attr-defined]
        for number, wait in enumerate((LATE_S, SOON_S)):
            jobs.publish({"n": number}, delay=wait if how == "delay" else None)
            if how == "lease":
                jobs.claim(lease=wait)
            if wait == LATE_S:
                assert told(url, "mails")["ready"] == 0
    until(url, 1, "mails")


def test_a_lease_is_reclaimed_by_the_settings_stored_with_its_queue(
    started: Callable[..., str], redis_server: Server
) -> None:
    for name in (QUEUE, "other"):
        with LeasedQueue(redis_server.url, name) as queue:
            queue.admin.configure(max_deliveries=1 if name == QUEUE else 5)
            queue.publish("x")
            queue.claim(lease=0.001)
    url = started()
    assert (told(url)["ready"], told(url)["dead"]) == (0, 1)
    assert (told(url, "other")["ready"], told(url, "other")["dead"]) == (1, 0)


def test_a_queue_that_does_not_exist_is_told_apart_from_an_empty_one(url: str, queue: LeasedQueue) -> None:
    queue.publish("x")
    queue.admin.purge("ready")
    assert told(url)["total"] == 0
    assert httpx.get(f"{url}/keda/wrok", timeout=PATIENCE_S).status_code == 404


def test_the_process_lives_and_says_that_redis_does_not_answer(
    url: str, queue: LeasedQueue, redis_server: Server
) -> None:
    queue.publish("x")
    assert [httpx.get(f"{url}{path}", timeout=PATIENCE_S).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    redis_server.pause()
    try:
        answers = {
            path: httpx.get(f"{url}{path}", timeout=PATIENCE_S) for path in ("/healthz", "/readyz", f"/keda/{QUEUE}")
        }
        assert [answer.status_code for answer in answers.values()] == [200, 503, 503]
        metrics = httpx.get(f"{url}/metrics", timeout=PATIENCE_S)
        assert (metrics.status_code, "rmq_up 0.0" in metrics.text, "rmq_ready" in metrics.text) == (200, True, False)
    finally:
        redis_server.resume()
    assert told(url)["ready"] == 1
    assert httpx.get(f"{url}/readyz", timeout=PATIENCE_S).status_code == 200
