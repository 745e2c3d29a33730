"""`rmq queues forget`: take a queue that holds nothing off the list of queues."""

from __future__ import annotations

from typing import Any

from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Url
from rmq_core.cli.output import emit, say
from rmq_core.errors import Unsupported


def forget(queue: Queue, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Take a queue that holds nothing off the list; one that holds anything, dead letters too, is refused.

    Sensors, the page and `stats` look at it no more. Who publishes to it with a new queue object lists it again.
    """
    with connected(url) as server, server.queue(queue, discipline) as opened:
        leased: Any = opened
        if not hasattr(leased, "unregister"):
            raise Unsupported(opened.discipline, "taking a queue off the list", ("leased",))
        leased.unregister()
    if as_json:
        emit({"queue": queue, "forgotten": True})
    else:
        say(f"forgot {queue}")
