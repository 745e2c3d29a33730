"""`rmq reap`: makes expired messages ready again, for queues without consumers whose claims would do so."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Settings, Url
from rmq_core.cli.output import complain, emit, say
from rmq_core.errors import QueueFull, QueueUnavailable
from rmq_core.interrupt_handler import Stopping

_Every = Annotated[
    float | None,
    typer.Option("--every", min=0.1, help="Repeat, with this many seconds between two rounds.", show_default=False),
]


def reap(
    queue: Queue,
    *,
    every: _Every = None,
    settings: Settings = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Requeue messages that dead or stuck workers have held for too long.

    Only `reliable` queues need it: in the other disciplines, each claim also reclaims expired messages.
    """
    with connected(url) as server, server.queue(queue, discipline, settings) as opened, closing(Stopping()) as stopping:
        if every is None:
            _round(opened, as_json=as_json)
            return
        while not stopping.is_set():
            try:
                _round(opened, as_json=as_json)
            except (QueueUnavailable, QueueFull) as error:  # the next round may succeed
                complain(str(error))
            stopping.rest(every)


def _round(queue: Any, *, as_json: bool) -> None:
    found = {}
    if queue.capabilities.auto_reclaim:
        queue.backlog()  # it also reclaims expired messages, if the discipline can do so without a claim
    else:
        found = queue.reap()._asdict()
    if as_json:
        emit({"queue": queue.name, "discipline": queue.discipline, **found})
    elif found:
        summary = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in found.items())
        say(f"{queue.name} ({queue.discipline}): {summary}")
    else:
        say(f"{queue.name} ({queue.discipline}) needs no reaper: claims reclaim expired messages")
