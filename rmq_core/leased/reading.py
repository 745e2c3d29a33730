"""Reads the messages of a lease: a few by a script, and many by plain commands, which cost the server a fifth of it.

The script converts each message for Lua and back, which takes four fifths of its time. So many messages of a held lease
are read by one write, without MULTI: GETRANGE of the bitmap, LRANGE of the messages, LINDEX of the head.

- A token that was replaced never becomes valid again. So a head that has the holder's token after the messages were
  read had it all the time. While a token is valid, messages leave a lease only at its end. So if all were read, all of
  them were in the lease when the bitmap was read, and the reply is what the lease was at that moment. Otherwise the
  script decides: the lease is lost, or its holder is returning it.
- LRANGE does not limit bytes as the script does. So plain commands are used only while no message seen was large, and
  those in the lease are, on average, about as long as those seen. MEMORY USAGE knows the average. It is too low where
  Redis compresses lists, and not to be had where an ACL denies it: then the script reads all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from rmq_core.exchange import Call, Command, Exchange, Pipeline
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease, Sizes, token_of
from rmq_core.policy import whole

R = TypeVar("R")
_FEW, _MANY, _MOST_PLAIN = 1000, 4000, 8000
"""How many messages are few; and how many one request reads at most: by the script, and by plain commands."""
_SAMPLE = 64
_LARGE, _MOST, _HUGE = 16 << 10, 8 << 20, 1 << 30
"""Bytes: of a message that plain commands do not read; of a reply; of a lease in which LRANGE takes long to begin."""


class Part(NamedTuple):
    """The unsettled messages of a lease in one reply; `taken` also counts the settled messages among them."""

    takeovers: int
    indexes: Sequence[int]
    envelopes: Sequence[bytes]
    taken: int


def held_parts(
    engine: LeasedEngine, lease: Lease, lo: int, hi: int | None, take: Callable[[Part], R]
) -> Exchange[list[R]]:
    """Return what `take` makes of the messages `lo` to `hi` (exclusive) of a held lease, reply by reply.

    So the envelopes of one reply are free before the next one comes. Raises LeaseLost.
    """
    last = lease.count if hi is None else min(whole("hi", hi), lease.count)
    token_of(lease)  # raises for a lease without a token
    taken = yield from _parts(partial(_held_part, engine, lease), whole("lo", lo), last, take)
    if taken is None:
        raise engine.lost(lease)
    return taken


def any_parts(engine: LeasedEngine, lease_id: str, lo: int, hi: int, take: Callable[[Part], R]) -> Exchange[list[R]]:
    """Return what `take` makes of these messages, whichever process holds the lease; [] if there is no such lease."""
    return (yield from _parts(partial(any_part, engine, lease_id), lo, hi, take)) or []


def any_part(engine: LeasedEngine, lease_id: str, lo: int, hi: int) -> Exchange[Part | None]:
    """Return those of these messages that fit into one reply, from the first on; None if there is no such lease."""
    return _part((yield read_call(engine.keys, lease_id, "", lo, hi)), lo)


def read_call(keys: LeasedKeys, lease_id: str, token: str, lo: int, hi: int) -> Call:
    """Return the call of the script that reads messages; without a token it reads those of any holder."""
    return script(
        "leased/read", lease=keys.lease(lease_id), settled=keys.settled(lease_id), token=token,
        first=lo, last=min(hi, lo + _MANY) - 1,
    )  # fmt: skip


def _parts(
    step: Callable[[int, int], Exchange[Part | None]], lo: int, hi: int, take: Callable[[Part], R]
) -> Exchange[list[R] | None]:
    found: list[R] = []
    while lo < hi:
        part = yield from step(lo, hi)
        if part is None:
            return None
        if not part.taken:
            break
        found.append(take(part))
        lo += part.taken
    return found


def _held_part(engine: LeasedEngine, lease: Lease, lo: int, hi: int) -> Exchange[Part | None]:
    """Return the first of these messages that one reply holds; None if the lease is lost."""
    if most := _at_once(lease):
        part = yield from _plain_part(engine, lease, lo, min(hi, lo + most))
        if part is not None:
            return part
    elif lease.state.sizes is None and lease.count > _FEW:
        return (yield from _measured_part(engine, lease, lo, hi if hi - lo <= _FEW else lo + _SAMPLE))
    reply = yield read_call(engine.keys, lease.id, token_of(lease), lo, hi)
    _measure(lease, reply[4])
    return _part(reply, lo)


def _at_once(lease: Lease) -> int:
    """Return how many messages plain commands may read at once: 0 if only the script may read."""
    sizes = lease.state.sizes
    if sizes is None or sizes.longest > _LARGE:
        return 0
    usual = sizes.total / sizes.seen
    if not 0.9 * usual <= sizes.average <= 1.5 * usual:
        return 0
    return min(_FEW if sizes.average * lease.count > _HUGE else _MOST_PLAIN, int(_MOST / sizes.average))


def _measured_part(engine: LeasedEngine, lease: Lease, lo: int, hi: int) -> Exchange[Part | None]:
    """Read by the script, and ask in the same write how long the messages of the lease are on average."""
    keys = engine.keys
    memory = Command(("MEMORY", "USAGE", keys.lease(lease.id), "SAMPLES", 0))
    reply, taken = yield Pipeline((read_call(keys, lease.id, token_of(lease), lo, hi), memory))
    if isinstance(reply, Exception):
        raise reply
    if reply[4]:
        lease.state.sizes = Sizes(0, 0, 0, taken / lease.count if isinstance(taken, int) else 0.0)
        _measure(lease, reply[4])
    return _part(reply, lo)


def _plain_part(engine: LeasedEngine, lease: Lease, lo: int, hi: int) -> Exchange[Part | None]:
    """Read by plain commands; return None for any reply that does not prove that these messages are held."""
    key, token = engine.keys.lease(lease.id), token_of(lease).encode()
    settled = engine.keys.settled(lease.id)
    bits, envelopes, head = yield Pipeline(
        (
            Command(("GETRANGE", settled, lo // 8, (hi - 1) // 8)),
            Command(("LRANGE", key, lo + 1, hi)),
            Command(("LINDEX", key, 0)),
        )
    )
    if isinstance(bits, Exception) or isinstance(envelopes, Exception) or len(envelopes) != hi - lo:
        return None
    if not isinstance(head, bytes) or not head.startswith(token + b" "):
        return None
    _measure(lease, envelopes)
    return _part((b"read", int(head.split(b" ", 4)[3]), lo // 8, bits, envelopes), lo)


def _measure(lease: Lease, envelopes: Sequence[bytes]) -> None:
    if envelopes and (sizes := lease.state.sizes):
        lengths = list(map(len, envelopes))
        most = max(lengths)
        seen, total, longest, average = sizes
        lease.state.sizes = Sizes(seen + len(lengths), total + sum(lengths), max(longest, most), average)


def _part(reply: Sequence[Any], lo: int) -> Part | None:
    """Return what a reply of the script, or one in its form, contains; None if there is no such lease."""
    verdict, takeovers, first, bits, envelopes = reply
    if verdict != b"read":
        return None
    if not bits:
        return Part(takeovers, range(lo, lo + len(envelopes)), envelopes, len(envelopes))
    kept = _unsettled(bits, lo - first * 8, len(envelopes))
    return Part(takeovers, [lo + at for at in kept], [envelopes[at] for at in kept], len(envelopes))


def _unsettled(bits: bytes, skip: int, count: int) -> list[int]:
    """Return the positions below `count` whose bit is not set in a bitmap, ignoring the first `skip` bits."""
    settled, size = int.from_bytes(bits, "big"), len(bits) * 8
    return [place for place in range(count) if (at := size - 1 - skip - place) < 0 or not settled >> at & 1]
