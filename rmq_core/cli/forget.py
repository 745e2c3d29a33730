"""`rmq queues forget`: removes an empty queue from the list of queues."""

from __future__ import annotations

from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Url
from rmq_core.cli.output import emit, say


def forget(queue: Queue, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Remove an empty queue from the list; fail for one that holds any messages, even dead letters.

    Sensors, the queues page and `stats` no longer include it. Publishing to it with a new queue object lists it again.
    """
    with connected(url) as server, server.queue(queue, discipline) as opened:
        opened.admin.unregister()
    if as_json:
        emit({"queue": queue, "forgotten": True})
    else:
        say(f"forgot {queue}")
