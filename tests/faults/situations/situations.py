"""What happens in each situation, in Airflow and in Dagster: messages published, faults injected, results counted."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from rmq_core import LeasedQueue
from tests.faults import tally
from tests.faults.airflow.ledger import Ledger
from tests.faults.situations.work import BY, CONFIG, NOTHING, POISON, SHARE, SHARES
from tests.servers import Server
from tests.servers.process import until

PATIENCE_S, OPEN_S, QUIET_S = 900, 240, 20
EVERY_S, A_TIME = 1, 2  # of continuous publishing: so many messages, so often
BETWEEN_KILLS_S = 20, 40
LOST, STALE, STUCK, DOUBLED = "lost", "settled by a stale holder", "stuck", "duplicated effects"


@dataclass(frozen=True)
class Scale:
    """For how long a situation publishes, and for how long the orchestrator is down. An hour is `hour_s` seconds."""

    live_s: float
    hour_s: float


class Pipeline(Protocol):
    """An orchestrator with the pipelines of `work.py`; each method returns when it has happened."""

    name: str
    redis: Server
    ledgers: Path

    def kill_worker(self, pid: int) -> None:
        """Send SIGKILL to the process that works, and to what watches over it on the same machine."""

    def restart_scheduler(self) -> None:
        """Send SIGKILL to what starts runs; it is started again at once."""

    def terminate(self, queue: str) -> None:
        """Somebody ends the run that works, on the page of the run."""

    def backfill(self) -> None:
        """Somebody asks for a backfill of five days, whose runs consume the queue `backfill`."""

    def crash(self) -> None:
        """Everything is killed: scheduler, workers, webserver, metadata stay."""

    def restart(self) -> None:
        """Everything is started again."""

    def open_runs(self, queue: str) -> int:
        """Return how many runs of the queue's pipeline are not finished."""

    def runs(self, queue: str) -> int:
        """Return how many runs there were since the last call of `begin`."""

    def begin(self) -> None:
        """A situation begins."""

    def write_off(self) -> None:
        """End runs that are shown as running although nothing works on them."""


