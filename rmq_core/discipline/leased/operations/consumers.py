"""Consumers: only one run at a time uses the name of a consumer, and it finds what the previous run left unfinished.

A consumer is a reader that works through a queue batch by batch over many runs, such as a streaming query. Its record
names the current run, the stream of that run (which numbers its batches), and the last finished batch. A run of the
same stream is a restart and takes the name at once; a run of another stream must wait until the previous run is silent.
"""

from __future__ import annotations

from datetime import timedelta

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.errors import ConsumerTaken, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.policy import milliseconds, whole
from rmq_core.queue.keys import check_name
from rmq_core.reports import ConsumerRegistration

_REMEMBERED_MS = 30 * 86_400_000


def register_consumer(
    engine: LeasedEngine, consumer: str, *, run: str, stream: str, alive: timedelta | float, finished: int = 0
) -> Exchange[ConsumerRegistration]:
    """Give the name of a consumer to a run. Redis keeps the record for 30 days.

    alive: for how long (seconds or timedelta) the run has the name without another call. finished: the number of the
    last finished batch; Redis never lowers it. Raises ConsumerTaken while a run of another stream has the name.
    """
    return (yield from _write(engine, consumer, (run, stream), alive, finished, "1"))


def renew_consumer(
    engine: LeasedEngine, consumer: str, *, run: str, stream: str, alive: timedelta | float, finished: int = 0
) -> Exchange[ConsumerRegistration]:
    """Keep the name of a consumer; the arguments are those of `register_consumer`.

    Raises ConsumerTaken when another run has the name by now.
    """
    return (yield from _write(engine, consumer, (run, stream), alive, finished, "0"))


def _write(
    engine: LeasedEngine, consumer: str, who: tuple[str, str], alive: timedelta | float, finished: int, enter: str
) -> Exchange[ConsumerRegistration]:
    run, stream = check_name("run", who[0]), check_name("stream", who[1])
    reply = yield script(
        "leased/register_consumer", consumer=engine.keys.consumer(check_name("consumer", consumer)), run=run,
        stream=stream, alive_ms=milliseconds("alive", alive, minimum=0.001), remembered_ms=_REMEMBERED_MS,
        finished=whole("finished", finished), enter=enter,
    )  # fmt: skip
    words = reply.decode().split(" ", 2)
    if words[0] == "taken":
        raise ConsumerTaken(consumer, int(words[1]) / 1000)
    if words[0] != "entered":
        raise ScriptFailed(f"register_consumer got {words[0]!r}")
    before, _, before_finished = words[2].rpartition(" ")
    return ConsumerRegistration(int(words[1]), None if before == "-" else before, int(before_finished))
