"""200,000 messages at a time, compared with redis-py: read as messages and as a table of Arrow, published from both.

The loop that reads fetches 10,000 envelopes of the same lease at a time and decodes them to tuples. The loop that
publishes runs the publish script in redis-py's pipeline, 1,000 messages a call and 4 calls in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from benchmarks.figures import Figure, Findings
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, race
from benchmarks.spark_read import claimed, read_tuples
from benchmarks.spark_write import QUEUE, publisher
from benchmarks.targets import at_least
from rmq_core import LeasedQueue

READS = {"messages": 0.6, "read_arrow": 2.5}
PUBLISHES = {"publish_many": 1.3, "publish_many of a column": 2.5}
TARGETS = {f"{name}, 200,000 at a time": at_least(goal) for name, goal in (READS | PUBLISHES).items()}


def measure(port: int, rounds: int, count: int) -> Findings:
    """Measure all four with `count` messages."""
    import pyarrow as pa  # no other benchmark of the core needs it

    texts, url = payloads(count), f"redis://127.0.0.1:{port}"
    column = pa.chunked_array([texts])
    with redis.Redis.from_url(url) as client, LeasedQueue(url, QUEUE) as queue:
        publish = publisher()

        def check() -> None:
            assert queue.admin.purge("ready") == count

        def empty() -> None:
            queue.admin.purge("ready")

        loop = Contender("redis-py", lambda: publish(client, texts), count, empty, check)
        published = (lambda: queue.publish_many(texts), lambda: queue.publish_many(column))
        found = _raced(loop, dict(zip(PUBLISHES, published, strict=True)), rounds, check)
        queue.publish_many(texts)
        lease = claimed(queue, count)
        read = (lambda: sum(1 for _ in queue.messages(lease)), lambda: queue.read_arrow(lease))
        loop = Contender("redis-py", lambda: read_tuples(url, lease), count)
        found.add(_raced(loop, dict(zip(READS, read, strict=True)), rounds))
        queue.ack(lease)
    return found


def _raced(
    loop: Contender, steps: dict[str, Callable[[], Any]], rounds: int, after: Callable[[], object] | None = None
) -> Findings:
    laps = race(loop, [Contender(name, run, loop.units, after=after) for name, run in steps.items()], rounds)
    bare = f"redis-py {laps['redis-py'].rate:,.0f}/s"
    return Findings(
        [
            Figure(f"{name}, 200,000 at a time", laps[name].ratio, context=f"{laps[name].rate:,.0f}/s, {bare}")
            for name in steps
        ]
    )
