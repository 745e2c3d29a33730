"""A worker process of the comparison: it publishes, claims and waits on command, with the queue of one library.

`python -m benchmarks.message_queue_worker MODULE PORT SERVER_PID` runs with RMQ and with redis-message-queue, each in
an environment of its own, and so imports nothing but the queue, redis-py and a clock. It reads one command per line
and answers each with one line of JSON: the result of the command, and the seconds that it took in wall-clock time, in
processor time of the client, and in processor time of the server.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.jobs_tally import Clock

SIZE = 190


class Worker:
    """The commands."""

    def __init__(self, module: str, port: int) -> None:
        self.library = importlib.import_module(module)
        self.client = redis.Redis(port=port)
        self.name = f"{module} {getattr(self.library, '__version__', '')}"
        self.plain = self._queue("plain", deduplication=False)
        self.unique = self._queue("unique", deduplication=True)
        self.sent = 0

    def publish(self, count: int) -> None:
        for text in self._texts(count):
            self.plain.publish(text)

    def publish_unique(self, count: int) -> None:
        for text in self._texts(count):
            self.unique.publish(text)

    def process(self, count: int) -> None:
        for _ in range(count):
            _process(self.plain)

    def cycle(self, count: int) -> None:
        for text in self._texts(count):
            self.unique.publish(text)
            _process(self.unique)

    def hold(self, count: int) -> None:
        """Claim messages and keep them unsettled, like handlers that are still working."""
        gateway = self.library.RedisGateway(redis_client=self.client, message_visibility_timeout_seconds=300)
        for _ in range(count):
            if gateway.wait_for_message_and_move(self.plain.key.pending, self.plain.key.processing) is None:
                raise RuntimeError("there was nothing to hold: the benchmark is broken")

    def wait(self, _: int) -> int:
        """Wait for one message; return the time of its arrival, on the clock that all processes share."""
        while True:
            with self.plain.process_message() as message:
                if message is not None:
                    return time.monotonic_ns()

    def ring(self, _: int) -> int:
        """Publish one message; return the time just before."""
        (text,) = self._texts(1)
        began = time.monotonic_ns()
        self.plain.publish(text)
        return began

    def idle(self, seconds: int) -> None:
        """Wait on an empty queue for the given time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self.plain.process_message() as message:
                if message is not None:
                    raise RuntimeError("a message arrived in a queue that should stay empty: the benchmark is broken")

    def _queue(self, name: str, *, deduplication: bool) -> Any:
        """Return a queue with its library's defaults; newer releases deduplicate if they get a key function."""
        queue: Callable[..., Any] = self.library.RedisMessageQueue
        try:
            return queue(name, client=self.client, deduplication=deduplication)
        except TypeError:
            return queue(name, client=self.client, **({"get_deduplication_key": _digest} if deduplication else {}))

    def _texts(self, count: int) -> list[str]:
        self.sent += count
        return [f"{n:010}".ljust(SIZE, "x") for n in range(self.sent - count, self.sent)]


def _process(queue: Any) -> None:
    with queue.process_message() as message:
        if message is None:
            raise RuntimeError("there was nothing to process: the benchmark is broken")


def _digest(message: str) -> str:
    return hashlib.sha256(message.encode()).hexdigest()


def main() -> None:
    module, port, server_pid = sys.argv[1:]
    worker, clock = Worker(module, int(port)), Clock(int(server_pid))
    print(worker.name, flush=True)
    for line in sys.stdin:
        command, count = line.split()
        began = clock.now()
        told = getattr(worker, command)(int(count))
        print(json.dumps([told, clock.now().since(began)]), flush=True)


if __name__ == "__main__":
    main()
