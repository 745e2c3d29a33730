"""Commands that change nothing: stats, peek, leases, queues list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import typer

from rmq_core.cli import records
from rmq_core.cli.failures import Exit
from rmq_core.cli.held import held_leases, held_otherwise
from rmq_core.cli.opening import Registered, Server, connected
from rmq_core.cli.options import LOCAL, Count, Discipline, Json, Queue, Queues, Url
from rmq_core.cli.output import complain, emit, say, show
from rmq_core.cli.states import COLUMNS, State, record, row, seen
from rmq_core.errors import QueueUnavailable, RedisMessageQueueError
from rmq_core.reports import QueueStats

_State = Annotated[
    State,
    typer.Option("--state", help="Which messages; isolated ones failed together before, consumers hold leased ones."),
]


def stats(queue: Queues = None, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Show how many messages of queues are ready, delayed, leased and dead.

    Isolated messages are ready ones that failed together before. A claim of isolated messages takes at most half of
    those that failed together, and no others. Queues that cannot be read are named on stderr; if one of them was named,
    the exit code is 1.
    """
    with connected(url) as server:
        found, unread = stats_of_each(chosen(server, queue, discipline), partial(stats_of, server))
    if as_json:
        for each, numbers in found:
            emit(records.stats_record(*each, numbers))
    elif found or not unread:
        show(records.STATS, [records.stats_row(*each, numbers) for each, numbers in found], "no queues yet")
    for name, error in unread.items():
        complain(f"{name}: {error}")
    if queue and unread:
        raise typer.Exit(Exit.FAILED)


def peek(
    queue: Queue,
    *,
    state: _State = State.READY,
    count: Count = 10,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Show the messages that would be claimed next, or those in another state, without moving them."""
    with connected(url) as server, server.queue(queue, discipline) as opened:
        found = seen(opened, state, count)
    if as_json:
        for one in found:
            emit(record(queue, state, one))
        return
    show(COLUMNS[state], [row(state, one) for one in found], f"nothing is {state} in {queue}")


def leases(
    queue: Queue, *, count: Count = 100, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False
) -> None:
    """Show who holds messages, and for how long: the leases, those that expire first come first; workers and consumers.

    A lease of isolated messages holds fewer than its claim requested: they failed together before and are retried in
    smaller groups.
    """
    with connected(url) as server, server.queue(queue, discipline) as opened:
        found, holders = held_leases(opened, count), held_otherwise(opened)
    if as_json:
        for lease, first in found:
            emit(records.lease_record(queue, lease, first))
        for holder in holders:
            emit(records.holder_record(queue, holder))
        return
    if found or not holders:
        rows = [records.lease_row(lease, first) for lease, first in found]
        show(records.LEASES, rows, f"no consumer holds messages of {queue}")
    if holders:
        show(records.HOLDERS, map(records.holder_row, holders), "")


def listed(*, url: Url = LOCAL, as_json: Json = False) -> None:
    """List the names and disciplines of all queues that were ever used on this server."""
    with connected(url) as server:
        found = server.registered()
    if as_json:
        for each in found:
            emit({"queue": each.name, "discipline": each.discipline})
        return
    if not found:
        say("no queues yet")
    else:
        show(("queue", "discipline"), found, "")


def chosen(server: Server, names: list[str] | None, discipline: str | None) -> list[Registered]:
    """Return the named queues, or all registered queues (of this discipline) if no name is given."""
    if not names:
        return [each for each in server.registered() if discipline in (None, each.discipline)]
    found = []
    for name in names:
        with server.queue(name, discipline) as opened:
            found.append(Registered(name, opened.discipline))
    return found


def stats_of_each(
    queues: Iterable[Registered], read: Callable[[Registered], QueueStats]
) -> tuple[list[tuple[Registered, QueueStats]], dict[str, RedisMessageQueueError]]:
    """Return the stats of the queues, and the errors of those that cannot be read: other users' queues, for example.

    Raises QueueUnavailable.
    """
    found, unread = [], {}
    for each in queues:
        try:
            found.append((each, read(each)))
        except QueueUnavailable:
            raise
        except RedisMessageQueueError as error:
            unread[each.name] = error
    return found, unread


def stats_of(server: Server, queue: Registered) -> QueueStats:
    """Return the stats of a queue."""
    with server.queue(*queue) as opened:
        return opened.stats()
