"""A custom gateway as a user writes it: it keeps its messages in memory, and a test can replace each of its methods."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from rmq_core.redis_message_queue import ClaimedMessage
from tests.core.redis_message_queue.worlds import World

VERBS = (
    "publish_message", "add_message", "move_message", "remove_message", "renew_message_lease",
    "wait_for_message_and_move", "trim_queue",
)  # fmt: skip


class Shelf:
    """Lists in memory; a claim is a token."""

    def __init__(self, *, leases: bool) -> None:
        self.leases = leases
        self.lists: dict[str, list[str]] = defaultdict(list)
        self.seen: set[str] = set()
        self.tokens: dict[str, str] = {}
        self.calls: list[str] = []
        self._numbers = itertools.count(1)

    def publish_message(self, queue: str, message: str, dedup_key: str) -> bool:
        if dedup_key in self.seen:
            return False
        self.seen.add(dedup_key)
        self.lists[queue].insert(0, message)
        return True

    def add_message(self, queue: str, message: str) -> None:
        self.lists[queue].insert(0, message)

    def wait_for_message_and_move(self, from_queue: str, to_queue: str) -> ClaimedMessage | str | None:
        if not self.lists[from_queue]:
            return None
        message = self.lists[from_queue].pop()
        self.lists[to_queue].insert(0, message)
        if not self.leases:
            return message
        self.tokens[message] = f"token {next(self._numbers)}"
        return ClaimedMessage(stored_message=message, lease_token=self.tokens[message])

    def remove_message(self, queue: str, message: str, *, lease_token: str | None = None) -> bool:
        if self.leases and self.tokens.get(message) != lease_token:
            return False
        if message not in self.lists[queue]:
            return False
        self.lists[queue].remove(message)
        return True

    def move_message(self, from_queue: str, to_queue: str, message: str, *, lease_token: str | None = None) -> bool:
        if not self.remove_message(from_queue, message, lease_token=lease_token):
            return False
        self.lists[to_queue].insert(0, message)
        return True

    def renew_message_lease(self, queue: str, message: str, lease_token: str, *, is_interrupted: Any = None) -> bool:
        return message in self.lists[queue] and self.tokens.get(message) == lease_token

    def trim_queue(self, queue: str, max_length: int) -> None:
        del self.lists[queue][max_length:]


def foreign(world: World, *, timeout_s: int | None = 300, **replaced: Callable[..., Any]) -> tuple[Any, Shelf]:
    """Return a gateway for this world with its store; `replaced` methods are called instead of those of the store."""
    shelf = Shelf(leases=timeout_s is not None)
    verbs = {verb: _verb(world, verb, replaced.get(verb) or getattr(shelf, verb), shelf) for verb in VERBS}
    members = {**verbs, "message_visibility_timeout_seconds": timeout_s}
    made = type("ForeignGateway", (world.module.AbstractRedisGateway,), members)
    return world.call(made), shelf


def _verb(world: World, name: str, function: Callable[..., Any], shelf: Shelf) -> Callable[..., Any]:
    def call(_: Any, *args: Any, **options: Any) -> Any:
        shelf.calls.append(name)
        return function(*args, **options)

    async def call_later(_: Any, *args: Any, **options: Any) -> Any:
        return call(_, *args, **options)

    return call if world.flavour == "sync" else call_later
