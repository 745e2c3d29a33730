"""Flushes what a queue object has counted, and reads the history of its queue. A flush never fails an operation."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol

from rmq_core.envelope.ids import nonce
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ConfigurationError, QueueUnavailable, RedisMessageQueueError
from rmq_core.exchange import Call, Command, Exchange, Interrupted, Patience
from rmq_core.exchange.scripts import script
from rmq_core.history import HistoryPoint, Mark, QueueTotals
from rmq_core.observe.tally import Flush, Tally, marked
from rmq_core.policy import whole
from rmq_core.queue.base import Engine, Method

_LATE_S = 0.5
_RINGS = {"minutes": ("m", 60, 1440), "hours": ("h", 3600, 720)}


class Recorder(Engine, Protocol):
    """The part of an engine that a history needs. `tally` is None if this client does not record.

    gauged: how a flush counts ready messages: the kind of their key, and the keys that it needs.
    """

    keys: Any
    tally: Tally | None

    @property
    def gauged(self) -> dict[str, str | bytes]: ...
    def keep(self, result: Any) -> None:
        """Remember what the caller of an operation will not get, because the flush after it was interrupted."""


def one_attempt() -> Patience:
    """Return the patience of a flush: one attempt, and half a second for its reply."""
    until = monotonic() + _LATE_S
    return Patience(0, given_up=lambda: monotonic() >= until, hurried=True, once=True)


def flush(engine: Recorder, result: Any = None) -> Exchange[None]:
    """Send what was counted; keep for later what cannot be sent. `result` is that of the operation before."""
    tally = engine.tally
    for _ in range(2):  # the first flush may be one that failed before
        if tally is not None and (batch := tally.begin()):
            yield from _send(engine, tally, batch, result)


def _send(engine: Recorder, tally: Tally, batch: Flush, result: Any) -> Exchange[None]:
    try:
        yield flushing(engine, tally.client, batch.number, batch.text, batch.marks)
    except (RedisMessageQueueError, Interrupted) as error:
        tally.failed(refused=not isinstance(error, QueueUnavailable | Interrupted))
    except BaseException:
        tally.failed(refused=False)
        engine.keep(result)
        raise
    else:
        tally.done()


def flushing(engine: Recorder, client: str, number: int, sums: str, marks: Sequence[str]) -> Call:
    """Return the call that adds sums and marks to the history; a client numbers its flushes."""
    sent = b"%bslot:%b/h" % (engine.prefix, client.encode())
    return script(
        "history/flush", engine.keys, sent=sent, number=number, sums=sums, marks=marks, **engine.gauged
    )  # fmt: skip


def history(engine: Recorder, *, minutes: int | None = None, hours: int | None = None) -> Exchange[list[HistoryPoint]]:
    """Return what happened in each of the last minutes or hours, oldest first; the last one is not over yet.

    minutes: up to 1,440, 60 when neither is given. hours: up to 720. Clients report about once a second.
    """
    if minutes is not None and hours is not None:
        raise ConfigurationError("pass minutes or hours, not both")
    asked, count = ("hours", hours) if hours is not None else ("minutes", 60 if minutes is None else minutes)
    unit, seconds, ring = _RINGS[asked]
    if whole(asked, count, minimum=1) > ring:
        raise ConfigurationError(f"{asked} must be at most {ring}, not {count}")
    current, kept = yield script(
        "history/read", engine.keys, unit=unit, unit_ms=seconds * 1000, ring=ring, most=count
    )  # fmt: skip
    first = current - count + 1
    return [HistoryPoint.of(first + at, seconds, _text(each)) for at, each in enumerate(kept)]


def totals(engine: Recorder) -> Exchange[QueueTotals]:
    """Return the counts and latencies since the history of the queue began."""
    return QueueTotals.of(_text((yield Command(("HGET", engine.keys.history, "totals")))))


def marks(engine: Recorder) -> Exchange[list[Mark]]:
    """Return what operators did to the queue, newest last: pauses, redrives, purges and free marks, at most 50."""
    lines = _text((yield Command(("HGET", engine.keys.history, "marks"))))
    return [Mark.of(line) for line in (lines or "").splitlines()]


def mark(engine: Recorder, text: str) -> Exchange[None]:
    """Mark this moment in the history, for example `deployed 1.4`; up to 200 characters are kept."""
    if not isinstance(text, str) or not one_line(text):
        raise ConfigurationError(f"text must say what happened, not {text!r}")
    yield flushing(engine, nonce(), 1, "", [marked("mark", text)])


class Recorded:
    """The part of a queue that has a history."""

    history = Method(history)
    totals = Method(totals)
    marks = Method(marks)
    mark = Method(mark)


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
