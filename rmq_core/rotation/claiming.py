"""Pop ids: rotate the list until ids that are new or late appear, at most once around."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from rmq_core.envelope.codec import anonymous_lease_id, nonce
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Exchange, Wait
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.publishing import refuse_groups
from rmq_core.kernel.registry import ready
from rmq_core.messages import Lease
from rmq_core.policy import milliseconds, whole
from rmq_core.protocol import LARGE, lacking
from rmq_core.rotation.state import DISCIPLINE, RotationEngine, envelope, id_text

_MOST = 1000


class Popped(NamedTuple):
    """The result of a pop: the stamp that all its ids got, and each id with whether it was late."""

    stamp: str
    ids: list[tuple[bytes, bool]]


def safe_pop(engine: RotationEngine, wait: timedelta | float = 0) -> Exchange[str | None]:
    """Pop and stamp the next id that is new or late; return None if none comes within `wait` (seconds or timedelta)."""
    popped = yield from _pop(engine, 1, milliseconds("wait", wait))
    return None if popped is None else id_text(popped.ids[0][0])


def claim(
    engine: RotationEngine,
    *,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    lease_id: str | None = None,
    owner: str | None = None,
    groups: Collection[str] | None = None,
) -> Exchange[Lease | None]:
    """Pop up to `max_messages` ids, at most 1,000 at once; return None when there are none within `wait`.

    They are held for the timeout of the queue's config. Raises Unsupported for a `lease` of another length, for a
    `lease_id` and for more than 4,000 messages. owner: only recorded in the lease.
    """
    refuse_groups(DISCIPLINE, groups)
    if lease_id is not None:
        raise lacking(DISCIPLINE, "takeover", "lease_id")
    if lease is not None:
        raise lacking(DISCIPLINE, "extend", "lease time per claim (set `timeout` in its config)")
    if whole("max_messages", max_messages, minimum=1) > LARGE:
        raise lacking(DISCIPLINE, "large_leases", f"leases of more than {LARGE} messages")
    wait_ms, most = milliseconds("wait", wait), min(max_messages, _MOST)
    owned = check_name("owner", owner) if owner else ""
    popped = yield from _pop(engine, most, wait_ms)
    if popped is None:
        return None
    deadline_ms = (int(popped.stamp) + engine.config.timeout_s + 1) * 1000
    envelopes = [envelope(data, late=late) for data, late in popped.ids]
    return Lease(
        engine.name, anonymous_lease_id(), owned, len(envelopes), deadline_ms, popped.stamp, envelopes=envelopes
    )


def _pop(engine: RotationEngine, most: int, wait_ms: int) -> Exchange[Popped | None]:
    yield from ready(engine, DISCIPLINE)
    keys, waiter = engine.keys, f"w{nonce()}" if wait_ms else ""
    left = block = until = 0
    while True:
        call = script(
            "rotation/pop", keys, timeout_s=engine.config.timeout_s, max_messages=most, most=left, waiter=waiter,
            wait_ms=wait_ms, wait_end=until,
        )  # fmt: skip
        reply = yield Wait(keys.wake, block, call) if block else call
        words = reply.split(b" ", 5)
        if len(words) != 6:
            raise ScriptFailed(f"pop got {reply!r}")
        left, block, until = int(words[1]), int(words[2]), int(words[3])
        if words[4]:
            return Popped(
                words[0].decode(), list(zip(_ids(words[5]), [flag == ord("l") for flag in words[4]], strict=True))
            )
        if not left and not block:
            return None


def _ids(text: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(text):
        colon = text.index(b":", at)
        at = colon + 1 + int(text[at:colon])
        found.append(text[colon + 1 : at])
    return found