class Play:
    """One situation in one orchestrator."""

    def __init__(self, pipeline: Pipeline, queue: str, scale: Scale) -> None:
        self.pipeline, self.scale = pipeline, scale
        self.queue = LeasedQueue(pipeline.redis.url, queue, CONFIG)
        self.ledger = Ledger(queue, pipeline.ledgers)
        self.published: dict[str, float] = {}
        self._numbers = itertools.count()
        self.chance = random.Random(21)
        pipeline.begin()

    def publish(self, count: int, kind: str = "") -> None:
        """Publish new messages at once."""
        payloads = [f"{kind}{next(self._numbers)}" for _ in range(count)]
        self.published.update(dict.fromkeys(payloads, time.time()))
        self.queue.publish_many(payloads)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Publish at an even rate during the block, whatever happens in it."""
        ended = threading.Event()

        def go_on() -> None:
            while not ended.wait(EVERY_S):
                self.publish(A_TIME)

        publisher = threading.Thread(target=go_on)
        publisher.start()
        try:
            yield
        finally:
            ended.set()
            publisher.join()

    def kill_worker(self) -> None:
        """Kill one of the processes that work on messages now."""
        until(self._kill_one, PATIENCE_S, pace_s=0.5)
        tally.count(f"{self.pipeline.name}: worker killed at work")

    def _kill_one(self) -> bool:
        if at_work := self.at_work():
            self.pipeline.kill_worker(self.chance.choice(at_work))
        return bool(at_work)

    def restart_scheduler(self) -> None:
        tally.count(f"{self.pipeline.name}: scheduler killed under load")
        self.pipeline.restart_scheduler()

    def cut_connections(self) -> None:
        """Break every connection to Redis, also those of the publisher."""
        tally.count(f"{self.pipeline.name}: all connections to Redis cut")
        with self.pipeline.redis.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")

    def count(self) -> dict[str, float]:
        """Wait until all messages are settled and all runs have ended, or until patience ends; return the counts."""
        seconds = self._settled()
        self._await_runs()
        unfinished = self.pipeline.open_runs(self.queue.name)
        self.pipeline.write_off()
        stats, effects = self.queue.stats(), self.ledger.effects()
        left, dead = sum(stats[:3]), [str(one.payload) for one in self.queue.admin.browse("dead", 0, 1000).messages]
        missing = len({*self.published} - {*effects.values()} - {*dead})
        self.queue.close()
        return {
            "messages": len(self.published),
            LOST: max(0, missing - left) + sum(not one.startswith(POISON) for one in dead),
            STALE: self.ledger.stale(),
            STUCK: left,
            DOUBLED: self.ledger.doubled(),
            "worked on again": self.ledger.twice(),
            "dead letters": stats.dead,
            "runs": self.pipeline.runs(self.queue.name),
            "found nothing": sum(map(len, self.ledger.fences(NOTHING).values())),
            "left open": unfinished,
            **self._latency(effects),
            "s until settled": seconds,
        }

    def _latency(self, effects: dict[str, str]) -> dict[str, float]:
        began = self.ledger.began()
        waits = [began[one] - self.published[payload] for one, payload in effects.items()]
        cuts = statistics.quantiles(waits, n=100, method="inclusive")
        return {"p50, s": round(cuts[49], 1), "p99, s": round(cuts[98], 1)}

    def _settled(self) -> int:
        """Return the seconds until no message was ready, delayed or leased, or until patience ended."""
        since = time.monotonic()
        with suppress(AssertionError):
            until(lambda: not sum(self.queue.stats()[:3]), PATIENCE_S, pace_s=0.5)
        return math.ceil(time.monotonic() - since)

    def _await_runs(self) -> None:
        """Return when no run has been open for a while. A run that was requested needlessly begins late."""
        since = quiet = time.monotonic()
        while (now := time.monotonic()) - since < OPEN_S and now - quiet < QUIET_S:
            if self.pipeline.open_runs(self.queue.name):
                quiet = now
            time.sleep(1)

    def at_work(self) -> list[int]:
        """Return the living processes that have begun to work, latest last."""
        begun = [(pid, float(started)) for started, pids in self.ledger.fences(BY).items() for pid in pids]
        return [pid for pid, started in dict.fromkeys(begun) if _lives(pid, started)]


def continuous(play: Play) -> None:
    """Messages come all the time, and every half minute a worker, the scheduler or the connections are killed."""
    play.ledger.open_gate()
    kills, ends = list[Callable[[], None]](), time.monotonic() + play.scale.live_s
    with play.publishing():
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, play.chance.uniform(*BETWEEN_KILLS_S)))
            if not kills:
                kills = [play.kill_worker, play.restart_scheduler, play.cut_connections]
                play.chance.shuffle(kills)
            kills.pop()()


def fan_out(play: Play) -> None:
    """One run shares a batch out among twenty tasks; one of them is killed."""
    play.publish(SHARES * SHARE)
    until(play.ledger.stands, PATIENCE_S, pace_s=0.5)
    play.kill_worker()
    play.ledger.open_gate()


def backfill(play: Play) -> None:
    """Five days of old messages arrive at once, and a backfill consumes beside the runs that work on new ones."""
    play.ledger.open_gate()
    with play.publishing():
        time.sleep(play.scale.live_s / 10)
        play.publish(SHARES * SHARE)
        play.pipeline.backfill()
        time.sleep(play.scale.live_s / 10)


def poison(play: Play) -> None:
    """Two of sixty messages fail every run that gets them."""
    play.ledger.open_gate()
    for count in (20, 38):
        play.publish(count)
        play.publish(1, POISON)


def terminated(play: Play) -> None:
    """Somebody ends a run that holds a lease."""
    play.publish(SHARES)
    until(play.ledger.stands, PATIENCE_S, pace_s=0.5)
    play.pipeline.terminate(play.queue.name)
    play.ledger.open_gate()


def down(play: Play) -> None:
    """Everything of the orchestrator is killed at work, and comes back after an hour; messages go on coming."""
    play.ledger.open_gate()
    with play.publishing():
        until(play.at_work, PATIENCE_S, pace_s=0.5)
        play.pipeline.crash()
        time.sleep(play.scale.hour_s)
        play.pipeline.restart()


SITUATIONS: dict[str, tuple[str, Callable[[Play], None]]] = {
    "continuous": ("continuous publishing, random kills", continuous),
    "fan_out": ("20-fold fan-out, one task killed", fan_out),
    "backfill": ("backfill beside live work", backfill),
    "poison": ("2 poison messages among 60", poison),
    "terminated": ("a run is terminated while it holds a lease", terminated),
    "down": ("the orchestrator is down", down),
}
"""By queue: the title, and what happens."""


def _lives(pid: int, started: float) -> bool:
    """Return whether a process lives. After its end, another process may get its number, with another time of start."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE
    return False
