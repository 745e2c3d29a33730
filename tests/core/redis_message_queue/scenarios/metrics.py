"""Counters with labels, and the errors for the trace, without any library for either."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.events import QueueEvent

client = Redis.from_url("redis://localhost:6379/0")
steps: Counter[tuple[str, str, str, str]] = Counter()
errors: list[BaseException] = []


def observe(event: QueueEvent) -> None:
    steps[event.queue, event.operation, event.outcome, event.exception_type or ""] += 1
    if event.error is not None:
        errors.append(event.error)


queue = RedisMessageQueue("jobs", client=client, on_event=observe)
for text in ("good", "bad", "bad"):
    queue.publish(text)
for _ in range(2):
    with suppress(ArithmeticError), queue.process_message() as job:
        if job == b"bad":
            raise ArithmeticError(job)

assert steps["jobs", "publish", "success", ""] == 2
assert steps["jobs", "publish_dedup_hit", "skipped", ""] == 1
assert steps["jobs", "ack", "success", ""] == 1
assert steps["jobs", "failed", "failure", "ArithmeticError"] == 1
assert [type(error) for error in errors] == [ArithmeticError]
client.close()
