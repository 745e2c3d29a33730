"""Claims messages: a script runs LMOVE and records the time; a waiting claim sends BLMOVE with it in one write."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any, NamedTuple

from rmq_core.envelope.codec import anonymous_lease_id, nonce
from rmq_core.errors import QueueUnavailable, RedisMessageQueueError, ScriptFailed
from rmq_core.exchange import Call, Exchange, Sleep, Wait
from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.publishing import refuse_groups
from rmq_core.kernel.registry import ready
from rmq_core.messages import Lease
from rmq_core.policy import milliseconds, whole
from rmq_core.protocol import LARGE, lacking
from rmq_core.reliable.state import DISCIPLINE, ReliableEngine

_PAUSE_S = 0.25


class WorkerRequest(NamedTuple):
    """The validated arguments of a claim. With `hold_ms` 0, the reaper's timeout applies."""

    worker: str
    token: str
    hold_ms: int
    max_messages: int
    mode: str


def claim(
    engine: ReliableEngine,
    *,
    max_messages: int = 1,
    lease: timedelta | float | None = None,
    wait: timedelta | float = 0,
    lease_id: str | None = None,
    owner: str | None = None,
    groups: Collection[str] | None = None,
) -> Exchange[Lease | None]:
    """Move the oldest messages to the worker's processing list; return None when there are none within `wait`.

    At most 1,000 messages and 8 MiB at once; raises Unsupported for more than 4,000, and for a `lease_id`. lease: how
    long (seconds or timedelta) a reaper must not requeue them; None is the reaper's own timeout. owner: the worker
    whose list holds them; None is this queue's own worker.
    """
    refuse_groups(DISCIPLINE, groups)
    if lease_id is not None:
        raise lacking(DISCIPLINE, "takeover", "lease_id")
    if whole("max_messages", max_messages, minimum=1) > LARGE:
        raise lacking(DISCIPLINE, "large_leases", f"leases of more than {LARGE} messages")
    wait_ms = milliseconds("wait", wait)
    request = _request(engine, max_messages, lease, owner)
    try:
        yield from ready(engine, DISCIPLINE)
        held = yield from _wait(engine, request, wait_ms)
    except BaseException as error:
        if not isinstance(error, RedisMessageQueueError) or isinstance(error, QueueUnavailable):
            engine.unanswered[request.token] = request.worker
        raise
    return held


def release_unanswered(engine: ReliableEngine) -> Exchange[list[Lease]]:
    """Repeat the claims whose reply never arrived, without taking more from the queue; return their leases."""
    found = []
    while engine.unanswered:
        token, worker = engine.unanswered.popitem()
        request = WorkerRequest(worker, token, 0, 1000, "rest")
        try:
            reply = yield call(engine, request, 0, 0)
        except BaseException:
            engine.unanswered[token] = worker
            raise
        if reply[1]:
            found.append(_granted(engine, request, reply))
    return found


def call(engine: ReliableEngine, request: WorkerRequest, wait_ms: int, until: int) -> Call:
    """Return the call for one attempt to claim."""
    keys = engine.keys
    return script(
        "reliable/claim", keys, processing=keys.processing(request.worker), claims=keys.claims(request.worker),
        worker=request.worker, token=request.token, lease_ms=request.hold_ms, max_messages=request.max_messages,
        mode=request.mode, max_deliveries=engine.config.max_deliveries or 0, wait_ms=wait_ms, wait_end=until,
    )  # fmt: skip


def _request(
    engine: ReliableEngine, max_messages: int, lease: timedelta | float | None, owner: str | None
) -> WorkerRequest:
    hold_ms = 0 if lease is None else milliseconds("lease", lease, minimum=0.001)
    worker = check_name("owner", owner) if owner else engine.worker
    for token, holder in list(engine.unanswered.items()):
        if holder == worker and engine.unanswered.pop(token, ""):
            return WorkerRequest(worker, token, hold_ms, max_messages, "again")
    return WorkerRequest(worker, nonce(), hold_ms, max_messages, "new")


def _wait(engine: ReliableEngine, request: WorkerRequest, wait_ms: int) -> Exchange[Lease | None]:
    """Claim; between attempts, block on the queue until `wait_ms` have passed by the server's clock."""
    keys, block, until = engine.keys, 0, 0
    while True:
        attempt = call(engine, request, wait_ms, until)
        if block:
            moved, reply = yield Wait(keys.queue, block, attempt, into=keys.processing(request.worker))
        else:
            moved, reply = None, (yield attempt)
        words = reply[0].decode().split(" ")
        if words[0] == "claimed" and reply[1]:
            return _granted(engine, request, reply)
        if words[0] == "claimed":  # a reaper requeued them before a resend got its reply
            request, block = request._replace(token=nonce(), mode="new"), 0
            continue
        if words[0] != "empty":
            raise ScriptFailed(f"claim got {words[0]!r}")
        block, until = int(words[1]), int(words[2])
        if not block:
            return None
        if isinstance(moved, RedisMessageQueueError):
            yield Sleep(_PAUSE_S)


def _granted(engine: ReliableEngine, request: WorkerRequest, reply: Any) -> Lease:
    now, entries = int(reply[0].split()[1]), reply[1]
    deadline_ms = now + (request.hold_ms or engine.config.timeout_ms)
    lease_id = anonymous_lease_id()
    return Lease(
        engine.name, lease_id, request.worker, len(entries), deadline_ms, request.token, envelopes=list(entries)
    )
