"""The cost of claim, extend and ack with many messages in flight, divided by the cost with one in flight.

Each number in flight has a server of its own, and slices on all servers alternate, so that neither other keys nor a
slower minute of the machine affects the comparison. "In one lease": one lease holds all messages and is the one that is
extended; other messages are claimed and acked. "In many leases": each message has its own lease, and the leases are
extended one after the other.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Sequence
from contextlib import ExitStack

import redis

from benchmarks import cores
from benchmarks.figures import Figure, Findings, Spread, Table
from benchmarks.loops import some
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, Laps, race
from rmq_core import Lease, LeasedQueue
from tests.servers import Server

CALLS = 60
FILLERS = 2
LEASE_S = 7200
SHOWN = {1: "1", 10**3: "10³", 10**4: "10⁴", 10**5: "10⁵", 10**6: "10⁶"}


def measure(server: str, rounds: int, levels: Sequence[int]) -> Findings:
    """Measure claim, extend and ack at each level but the first, as ratios to the first."""
    found = Findings()
    for shape in ("one lease", "many leases"):
        with ExitStack() as stack:
            flights = [Flight(server, level, shape) for level in levels]
            for flight in flights:
                stack.callback(flight.close)
            for flight in flights:
                flight.take_off()
            found.add(_compare(flights, shape, rounds))
            if shape == "one lease":
                found.tables.append(_whole_acks(flights))
    return found


def _compare(flights: Sequence[Flight], shape: str, rounds: int) -> Findings:
    found, rows = Findings(), []
    for verb in ("claim", "extend", "ack"):
        first, *others = [flight.contender(verb) for flight in flights]
        laps = race(first, others, rounds)
        rows.append((verb, *(f"{1e6 / laps[each.name].rate:.0f} µs" for each in (first, *others))))
        found.figures += [_figure(each.name, laps[each.name]) for each in others]
    head = ("call", *(f"{SHOWN[flight.level]} in flight" for flight in flights))
    found.tables.append(Table(f"A call with messages in flight in {shape}", head, rows))
    return found


def _figure(name: str, laps: Laps) -> Figure:
    costs = Spread.of(1 / ratio for ratio in laps.ratios)
    return Figure(name, costs, context="cost over that with 1 in flight")


class Flight:
    """A server with `level` messages in flight."""

    def __init__(self, server: str, level: int, shape: str) -> None:
        self.level, self.shape = level, shape
        self.server: Server = cores.start(server)
        self.client = redis.Redis(port=self.server.port)
        self.queue = LeasedQueue(self.client, "inflight")
        self.big: list[Lease] = []
        self.held: list[Lease] = []
        self.next = itertools.cycle(self.big)

    def take_off(self) -> None:
        """Publish and claim `level` messages."""
        for first in range(0, self.level, 100_000):
            self.queue.publish_many(payloads(min(100_000, self.level - first)))
        if self.shape == "one lease":
            self.big = [some(self.queue.claim(max_messages=self.level, lease=LEASE_S))]
        else:
            with cores.everywhere():
                _fill(self.server.port, self.level)
            self.big = [self.queue.adopt(info.id) for info in self.queue.admin.leases(1000)]
        self.next = itertools.cycle(self.big)
        if self.queue.backlog().ready:
            raise RuntimeError("not every message is in flight: the benchmark is broken")

    def contender(self, verb: str) -> Contender:
        name = f"{verb} at {SHOWN[self.level]} in flight in {self.shape}"
        if verb == "claim":
            return Contender(name, self._claim, CALLS, before=self._publish, after=self._ack)
        if verb == "extend":
            return Contender(name, self._extend, CALLS)
        return Contender(name, self._ack, CALLS, before=self._publish_and_claim)

    def ack_whole(self) -> tuple[float, float]:
        """Ack the one large lease; return the microseconds it took the server, and the caller."""
        began_us, began = self._script_us(), time.perf_counter()
        self.queue.ack(self.big[0])
        return self._script_us() - began_us, (time.perf_counter() - began) * 1e6

    def close(self) -> None:
        self.queue.close()
        self.client.close()
        self.server.stop()

    def _script_us(self) -> float:
        return float(self.client.info("commandstats")["cmdstat_evalsha"]["usec"])

    def _publish(self) -> None:
        self.queue.publish_many(payloads(CALLS))

    def _publish_and_claim(self) -> None:
        self._publish()
        self._claim()

    def _claim(self) -> None:
        self.held = [some(self.queue.claim(lease=LEASE_S)) for _ in range(CALLS)]

    def _extend(self) -> None:
        for _ in range(CALLS):
            self.queue.extend(next(self.next), LEASE_S)

    def _ack(self) -> None:
        for lease in self.held:
            self.queue.ack(lease)
        self.held = []


def _whole_acks(flights: Sequence[Flight]) -> Table:
    rows = []
    for flight in flights:
        server_us, caller_us = flight.ack_whole()
        rows.append((SHOWN[flight.level], f"{server_us:.0f} µs", f"{caller_us:.0f} µs"))
    note = "The server frees the list in a thread of its own (UNLINK)."
    return Table("Ack of a whole lease, once", ("messages in it", "server", "caller"), rows, note)


def _fill(port: int, level: int) -> None:
    """Lease `level` messages one by one; for many, use two processes, because the server is faster than one client."""
    shares = [level // FILLERS, level - level // FILLERS] if level > 10_000 else [level]
    if len(shares) == 1:
        return _lease_each(port, level)
    with multiprocessing.get_context("spawn").Pool(FILLERS) as pool:
        pool.starmap(_lease_each, [(port, share) for share in shares])
    return None


def _lease_each(port: int, count: int) -> None:
    with redis.Redis(port=port) as client, LeasedQueue(client, "inflight") as queue:
        for _ in range(count):
            some(queue.claim(lease=LEASE_S))
