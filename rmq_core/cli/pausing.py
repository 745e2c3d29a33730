"""`rmq pause` and `rmq resume`: stop and restart the claims on a queue."""

from __future__ import annotations

from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Url
from rmq_core.cli.output import emit, say


def pause(queue: Queue, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Let claims get nothing until the queue is resumed; leases and producers go on."""
    _set(queue, url, discipline, paused=True, as_json=as_json)


def resume(queue: Queue, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Let claims get messages again."""
    _set(queue, url, discipline, paused=False, as_json=as_json)


def _set(queue: str, url: str, discipline: str | None, *, paused: bool, as_json: bool) -> None:
    with connected(url) as server, server.queue(queue, discipline) as opened:
        if paused:
            opened.admin.pause()
        else:
            opened.admin.resume()
    if as_json:
        emit({"queue": queue, "paused": paused})
    else:
        say(f"{queue} is {'paused' if paused else 'resumed'}")
