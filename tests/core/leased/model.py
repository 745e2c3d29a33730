"""The leased engine as plain Python: what the scripts in `rmq_core/leased` promise, without their machinery.

Time is the only thing that is simplified: a delay never ends and a lease never expires until the test says so, and
then in the order in which it said so. Everything else is told exactly, order and counts included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeaseLost, LeaseOwnedByOther, Overflow
from tests.core.leased.values import NO_MARK, Held, Item, Mark, Shape


class Model:
    """A queue with no server, no clock and one user."""

    def __init__(self, config: LeasedConfig) -> None:
        self.config = config
        self.ready: list[Item] = []
        self.delayed: list[Item] = []
        self.due: list[Item] = []
        self.isolated: list[Item] = []
        self.claimed: list[str] = []
        self.isolated_now: Callable[[], set[str]] = set
        self.dead: list[Item] = []
        self.completed: list[Shape] = []
        self.failed: list[Shape] = []
        self.held: dict[str, Held] = {}
        self.done: dict[str, tuple[int, str]] = {}
        self.keys: set[str] = set()
        self.paused = False
        self.gone: dict[str, str] = {}
        self._clock = self._fence = 0

    # Publishing

    def publish(self, keys: Sequence[str | None], *, delayed: bool) -> tuple[list[Item | None], int] | None:
        """Publish one chunk; return an item for each accepted message and the number of drops, or None when refused."""
        fresh, taken = [], set(self.keys)
        for key in keys:
            fresh.append(key is None or key not in taken)
            taken |= {key} - {None}
        room = (
            (self.config.max_ready or 1 << 40)
            - len(self.ready)
            - len(self.delayed)
            - len(self.due)
            - len(self.isolated)
        )
        dropped = max(0, sum(fresh) - room) if sum(fresh) else 0
        claimable = len(self.isolated) + len(self.ready)
        if dropped and (self.config.overflow != Overflow.DROP_OLDEST or dropped > claimable):
            return None
        lost = self._drop_isolated(min(dropped, len(self.isolated))) if dropped else []
        more = dropped - len(lost)
        lost, self.ready = lost + self.ready[:more], self.ready[more:]
        self._forget(lost, "dropped")
        items = [Item("") if accepted else None for accepted in fresh]
        (self.delayed if delayed else self.ready).extend(item for item in items if item)
        self.keys |= taken
        return items, len(lost)

    def _drop_isolated(self, count: int) -> list[Item]:
        """Return isolated messages to drop, of those that failed first; the queue has chosen which of a group."""
        kept = self.isolated_now()
        lost = [item for item in self.isolated if item.id not in kept]
        self.isolated = [item for item in self.isolated if item.id in kept]
        assert len(lost) == count
        assert not lost or max(item.group for item in lost) <= min(
            (item.group for item in self.isolated), default=1 << 60
        )
        return lost

    def fall_due(self, place: int) -> tuple[str, int]:
        """End a delay; return the message and its position among the due ones."""
        item = self.delayed.pop(place)
        self.due.append(item)
        return item.id, self._tick()

    def _promote(self) -> None:
        self.ready += [item for item in self.due if not item.group]
        self.isolated += [item for item in self.due if item.group]
        self.due = []

    # Claiming

    def claim(self, lease_id: str | None, owner: str, most: int) -> Held | None:
        while True:
            late = self._late()
            if lease_id in self.held:
                taken = self._take_over(self.held[lease_id], owner, counted=True)
                if taken is None:
                    self._reclaim(lease_id)
                    continue
                self._reclaim_all(late)
                return taken
            if lease_id in self.done:
                raise LeaseAlreadySettled(lease_id, self.done[lease_id][0])
            granted = self._open(lease_id, owner, most)
            self._reclaim_all(late)
            if granted or not late:
                return granted

    def claim_next(self, lease_id: str, token: str, most: int) -> Held | None:
        owner = self._holder(lease_id, token).owner
        late = self._late()
        self._finish(self.held[lease_id])
        granted = self._open(None, owner, most)
        self._reclaim_all(late)
        return self.claim(None, owner, most) if granted is None and late else granted

    def adopt(self, lease_id: str, owner: str | None, if_owner: str | None) -> Held:
        held = self.held.get(lease_id)
        if held is None:
            if lease_id in self.done:
                raise LeaseAlreadySettled(lease_id, self.done[lease_id][0])
            raise LeaseLost(lease_id)
        if if_owner is not None and held.owner != if_owner:
            raise LeaseOwnedByOther(lease_id)
        taken = self._take_over(held, held.owner if owner is None else owner, counted=owner not in {None, held.owner})
        if taken is None:
            self._reclaim(lease_id)
            raise LeaseLost(lease_id)
        return taken

    def _open(self, lease_id: str | None, owner: str, most: int) -> Held | None:
        self._promote()
        if self.paused or not self.ready + self.isolated:
            return None
        if self.isolated and (not self.ready or self._is_turn_of_isolated()):
            items = self._piece(most)
        else:
            items, self.ready = self.ready[:most], self.ready[most:]
        return Held(lease_id or "", owner, items, fence=self._next_fence(1))

    def _piece(self, most: int) -> list[Item]:
        """Return as many of the group that failed first as a claim may take; the queue has chosen which of them."""
        group = min(item.group for item in self.isolated)
        members = {item.id: item for item in self.isolated if item.group == group}
        (bound,) = {item.mark[2] for item in members.values()}
        items = [members[message_id] for message_id in self.claimed]
        assert len(items) == min(most, bound, len(members))
        self.isolated = [item for item in self.isolated if item not in items]
        return items

    def _is_turn_of_isolated(self) -> bool:
        """One of two consecutive claims is for isolated messages; which of the two varies."""
        return (self._fence % 2 == 0) != (self._fence // 2 * 0.618 % 1 < 0.5)

    def _next_fence(self, step: int) -> int:
        self._fence += step
        return self._fence

    def _take_over(self, held: Held, owner: str, *, counted: bool) -> Held | None:
        before = 1 if len(held.items) > 1 else held.items[0].blamed
        if counted and before + held.takeovers + 1 >= (self.config.max_deliveries or 1 << 40):
            return None
        held.fence = self._next_fence(2)
        held.takeovers += counted
        held.owner, held.late = owner, None
        return held

    # Settling

    def ack(self, lease_id: str, token: str) -> tuple[int, int]:
        return self._finish(self._holder(lease_id, token)), 0

    def give_back(self, lease_id: str, token: str, verb: str, *, delayed: bool = False) -> tuple[int, int]:
        """Nack or release a whole lease."""
        held = self._holder(lease_id, token)
        if verb == "nack":
            return self._fail_all(held, "nack", delayed=delayed)
        return self._release(self._take_away(held), held), 0

    def settle(
        self, lease_id: str, token: str, verb: str, indexes: Iterable[int], *, delayed: bool = False
    ) -> dict[int, str]:
        """Settle some messages; return the outcome of each index."""
        held, outcomes = self.held.get(lease_id), dict.fromkeys(indexes, "lost")
        if held is None or held.token != token:
            return outcomes
        for index in sorted(outcomes, reverse=True):
            outcomes[index] = self._settle_one(held, verb, index, delayed=delayed)
        if len(held.settled) >= len(held.items):
            del self.held[lease_id]
            self._record(held, whole=False)
        return outcomes

    def extend(self, lease_id: str, token: str) -> None:
        self._holder(lease_id, token).late = None

    def expire(self, held: Held) -> int:
        held.late = self._tick()
        return held.late

    def _settle_one(self, held: Held, verb: str, index: int, *, delayed: bool) -> str:
        if index >= len(held.items):
            return "missing"
        if index in held.settled:
            return "settled before"
        held.settled.add(index)
        if verb == "ack":
            self._log(self.completed, [held.items[index]], self.config.completed_log)
            self._forget([held.items[index]], "acked")
            return "settled"
        held.returned += 1
        left = held.items[index]  # the lease keeps its unchanged copy
        moved = Item(left.id, left.deliveries, list(left.history), left.mark)
        if verb == "release":
            self._release([moved], held)
            return "settled"
        shared = held.takeovers if len(held.items) > 1 else 0
        dead = self._fail([moved], held, "nack", (1, shared, 2 * held.fence), delayed=delayed)
        return "dead" if dead else "settled"

    def _finish(self, held: Held) -> int:
        items = self._take_away(held)
        self._log(self.completed, items, self.config.completed_log)
        self._forget(items, "acked")
        self._record(held, whole=True)
        return len(items)

    def _record(self, held: Held, *, whole: bool) -> None:
        if (whole or not held.returned) and not held.id.startswith("~"):
            self.done[held.id] = len(held.items) - held.returned, held.owner

    # What happens to returned messages

    def _late(self) -> list[str]:
        late = [held for held in self.held.values() if held.late is not None]
        return [held.id for held in sorted(late, key=lambda held: held.late or 0)][:16]

    def _reclaim_all(self, late: list[str]) -> int:
        return sum(self._reclaim(lease_id) for lease_id in reversed(late) if self._is_late(lease_id))

    def _is_late(self, lease_id: str) -> bool:
        return lease_id in self.held and self.held[lease_id].late is not None

    def _reclaim(self, lease_id: str) -> int:
        held = self.held[lease_id]
        held.fence = self._next_fence(2)
        return self._fail_all(held, "expired")[0]

    def _fail_all(self, held: Held, entry: str, *, delayed: bool = False) -> tuple[int, int]:
        """Fail a lease; return how many messages that concerns, and how many of them are dead letters now."""
        items = self._take_away(held)
        shared = held.takeovers + (len(items) > 1) if len(held.items) > 1 else 0
        return len(items), self._fail(items, held, entry, (len(items), shared, 2 * held.fence + 1), delayed=delayed)

    def _fail(
        self, items: list[Item], held: Held, entry: str, how: tuple[int, int, int], *, delayed: bool = False
    ) -> int:
        """Messages have failed, `how` many together, with how much blame shared, as which group; the dead ones."""
        (together, shared, group), dead, most = how, 0, self.config.max_deliveries or 1 << 40
        for item in reversed(items):
            item.deliveries += held.takeovers + 1
            item.history.append(entry)
            item.mark = _failed(item.mark, together, shared, group)
            self._log(self.failed, [item], self.config.failed_log)
            if most == 1 or (together == 1 and item.blamed >= most):
                dead += 1
                self.dead.insert(0, item)
            else:
                self._give_back(item, delayed=delayed)
        self._forget(self.dead[self.config.max_dead :], "dead for long")
        del self.dead[self.config.max_dead :]
        return dead

    def _release(self, items: list[Item], held: Held) -> int:
        """Return messages to the queue unchanged, the newest first; return how many."""
        for item in reversed(items):
            item.deliveries += held.takeovers if len(held.items) == 1 else 0
            self._give_back(item, delayed=False)
        return len(items)

    def _give_back(self, item: Item, *, delayed: bool) -> None:
        if delayed:
            self.delayed.append(item)
        elif item.group:
            self.isolated.append(item)
        else:
            self.ready.insert(0, item)

    def backlog(self) -> int:
        late = self._late()
        self._promote()
        while self._reclaim_all(late):
            late = self._late()
        return len(self.ready) + len(self.isolated)

    # Operations of an operator

    def redrive(self, most: int | None) -> int:
        moved = min(len(self.dead), len(self.dead) if most is None else most)
        for _ in range(moved):
            item = self.dead.pop()
            item.deliveries, item.mark = 0, NO_MARK
            self.ready.append(item)
        return moved

    def cancel(self, message_id: str) -> bool:
        for place in (self.ready, self.delayed, self.due, self.isolated):
            for item in place:
                if item.id == message_id:
                    place.remove(item)
                    self._forget([item], "cancelled")
                    return True
        return False

    def purge(self, target: str) -> int:
        parts = {
            "ready": [self.ready, self.isolated],
            "isolated": [self.isolated],
            "delayed": [self.delayed, self.due],
            "dead": [self.dead],
        }[target]
        count = sum(map(len, parts))
        for part in parts:
            self._forget(part, "purged")
            part.clear()
        return count

    # Bookkeeping

    def living(self) -> list[Item]:
        held = [item for lease in self.held.values() for item in lease.open]
        return [*self.ready, *self.isolated, *self.delayed, *self.due, *self.dead, *held]

    def _holder(self, lease_id: str, token: str) -> Held:
        held = self.held.get(lease_id)
        if held is None or held.token != token:
            raise LeaseLost(lease_id)
        return held

    def _take_away(self, held: Held) -> list[Item]:
        del self.held[held.id]
        return held.open

    def _log(self, log: list[Shape], items: list[Item], cap: int) -> None:
        for item in items:
            log.insert(0, item.shape)
        del log[cap:]

    def _forget(self, items: Iterable[Item], reason: str) -> None:
        for item in items:
            assert item.id not in self.gone, (item.id, reason, self.gone[item.id])
            self.gone[item.id] = reason

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def _failed(mark: Mark, together: int, shared: int, group: int) -> Mark:
    """Return the mark of a message after a failure."""
    failures, own, most, before = mark
    if together > 1:
        failures += 1
        if failures > 1:
            own, most = group, -(-together // 2)
    elif own:
        own, most = group, 1
    return failures, own, most, before + shared
