"""What the logs of consumers prove: who held which messages when, and whether a queue's policy allowed it.

Processes and servers of a test run on one machine, so the times in the logs and those of the server are of one clock.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests.core.leased.groups import Claims

OF_MESSAGES = {"leases", "grouped", "turns", "suspects", "resting", "held_before", "expiring", "overdue"}


class Record(NamedTuple):
    """A line of a log, as `consumer` writes it; `until_ms` is the deadline of the lease then."""

    verb: str
    fence: int
    at_ms: int
    until_ms: int
    payloads: list[str]


class Held(NamedTuple):
    """A lease as its holder saw it. `claimed_ms` is by the server's clock; `ended` is empty if the holder was killed.

    tried_ms: when the holder was about to settle it, if it came so far; told_ms: when it knew how that went.
    """

    fence: int
    claimed_ms: int
    until_ms: int
    payloads: list[str]
    tried_ms: int | None = None
    ended: str = ""
    told_ms: int = 0

    @property
    def unsure(self) -> bool:
        """Whether only the server knows if it was settled."""
        return self.tried_ms is not None and not self.ended

    @property
    def end_ms(self) -> int:
        """The earliest time at which the lease may have ended."""
        if self.tried_ms is None or self.ended == "stale":
            return self.until_ms
        return self.tried_ms if self.ended in {"acked", "gave"} else min(self.tried_ms, self.until_ms)

    def of(self, group: str) -> list[str]:
        """Return what it held of a group."""
        return [payload for payload in self.payloads if group_of(payload) == group]


def group_of(payload: str) -> str:
    """Return the group of a message, which the tests write in front of its number."""
    return payload.rpartition("/")[0]


def records(folder: Path) -> Iterator[Record]:
    """Return everything that consumers logged."""
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            verb, fence, at_ms, until_ms, *payloads = line.split(" ")
            yield Record(verb, int(fence), int(at_ms), int(until_ms), [payload for payload in payloads if payload])


def leases(told: Iterable[Record], lease_ms: int) -> list[Held]:
    """Return the leases of consumers in the order of their claims, of which each lasted so long at first."""
    found: dict[int, Held] = {}
    for verb, fence, at_ms, until_ms, payloads in told:
        if verb == "did":
            assert fence not in found, "two claims have one fencing number"
            found[fence] = Held(fence, until_ms - lease_ms, until_ms, payloads)
        elif verb == "tries":
            found[fence] = found[fence]._replace(tried_ms=at_ms)
        else:
            found[fence] = found[fence]._replace(ended=verb, told_ms=at_ms)
    return [found[fence] for fence in sorted(found)]


def check_ends(held: Sequence[Held], sent: Collection[str], dead: Sequence[str]) -> None:
    """Every message was acked once, by whoever had it last, or is a dead letter."""
    last: dict[str, Held] = {}
    acks: dict[str, list[int]] = defaultdict(list)
    for lease in held:
        for payload in lease.payloads:
            last[payload] = lease
            if lease.ended == "acked":
                acks[payload].append(lease.fence)
    assert len(dead) == len(set(dead))
    assert not acks.keys() & set(dead), "acked, and a dead letter"
    for payload, fences in acks.items():
        assert fences == [last[payload].fence], f"{payload} was settled by a stale holder"
    lost = set(sent) - acks.keys() - set(dead)
    lost -= {payload for payload in lost if payload in last and last[payload].unsure}
    assert not lost


def check_holders(held: Sequence[Held], most: int) -> None:
    """No group had more holders at once."""
    for group in {group_of(payload) for lease in held for payload in lease.payloads} - {""}:
        times = []
        for lease in held:
            if lease.of(group):
                times += [(lease.claimed_ms, 1), (max(lease.end_ms, lease.claimed_ms), -1)]
        holders = 0
        for at_ms, change in sorted(times):
            holders += change
            assert holders <= most, f"{holders} leases held {group} at {at_ms}"


def check_order(held: Sequence[Held], sent: Iterable[str], gone: Collection[str]) -> None:
    """Each claim got the unfinished messages of an exclusive group from the first on; those that are gone may miss."""
    lines: dict[str, list[str]] = defaultdict(list)
    for payload in sent:
        lines[group_of(payload)].append(payload)
    for group, line in lines.items():
        left, unsure = line, list[str]()
        for lease in held:
            if not (got := lease.of(group)):
                continue
            after = _passed(left, got, gone)
            if after is None and unsure:
                after = _passed([payload for payload in left if payload not in unsure], got, gone)
            assert after is not None, f"{group}: {got} while {left[:9]} waited"
            left = [payload for payload in after if payload not in got] if lease.ended == "acked" else after
            unsure = got if lease.unsure else []


def _passed(left: Sequence[str], got: Iterable[str], gone: Collection[str]) -> list[str] | None:
    """Return what is left without those that are gone in front of what a claim got; None if it got others."""
    rest, found = deque(left), []
    for payload in got:
        while rest and rest[0] != payload and rest[0] in gone:
            rest.popleft()
        if not rest or rest.popleft() != payload:
            return None
        found.append(payload)
    return [*found, *rest]


def check_rates(held: Iterable[Held], rates: Mapping[str, str]) -> None:
    """In no time did claims get more than the rates allow."""
    claims = Claims(**rates)
    for lease in held:
        claims.add(lease.claimed_ms, map(group_of, lease.payloads))
    assert claims.excess() <= 0


def check_nothing_is_left(client: redis.Redis, queue: Any) -> None:
    """No message waits or is held, and nothing is stored that only messages need."""
    assert queue.stats()[:4] == (0, 0, 0, 0)
    prefix = f"rmq:{{{queue.name}}}:"
    names = [name.removeprefix(prefix.encode()).decode(errors="replace") for name in client.scan_iter(f"{prefix}*")]
    left = [name for name in names if name in OF_MESSAGES or name.startswith(("lease:", "holds:", "settled:", "stage"))]
    assert not left, left
    assert {*client.hgetall(f"{prefix}groups")} <= {b"\0"}, "a group has no messages and no holder"
