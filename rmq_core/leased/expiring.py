"""Messages that expired while they waited: they are dead letters, which is stated once.

Each script that looks for ready messages first makes dead letters of those that have expired, and keeps their ids. Its
reply only says that there are some. So no reply that gets lost takes a fact along: the ids come in the reply to a call
with a slot, and the client that gets them states them.
"""

from __future__ import annotations

from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settings import fresh
from rmq_core.kernel.settling import without_report
from rmq_core.leased.reclaiming import state_dead
from rmq_core.leased.state import LeasedEngine

OVERDUE = b"~!"
"""What scripts add to the ids of expired leases where messages have expired; no lease has this id."""


def bury(engine: LeasedEngine) -> Exchange[int]:
    """Make dead letters of messages that have expired, and state those that nobody has stated; return how many."""
    found, left = 0, 1
    yield from fresh(engine)  # for max_dead
    while left:
        reply = without_report(engine, (yield script("leased/expire", engine.keys, engine.settings)))
        words = reply.decode().split(" ")
        if words[0] != "expired":
            raise ScriptFailed(f"expire got {words[0]!r}")
        left = int(words[1])
        found += len(words) - 2
        state_dead(engine, None, words[2:], "expired while it waited")
    return found
