"""Deterministic scenes: ids and secrets come from counters, and a client can end in the middle of an operation."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Generator
from typing import Any

import pytest

from rmq_core.envelope import codec
from rmq_core.exchange import scripts
from rmq_core.leased import grouping
from rmq_core.leased.shards import resharding, state


class Counted:
    """Nonces in order; the first 13 digits, of which deduplication keeps a number, differ too."""

    def __init__(self, end: str) -> None:
        self._numbers, self._end = itertools.count(1), end

    def pop(self) -> str:
        return f"{next(self._numbers):013x}{self._end}"


def fix_ids(patch: pytest.MonkeyPatch) -> None:
    """Let this process make ids and secrets by counting."""
    patch.setattr(codec, "_prefix", "0123456789abcdef")
    patch.setattr(codec, "_counter", itertools.count())
    patch.setattr(codec, "_leases", itertools.count(1))
    patch.setattr(codec, "_nonces", Counted("abc"))
    patch.setattr(scripts, "nonce", Counted("def").pop)
    for module in (grouping, resharding):
        patch.setattr(module, "version", lambda _: "1.2.3")  # else each release would write another file
    patch.setattr(state, "randrange", lambda _: 0)  # the shard with which a client begins
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))


def begin(queue: Any, exchange: Generator[Any, Any, Any], requests: int) -> None:
    """Send the first requests of an operation, and then let its process end."""

    def part() -> Generator[Any, Any, None]:
        want = next(exchange)
        for _ in range(requests):
            want = exchange.send((yield want))

    queue._driver.run(part())
    exchange.close()
    if hasattr(queue._engine, "unanswered"):
        queue._engine.unanswered.clear()  # a dead process releases nothing when it closes
