"""The leased engine as plain Python: what the scripts in `rmq_core/lua/leased` promise, without their machinery.

Time is the only thing that is simplified: a delay never ends and a lease never expires until the test says so, and
then in the order in which it said so. Everything else is told exactly, order and counts included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rmq_core import LeaseAlreadySettled, LeasedConfig, LeaseLost, LeaseOwnedByOther, Overflow
from tests.redis.leased_values import Held, Item, Shape


class Model:
    """A queue with no server, no clock and one user."""

    def __init__(self, config: LeasedConfig) -> None:
        self.config = config
        self.ready: list[Item] = []
        self.delayed: list[Item] = []
        self.due: list[Item] = []
        self.dead: list[Item] = []
        self.completed: list[Shape] = []
        self.failed: list[Shape] = []
        self.held: dict[str, Held] = {}
        self.done: dict[str, tuple[int, str]] = {}
        self.keys: set[str] = set()
        self.paused = False
        self.gone: dict[str, str] = {}
        self._clock = 0

    # Publishing

    def publish(self, keys: Sequence[str | None], *, delayed: bool) -> tuple[list[Item | None], int] | None:
        """One chunk: an item for each accepted message, and how many were dropped for them; None when refused."""
        fresh, taken = [], set(self.keys)
        for key in keys:
            fresh.append(key is None or key not in taken)
            taken |= {key} - {None}
        room = (self.config.max_ready or 1 << 40) - len(self.ready) - len(self.delayed) - len(self.due)
        dropped = max(0, sum(fresh) - room) if sum(fresh) else 0
        if dropped and (self.config.overflow != Overflow.DROP_OLDEST or dropped > len(self.ready)):
            return None
        lost, self.ready = self.ready[:dropped], self.ready[dropped:]
        self._forget(lost, "dropped")
        items = [Item("") if accepted else None for accepted in fresh]
        (self.delayed if delayed else self.ready).extend(item for item in items if item)
        self.keys |= taken
        return items, len(lost)

    def fall_due(self, place: int) -> tuple[str, int]:
        """A delay ends; the message and its place among the due ones."""
        item = self.delayed.pop(place)
        self.due.append(item)
        return item.id, self._tick()

    def _promote(self) -> None:
        self.ready += self.due
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
        if self.paused or not self.ready:
            return None
        before = self.ready[0].deliveries
        limit = max(1, most // 10**before) if before and most > 1 else most
        if before and before + 1 >= (self.config.max_deliveries or 1 << 40):
            limit = 1  # the last delivery is the message's own
        items, self.ready = self.ready[:limit], self.ready[limit:]
        return Held(lease_id or "", owner, items)

    def _take_over(self, held: Held, owner: str, *, counted: bool) -> Held | None:
        most, several = self.config.max_deliveries or 1 << 40, len(held.open) > 1
        if counted and held.items[0].deliveries + held.takeovers + 1 + several >= most:
            return None
        held.takeovers += counted
        held.owner, held.late = owner, None
        return held

    # Settling

    def ack(self, lease_id: str, token: str) -> tuple[int, int]:
        return self._finish(self._holder(lease_id, token)), 0

    def give_back(self, lease_id: str, token: str, verb: str, *, delayed: bool = False) -> tuple[int, int]:
        """Nack or release a whole lease."""
        held = self._holder(lease_id, token)
        return self._return(self._take_away(held), held.takeovers, "nack" if verb == "nack" else "", delayed=delayed)

    def settle(
        self, lease_id: str, token: str, verb: str, indexes: Iterable[int], *, delayed: bool = False
    ) -> dict[int, str]:
        """Settle some messages; what became of each index."""
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
        left = held.items[index]  # the lease keeps its copy as it was
        moved = Item(left.id, left.deliveries, list(left.history))
        _, dead = self._return([moved], held.takeovers, "nack" if verb == "nack" else "", delayed=delayed)
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

    # What happens to messages that come back

    def _late(self) -> list[str]:
        late = [held for held in self.held.values() if held.late is not None]
        return [held.id for held in sorted(late, key=lambda held: held.late or 0)][:16]

    def _reclaim_all(self, late: list[str]) -> int:
        return sum(self._reclaim(lease_id) for lease_id in reversed(late) if self._is_late(lease_id))

    def _is_late(self, lease_id: str) -> bool:
        return lease_id in self.held and self.held[lease_id].late is not None

    def _reclaim(self, lease_id: str) -> int:
        held = self.held[lease_id]
        return self._return(self._take_away(held), held.takeovers, "expired")[0]

    def _return(self, items: list[Item], takeovers: int, entry: str, *, delayed: bool = False) -> tuple[int, int]:
        """Messages go back, the newest first; how many, and how many of them are dead letters now."""
        dead, most = 0, self.config.max_deliveries or 1 << 40
        for item in reversed(items):
            item.deliveries += takeovers + bool(entry)
            item.history += [entry] * bool(entry)
            if entry:
                self._log(self.failed, [item], self.config.failed_log)
            if entry and item.deliveries >= most:
                dead += 1
                self.dead.insert(0, item)
            elif delayed:
                self.delayed.append(item)
            else:
                self.ready.insert(0, item)
        self._forget(self.dead[self.config.max_dead :], "dead for long")
        del self.dead[self.config.max_dead :]
        return len(items), dead

    def backlog(self) -> int:
        late = self._late()
        self._promote()
        while self._reclaim_all(late):
            late = self._late()
        return len(self.ready)

    # What an operator does

    def redrive(self, most: int | None) -> int:
        moved = min(len(self.dead), len(self.dead) if most is None else most)
        for _ in range(moved):
            item = self.dead.pop()
            item.deliveries = 0
            self.ready.append(item)
        return moved

    def cancel(self, message_id: str) -> bool:
        for place in (self.ready, self.delayed, self.due):
            for item in place:
                if item.id == message_id:
                    place.remove(item)
                    self._forget([item], "cancelled")
                    return True
        return False

    def purge(self, target: str) -> int:
        parts = {"ready": [self.ready], "delayed": [self.delayed, self.due], "dead": [self.dead]}[target]
        count = sum(map(len, parts))
        for part in parts:
            self._forget(part, "purged")
            part.clear()
        return count

    # Books

    def living(self) -> list[Item]:
        held = [item for lease in self.held.values() for item in lease.open]
        return [*self.ready, *self.delayed, *self.due, *self.dead, *held]

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
