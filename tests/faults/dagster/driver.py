"""The driver of the way "Pipes Spark": `driver.py <spark|plain> <first|retry>` adopts, writes down its work, and acks.

The short form of the faults has no time for Java: `plain` does in Python alone what `spark` does in Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import rmq_spark
from rmq_core import LeasedQueue, LeaseLost
from rmq_core.orchestrate import Handover
from tests.faults.dagster.board import Board

MODE = "spark"


@contextmanager
def spark() -> Iterator[list[str]]:
    """The payloads, read by Spark."""
    session = rmq_spark.session("driver", **{"spark.ui.enabled": False})
    with rmq_spark.adopted_batch(session) as batch:
        yield [row.payload.decode() for row in batch.df.collect()]
    session.stop()


@contextmanager
def plain() -> Iterator[list[str]]:
    """The payloads, read by the core."""
    rmq_spark.exit_with_parent()
    handover = Handover.from_environment()
    with LeasedQueue(handover.settings, handover.queue, handover.config) as queue:
        lease = queue.adopt(handover.lease_id, if_owner=handover.owner)
        with queue.hold(lease):
            yield [message.payload for message in queue.messages(lease)]
            queue.ack(lease)


ADOPTED: dict[str, Callable[[], AbstractContextManager[list[str]]]] = {"spark": spark, "plain": plain}


def main(kind: str, attempt: str) -> None:
    """Do the work; hold or fail when a switch is on."""
    board, run = Board.here(), Handover.from_environment().owner
    payloads: list[str] = []
    try:
        with ADOPTED[kind]() as payloads:
            board.note("did", MODE, run=run, payloads=payloads)
            board.wait_while("hold")
            if board.is_on("fail") and attempt == "first":
                sys.exit(3)
    except LeaseLost:
        board.note("refused", MODE, run=run, payloads=payloads)
        raise
    board.note("acked", MODE, run=run, payloads=payloads)


if __name__ == "__main__":
    main(*sys.argv[1:])
