"""The situations of the drills, made by real workers, and what is left in the queue afterwards."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis

from rmq_core import LeasedConfig, LeasedQueue
from tests.drills.worker import JOURNALED, QUEUE
from tests.servers.process import DIES_WITH_US, Server

ROOT = Path(__file__).parents[2]
REASONS = ("TimeoutError: no answer of station {} after 30 s", "KeyError: 'carrier'", "ValueError: row {} is empty")
TIMEOUTS = "TimeoutError: no answer of station # after # s"


@dataclass
class Scene:
    """A server with a queue, and the workers that were started."""

    server: Server
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def queue(self) -> LeasedQueue:
        """Return the queue, as the workers open it; the caller closes it."""
        return LeasedQueue(self.server.url, QUEUE, JOURNALED)

    def publish(self, *payloads: str) -> list[str]:
        """Publish messages, and return their ids."""
        with self.queue() as queue:
            return [str(each) for each in queue.publish_many(payloads).ids]

    def worker(self, how: str, owner: str = "worker-7", lease: float = 300) -> subprocess.Popen[str]:
        """Start a worker as a process."""
        words = [sys.executable, "-m", "tests.drills.worker", how, self.server.url, owner, str(lease)]
        pipe = subprocess.PIPE
        process = subprocess.Popen([*DIES_WITH_US, *words], cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        self.running.append(process)
        return process

    def worked(self, how: str, owner: str = "worker-7", lease: float = 300) -> int:
        """Run a worker until it ends, and return its exit code."""
        return self.worker(how, owner, lease).wait(60)

    def says(self, process: subprocess.Popen[str], word: str) -> None:
        """Wait until a worker reports this."""
        assert process.stdout is not None
        assert process.stdout.readline() == f"{word}\n"

    def poison(self) -> str:
        """Let a message kill three workers, the last of which had an hour to go; return its id."""
        (message,) = self.publish("fatal")
        for lease in (0.05, 0.05, 3600):
            assert self.worked("die", lease=lease) < 0
            time.sleep(0.06)
        self.publish("one", "two")
        return message

    def bury(self, many: int) -> None:
        """Make dead letters of three causes."""
        with LeasedQueue(self.server.url, QUEUE, LeasedConfig(max_deliveries=1)) as queue:
            for at in range(0, many, 1000):
                queue.publish_many([f"item {number}" for number in range(at, min(many, at + 1000))])
                for size, reason in zip((400, 300, 300), REASONS, strict=True):
                    lease = queue.claim(max_messages=size)
                    assert lease is not None
                    queue.nack(lease, reason=reason.format(at))

    def fill(self, client: redis.Redis) -> None:
        """Let the server reach its limit, for the dead letters that fill it."""
        self.bury(5000)
        client.config_set("maxmemory", client.info("memory")["used_memory"])

    def numbers(self) -> tuple[int, int, int, int]:
        """Return how many messages are ready, delayed, leased and dead."""
        with self.queue() as queue:
            stats = queue.stats()
        return stats.ready, stats.delayed, stats.leased, stats.dead

    def drains(self, acked: int) -> None:
        """A healthy worker gets everything that is ready, and what is acked then is all there was."""
        assert self.numbers()[:3] == (acked, 0, 0)
        assert self.worked("ack", "healthy") == 0
        assert self.numbers()[:3] == (0, 0, 0)

    def end(self) -> None:
        """End the workers."""
        for process in self.running:
            process.kill()
            process.communicate()
