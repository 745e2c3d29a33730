"""Claims jobs under a lease: new leases, takeovers, adoption, and waiting for jobs without polling."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from rmq_core.envelope.codec import anonymous_lease_id, nonce
from rmq_core.errors import ConfigurationError, LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther
from rmq_core.events import Operation
from rmq_core.exchange import Call, Exchange, Listen
from rmq_core.exchange.scripts import script
from rmq_core.jobs.inspecting import fetch
from rmq_core.jobs.reclaiming import reclaim, reclaim_all
from rmq_core.jobs.state import GROUP, JobsEngine, check_text, grouped, refused
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.publishing import refuse_groups
from rmq_core.kernel.settling import lost
from rmq_core.messages import Lease, token_of
from rmq_core.policy import milliseconds, whole

_INLINE = 4000
_LONGEST_MS = 5000


class JobsRequest(NamedTuple):
    """The validated arguments of a claim."""

    id: str
    nonce: str
    lease_ms: int
    max_messages: int
    owner: str


def claim(
    engine: JobsEngine,
    *,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    lease_id: str | None = None,
    owner: str | None = None,
    groups: Collection[str] | None = None,
) -> Exchange[Lease | None]:
    """Take the oldest ready jobs under a lease; return None when there are none within `wait`.

    lease, wait: seconds or timedelta. A lease that exists under `lease_id` is taken over: its jobs get a new token, its
    former holder is fenced off, one more attempt is counted. Raises LeaseAlreadySettled when that id was acked whole.
    """
    refuse_groups("jobs", groups)
    wait_ms, until = milliseconds("wait", wait), 0
    request = _request(engine, max_messages, lease, lease_id, owner)
    while True:
        reply = yield from grouped(engine, lambda: _call(engine, request))
        words, late = reply[0].decode().split(" "), reply[1]
        if words[0] in {"claimed", "taken"}:
            return (yield from _hand_over(engine, request, reply))
        if words[0] == "settled":
            raise LeaseAlreadySettled(request.id, int(words[1]))
        if words[0] == "exhausted":
            yield from reclaim(engine, request.id, used_up=True)
            continue
        if words[0] != "empty":
            raise refused("claim", reply[0])
        now, due = int(words[1]), int(words[2])
        until = until or now + wait_ms
        if (yield from reclaim_all(engine, late)):
            continue
        if now >= until:
            return None
        block = max(1, min(until - now, _LONGEST_MS, due - now if due else _LONGEST_MS))
        yield Listen(("XREAD", "COUNT", 1, "BLOCK", block, "STREAMS", engine.keys.ready, words[3]), block)


def adopt(
    engine: JobsEngine,
    lease_id: str,
    *,
    owner: str | None = None,
    if_owner: str | None = None,
    lease: timedelta | float | None = None,
) -> Exchange[Lease]:
    """Take a lease over by its id alone; its former holder is fenced off.

    owner: the new owner; None keeps the recorded one. With the same owner, the call is a hand-over and counts no
    attempt. if_owner: adopt the lease only from that owner, else raise LeaseOwnedByOther. Raises LeaseLost when there
    is no such lease, LeaseAlreadySettled when it was acked whole.
    """
    keys = engine.keys
    expected = {} if if_owner is None else {"if_owner": check_text("if_owner", if_owner)}
    call = script(
        "jobs/adopt", keys, done=keys.done(check_name("lease_id", lease_id)), lease_id=lease_id, nonce=nonce(),
        lease_ms=engine.lease_ms(lease), owner=check_text("owner", owner), **expected,
    )  # fmt: skip
    words = (yield call).decode().split(" ")
    if words[0] == "taken":
        held = _lease(engine, lease_id, words[1:4], " ".join(words[5:]), int(words[4]))
        engine.state(Operation.TAKEOVER, held.count, held)
        return held
    if words[0] == "settled":
        raise LeaseAlreadySettled(lease_id, int(words[1]))
    if words[0] == "owned":
        raise LeaseOwnedByOther(lease_id, f"it is owned by {' '.join(words[1:])!r}, not by {if_owner!r}")
    raise LeaseLost(lease_id, "there is no lease of this id")


def _hand_over(engine: JobsEngine, request: JobsRequest, reply: list[list[bytes]]) -> Exchange[Lease]:
    words, late, envelopes = reply[0].decode().split(" "), reply[1], reply[2]  # type: ignore[attr-defined]
    taken = words[0] == "taken"
    owner = " ".join(words[5:]) if taken else request.owner
    held = _lease(engine, request.id, words[1:4], owner, int(words[4]) if taken else 0)
    yield from reclaim_all(engine, late)
    if not taken and words[4] == "1":
        held = yield from _fill(engine, held, request.max_messages)
    if held.count == len(envelopes):
        held = replace(held, envelopes=envelopes)
    elif held.count <= _INLINE:
        held = yield from fetch(engine, held)
    engine.state(Operation.TAKEOVER if taken else Operation.CLAIM, held.count, held, lease_ms=request.lease_ms)
    return held


def _fill(engine: JobsEngine, held: Lease, limit: int) -> Exchange[Lease]:
    """Move more jobs into a lease, chunk by chunk, until it has `limit` jobs or no job is ready."""
    keys, count, token = engine.keys, held.count, token_of(held)
    while count < limit:
        reply = yield script(
            "jobs/fill", keys, lease=keys.lease(held.id), group=GROUP, native=engine.flag, lease_id=held.id,
            token=token, most=limit - count, stale_ms=engine.own_lease_ms,
        )  # fmt: skip
        word, _, moved = reply.decode().partition(" ")
        if word != "moved":
            raise lost(held) if word == "lost" else refused("fill", reply)
        if moved == "0":
            break
        count += int(moved)
    return replace(held, count=count)


def _request(
    engine: JobsEngine, max_messages: int, lease: timedelta | float | None, lease_id: str | None, owner: str | None
) -> JobsRequest:
    whole("max_messages", max_messages, minimum=1)
    if lease_id is not None and check_name("lease_id", lease_id).startswith("~"):
        raise ConfigurationError("lease_id must not begin with '~': such ids are made by the queue")
    held = anonymous_lease_id() if lease_id is None else lease_id
    return JobsRequest(held, nonce(), engine.lease_ms(lease), max_messages, check_text("owner", owner))


def _call(engine: JobsEngine, request: JobsRequest) -> Call:
    keys = engine.keys
    return script(
        "jobs/claim", keys, engine.settings, lease=keys.lease(request.id), done=keys.done(request.id), group=GROUP,
        native=engine.flag, lease_id=request.id, nonce=request.nonce, lease_ms=request.lease_ms,
        max_messages=request.max_messages, owner=request.owner, stale_ms=engine.own_lease_ms,
        keep="1" if request.max_messages <= _INLINE else "0",
    )  # fmt: skip


def _lease(engine: JobsEngine, lease_id: str, words: list[str], owner: str, takeovers: int) -> Lease:
    token, deadline, count = words
    return Lease(
        engine.keys.name, lease_id, owner, int(count), int(deadline), token, takeovers,
        named=not lease_id.startswith("~"),
    )  # fmt: skip
