"""The journal of an engine that several calls use at once."""

from __future__ import annotations

import json
from typing import Any

from rmq_core.leased.publishing import publish
from rmq_core.leased.settling import ack, nack
from rmq_core.observe.fact import Invocation
from rmq_core.observe.journal import journaled
from tests.core.by_hand import drive, step
from tests.core.leased.by_hand import engine, given, held, scripts


def entries(call: Any) -> list[dict[str, str]]:
    (lines,) = given(call, "entries")
    return [dict(zip(parts[::2], parts[1::2], strict=True)) for parts in map(json.loads, lines)]


def test_calls_that_run_at_once_write_their_own_facts_only() -> None:
    shared = engine(journal=100)
    one, other = (
        journaled(Invocation.exchange, Invocation(shared, verb.__name__, verb, (held(2, lease_id=lease_id),), {}))
        for verb, lease_id in ((ack, "one"), (nack, "other"))
    )
    assert scripts([next(one), next(other)]) == ["ack", "give_back"]
    first = step(one, b"acked 2")
    second = step(other, b"returned 2 0 m0 m1")
    assert [(each["e"], each["l"]) for each in entries(first)] == [("acked", "one")]
    assert [(each["e"], each["l"], each.get("i")) for each in entries(second)] == [
        ("nacked", "other", None),
        ("dead", "other", "m0 m1"),
    ]


def test_a_queue_that_keeps_a_journal_registers_its_name_once() -> None:
    shared = engine(journal=100, registered=False)
    replies = [1, b"accepted 0", None]
    for _ in range(2):
        drive(journaled(Invocation.exchange, Invocation(shared, "publish", publish, ("x",), {})), replies)
        replies = [b"accepted 0", None]
    assert shared.registered
