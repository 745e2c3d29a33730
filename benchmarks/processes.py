"""The same loops in 1 to 8 concurrent processes: their total rate divided by that of the same number of bare loops.

All processes run a loop at the same time, for a short while; bare and RMQ loops alternate. Here the clients may use
every core.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import redis

from benchmarks import cores
from benchmarks.figures import Findings, Spread, Table
from benchmarks.loops import some
from benchmarks.payloads import payloads
from rmq_core import LeasedQueue

CROWDS = (1, 2, 4, 8)
LOOPS = ("publish", "claim", "extend", "ack", "claim + ack", "claim_next loop")
SLICE_S, START_S, BURST = 0.15, 0.02, 20
_NOTE = (
    "Ratio of the total rates, and the total rate. This machine has {cores} cores for the server and all clients: as"
    " soon as the server's single thread is busy all the time, a ratio is that of the server's time for `return 1` to"
    " its time for the script."
)


def measure(port: int, rounds: int) -> Findings:
    """Return one table: a row per loop, a column per number of processes."""
    cores.spread_out()
    workers = [Worker(port) for _ in range(max(CROWDS))]
    for worker in workers:  # purging the queue could take the message that a late one begins with
        worker.pipe.recv()
    with redis.Redis(port=port) as client, LeasedQueue(client, "processes") as queue:
        columns = [_column(workers[:crowd], queue, rounds) for crowd in CROWDS]
    for worker in workers:
        worker.stop()
    rows = [(name, *(column[name] for column in columns)) for name in ("bare EVALSHA", *LOOPS)]
    head = ("loop", *(f"{crowd} process{'es' if crowd > 1 else ''}" for crowd in CROWDS))
    note = _NOTE.format(cores=os.cpu_count())
    return Findings(tables=[Table("The same loops in several processes", head, rows, note)])


def _column(workers: Sequence[Worker], queue: LeasedQueue, rounds: int) -> dict[str, str]:
    ratios: dict[str, list[float]] = {name: [] for name in LOOPS}
    rates: dict[str, list[float]] = {name: [] for name in ("bare EVALSHA", *LOOPS)}
    for _ in range(rounds):
        before = _total(workers, "bare EVALSHA", queue)
        for name in LOOPS:
            taken, after = _total(workers, name, queue), _total(workers, "bare EVALSHA", queue)
            ratios[name].append(2 * taken / (before + after))
            rates[name].append(taken)
            rates["bare EVALSHA"].append(after)
            before = after
    shown = {name: f"{Spread.of(ratios[name]).median:.2f} ({Spread.of(rates[name]).median:,.0f}/s)" for name in LOOPS}
    return {"bare EVALSHA": f"1 ({Spread.of(rates['bare EVALSHA']).median:,.0f}/s)", **shown}


def _total(workers: Sequence[Worker], name: str, queue: LeasedQueue) -> float:
    """Return the calls a second of all workers together."""
    if name.startswith(("claim", "ack")):
        queue.publish_many(payloads(int(40_000 * SLICE_S)))
    start = time.monotonic() + START_S
    for worker in workers:
        worker.pipe.send((name, start))
    rate = sum(worker.pipe.recv() for worker in workers)
    queue.admin.purge("ready")
    return float(rate)


class Worker:
    """A process that runs a given loop on command."""

    def __init__(self, port: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(port, theirs), daemon=True)
        self.process.start()

    def stop(self) -> None:
        self.pipe.send(None)
        self.process.join()


def _work(port: int, pipe: Connection) -> None:
    hand = Hand(port)
    loops = hand.loops()
    pipe.send("ready")
    while (told := pipe.recv()) is not None:
        name, start = told
        pipe.send(hand.rate(loops[name], start))


class Hand:
    """The loops of one process; each call of a loop does BURST operations and returns the seconds they took."""

    def __init__(self, port: int) -> None:
        self.client = redis.Redis(port=port)
        self.sha = self.client.script_load("return 1")
        self.queue = LeasedQueue(self.client, "processes")
        self.payloads = payloads(BURST)
        self.queue.publish(self.payloads[0])
        self.kept = some(self.queue.claim(lease=7200))

    def loops(self) -> dict[str, Callable[[], float]]:
        return {
            "bare EVALSHA": self._bare,
            "publish": self._publish,
            "claim": lambda: self._claim_and_ack(claims=True),
            "extend": self._extend,
            "ack": lambda: self._claim_and_ack(acks=True),
            "claim + ack": lambda: self._claim_and_ack(claims=True, acks=True),
            "claim_next loop": self._claim_next,
        }

    def rate(self, loop: Callable[[], float], start: float) -> float:
        """Run a loop for SLICE_S from the time `start`; return its operations a second."""
        time.sleep(max(0.0, start - time.monotonic()))
        bursts, taken_s = 0, 0.0
        while time.monotonic() < start + SLICE_S:
            taken_s += loop()
            bursts += 1
        return bursts * BURST / taken_s if taken_s else 0.0

    def _bare(self) -> float:
        began = time.perf_counter()
        for _ in range(BURST):
            self.client.evalsha(self.sha, 0)
        return time.perf_counter() - began

    def _publish(self) -> float:
        began = time.perf_counter()
        for payload in self.payloads:
            self.queue.publish(payload)
        return time.perf_counter() - began

    def _extend(self) -> float:
        began = time.perf_counter()
        for _ in range(BURST):
            self.queue.extend(self.kept, 7200)
        return time.perf_counter() - began

    def _claim_and_ack(self, *, claims: bool = False, acks: bool = False) -> float:
        """Claim a burst of messages, then ack them; time only the requested operations."""
        marks = [time.perf_counter()]
        leases = [some(self.queue.claim()) for _ in range(BURST)]
        marks.append(time.perf_counter())
        for lease in leases:
            self.queue.ack(lease)
        marks.append(time.perf_counter())
        return claims * (marks[1] - marks[0]) + acks * (marks[2] - marks[1])

    def _claim_next(self) -> float:
        began = time.perf_counter()
        lease = some(self.queue.claim())
        for _ in range(BURST - 1):
            lease = some(self.queue.claim_next(ack=lease))
        self.queue.ack(lease)
        return time.perf_counter() - began
