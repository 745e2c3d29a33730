"""Enrolling: one run at a time uses a consumer's name, and finds what the run before it left behind.

A consumer is who reads a queue batch by batch over many runs, such as a streaming query. Its record names the run that
has the name now, the run's stream (what its batches are numbered in), and the batch up to which all is finished. A run
of the same stream is a restart and takes the name at once; of another stream, only when the run before it is silent.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.errors import ConsumerTaken, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.policy import milliseconds, whole
from rmq_core.queue.keys import check_name

_REMEMBERED_MS = 30 * 86_400_000


class Enrolment(NamedTuple):
    """A consumer's record: batches up to `finished` are finished; `before` is the stream before this one, if any."""

    finished: int
    before: str | None
    before_finished: int


def enroll(
    engine: LeasedEngine, consumer: str, *, run: str, stream: str, alive: timedelta | float, finished: int = 0
) -> Exchange[Enrolment]:
    """Enter a run in a consumer's record, which is remembered for 30 days.

    alive: seconds or timedelta for which the run has the name without another call. finished: the batch up to which all
    is finished, which never goes back. Raises ConsumerTaken while a run of another stream has the name.
    """
    return (yield from _write(engine, consumer, (run, stream), alive, finished, "1"))


def stay(
    engine: LeasedEngine, consumer: str, *, run: str, stream: str, alive: timedelta | float, finished: int = 0
) -> Exchange[Enrolment]:
    """Renew an enrolment, with the arguments of `enroll`. Raises ConsumerTaken when another run has the name by now."""
    return (yield from _write(engine, consumer, (run, stream), alive, finished, "0"))


def _write(
    engine: LeasedEngine, consumer: str, who: tuple[str, str], alive: timedelta | float, finished: int, enter: str
) -> Exchange[Enrolment]:
    run, stream = check_name("run", who[0]), check_name("stream", who[1])
    reply = yield script(
        "leased/enroll", consumer=engine.keys.consumer(check_name("consumer", consumer)), run=run, stream=stream,
        alive_ms=milliseconds("alive", alive, minimum=0.001), remembered_ms=_REMEMBERED_MS,
        finished=whole("finished", finished), enter=enter,
    )  # fmt: skip
    words = reply.decode().split(" ", 2)
    if words[0] == "taken":
        raise ConsumerTaken(consumer, int(words[1]) / 1000)
    if words[0] != "entered":
        raise ScriptFailed(f"enroll got {words[0]!r}")
    before, _, before_finished = words[2].rpartition(" ")
    return Enrolment(int(words[1]), None if before == "-" else before, int(before_finished))
