"""Compare `RedisMessageQueue` with redis-message-queue 7.0.0, which it replaces, and with the newest release of that.

All run the same program on the same Python 3.12 against the same server, in alternation: slices of RMQ run before and
after each slice of the others. A figure is the factor by which RMQ is better than 7.0.0.

The operating system places server and clients on cores, as it does by default: these figures have targets. In the same
run the rates are measured again, block by block, with the server on a core of its own. A round trip then costs the same
every time, but waking up the other side, which costs all libraries the same, takes a larger part of it, and the work of
the library a smaller one. Processor time, of client and server together, is reported with both.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import redis

from benchmarks import cores
from benchmarks.beside import Laps
from benchmarks.figures import Figure, Findings, Spread, Table, Target, percentile
from benchmarks.idling import commands_while
from benchmarks.message_queue_hand import CALLS, Hand, Race
from benchmarks.message_queue_peers import NEW, OLD, OURS, Missing, Peer, interpreter, version

HELD = 2000
IDLE_S = 10
WARM_UPS = 5
WAKE_BLOCKS = 5
MORE_WAKES = 4
"""RMQ gets this many times more wake-ups: its p99 is set by outliers, the p99 of a polling library by its pause."""
PEERS = (OURS, NEW)
LOOPS = {
    "publish": ("publish", False),
    "deduplicated publish": ("publish_unique", False),
    "claim + ack": ("process", True),
    "deduplicated publish + claim + ack": ("cycle", False),
}
TARGETS = {
    "deduplicated publish over redis-message-queue 7": Target(2.3),
    "claim + ack over redis-message-queue 7": Target(2.2),
    "deduplicated publish + claim + ack over redis-message-queue 7": Target(2.3),
    "wake-up p99, times shorter than redis-message-queue 7": Target(50),
    "memory in flight, of redis-message-queue 7": Target(0.35, most=True),
    "bytes sent for claim + ack, of redis-message-queue 7": Target(0.1, most=True),
    "idle RedisMessageQueue consumer, client commands": Target(1, most=True),
}

_TRIPS = (
    "most of it is round trips. RMQ makes two, for a claim and an ack: more than half of their processor time is that"
    " of two calls of `return 1`. The rest goes into the scripts, which put a message under a lease and make each call"
    " safe to resend, and into the Python code between `process_message` and redis-py. When client and server do not"
    " share a core, waking up the other side costs additional time, the same for all libraries."
)
REASONS = {
    **{
        f"{name} over redis-message-queue 7": _TRIPS
        for name in ("deduplicated publish", "claim + ack", "deduplicated publish + claim + ack")
    },
    "wake-up p99, times shorter than redis-message-queue 7": (
        "other work on the machine: according to the kernel, the processes of the slowest wake-ups were runnable and"
        " waited for a processor. The processor time of a wake-up, half a millisecond each for the waiter and the"
        " publisher, and 0.4 for the server, was the same in the slowest as in the quickest."
    ),
}
"""The reason, found by a profile, why a figure may miss its target."""


def measure(port: int, rounds: int, wakes: int) -> Findings:
    """Measure all figures; without a library to compare with, return one table that gives the reason."""
    try:
        versions = {peer: version(interpreter(peer), "redis-message-queue") for peer in (OLD, NEW)}
        interpreter(OURS)
    except Missing as missing:
        return Findings(tables=[Table("Comparison with redis-message-queue", (), (), f"Not measured: {missing}.")])
    side = Side(port, versions[NEW])
    return Findings([*side.loops(rounds), *side.waking(wakes), side.memory(), side.bytes_sent(), *side.idle()])


class Side:
    """The measurements, each on an empty server."""

    def __init__(self, port: int, newest: str) -> None:
        self.port, self.newest = port, newest
        self.client = redis.Redis(port=port)
        self.server_pid = int(self.client.info("server")["process_id"])

    def loops(self, rounds: int) -> Iterator[Figure]:
        for name, (command, filled) in LOOPS.items():
            race = Race(self.client, self.server_pid, command, filled=filled)
            with self._hands() as hands:
                found = race.run(hands, rounds)
            for place, laps in found.items():
                yield self._figure(f"{name} over redis-message-queue 7{place}", laps)

    def waking(self, wakes: int) -> Iterator[Figure]:
        taken = self._wake_ups(wakes)
        for rank in (50, 99):
            old_ms, ours_ms, new_ms = (percentile(taken[peer], rank) for peer in (OLD, *PEERS))
            count = f" of {len(taken[OURS])}"
            context = f"{ours_ms:.2f} ms{count}, 7.0.0 {old_ms:.0f} ms, {self.newest} {new_ms:.0f} ms"
            name = f"wake-up p{rank}, times shorter than redis-message-queue 7"
            yield Figure(name, Spread.of([old_ms / ours_ms]), context=context)

    def memory(self) -> Figure:
        return self._share("memory in flight", self._held_bytes)

    def bytes_sent(self) -> Figure:
        return self._share("bytes sent for claim + ack", self._sent_bytes)

    def idle(self) -> Iterator[Figure]:
        """Count the commands of the client and those that its scripts run: together the load on the server."""
        counted = {peer: self._idle_commands(peer) for peer in (OLD, *PEERS)}
        for kind, kinds in (("client", ("client",)), ("client and script", ("client", "script"))):
            ours, old, new = (sum(counted[peer][each] for each in kinds) / IDLE_S for peer in (OURS, OLD, NEW))
            context = f"{IDLE_S} s observed; 7.0.0 {old:.1f}/s, {self.newest} {new:.1f}/s"
            yield Figure(f"idle RedisMessageQueue consumer, {kind} commands", Spread.of([ours]), "/s", context)

    @contextmanager
    def _hands(self) -> Iterator[list[Hand]]:
        """Yield workers of 7.0.0, RMQ and the newest release; both releases use the same keys, never simultaneously."""
        self.client.flushall()
        with ExitStack() as stack:
            yield [stack.enter_context(self._hand(peer)) for peer in (OLD, *PEERS)]

    def _hand(self, peer: Peer) -> Hand:
        return Hand(peer, self.port, self.server_pid)

    def _figure(self, name: str, laps: dict[str, Laps]) -> Figure:
        old, newest = laps[OLD.name], laps[NEW.name]
        over_newest = f"{newest.ratio.median:.2f} over {self.newest}"
        context = f"{laps[OURS.name].rate}, 7.0.0 {old.shown}; {over_newest}"
        return Figure(name, old.ratio, context=context)

    def _wake_ups(self, wakes: int) -> dict[Peer, list[float]]:
        """Return the milliseconds by library; blocks of all libraries alternate, on cores that the system chooses."""
        taken: dict[Peer, list[float]] = {peer: [] for peer in (OLD, *PEERS)}
        chance = random.Random(7)
        for _ in range(WAKE_BLOCKS):
            for peer in taken:
                count = wakes // WAKE_BLOCKS * (MORE_WAKES if peer is OURS else 1)
                taken[peer] += self._wake_up(peer, count, chance)
        return taken

    def _wake_up(self, peer: Peer, count: int, chance: random.Random) -> list[float]:
        """Return the milliseconds from just before the publish until another process has the message."""
        self.client.flushall()
        taken = []
        with self._hand(peer) as waiter, self._hand(peer) as ringer:
            cores.anywhere(self.server_pid, [0, waiter.process.pid, ringer.process.pid])
            for _ in range(WARM_UPS + count):
                waiter.begin("wait")
                time.sleep(0.02 + 0.25 * chance.random())  # 7.0.0 polls four times a second: a random moment
                began_ns = ringer.do("ring").told
                taken.append((waiter.end().told - began_ns) / 1e6)
        cores.apart(self.server_pid, [0])
        return taken[WARM_UPS:]

    def _share(self, name: str, of: Callable[[Hand], float]) -> Figure:
        sizes = {}
        for peer in (OLD, *PEERS):
            self.client.flushall()
            with self._hand(peer) as hand:
                sizes[peer] = of(hand)
        context = f"{sizes[OURS]:,.0f} B, 7.0.0 {sizes[OLD]:,.0f} B, {self.newest} {sizes[NEW]:,.0f} B a message"
        return Figure(f"{name}, of redis-message-queue 7", Spread.of([sizes[OURS] / sizes[OLD]]), context=context)

    def _held_bytes(self, hand: Hand) -> float:
        hand.do("publish", 1)
        hand.do("process", 1)
        before = self._info("memory", "used_memory")
        hand.do("publish", HELD)
        hand.do("hold", HELD)
        return (self._info("memory", "used_memory") - before) / HELD

    def _sent_bytes(self, hand: Hand) -> float:
        hand.do("publish", CALLS + 1)
        hand.do("process", 1)
        before = self._info("stats", "total_net_input_bytes")
        hand.do("process", CALLS)
        return (self._info("stats", "total_net_input_bytes") - before) / CALLS

    def _idle_commands(self, peer: Peer) -> Counter[str]:
        self.client.flushall()
        with self._hand(peer) as hand:
            hand.begin("idle", IDLE_S + 2)
            time.sleep(1)
            counted = commands_while(self.port, IDLE_S)
            hand.end()
        return counted

    def _info(self, section: str, name: str) -> int:
        return int(self.client.info(section)[name])
