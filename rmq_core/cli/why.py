"""The command `why`: what happened to one message."""

from __future__ import annotations

from typing import Annotated

import typer

from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Url
from rmq_core.cli.output import emit, note, say, show
from rmq_core.timeline import Step, Timeline

_Message = Annotated[str, typer.Argument(help="The id that publish returned.")]
_COLUMNS = ("at (UTC)", "what", "who", "lease", "detail", "known from")


def why(
    queue: Queue, message: _Message, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False
) -> None:
    """Show what happened to a message: when it was published, claimed, failed, settled, by whom, and where it is now.

    What happened to a message that is gone is only known if the queue has a journal.
    """
    with connected(url) as server, server.queue(queue, discipline) as opened:
        timeline: Timeline = opened.admin.why(message)
    if as_json:
        emit(timeline.record())
        return
    say(f"{message} of {queue}: {timeline.state}; {timeline.verdict}")
    if timeline.steps:
        show(_COLUMNS, map(_row, timeline.steps), "")
    for unknown in timeline.unknown:
        note(f"unknown: {unknown}")


def _row(step: Step) -> tuple[object, ...]:
    at = f"{step.at:%Y-%m-%d %H:%M:%S.%f}"[:-3] if step.at else "now"
    return (at, step.what, step.who or None, step.lease_id or None, step.detail or None, step.source)
