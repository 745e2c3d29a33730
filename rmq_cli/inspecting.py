"""Commands that change nothing: stats, peek, leases, groups, publications, shards, queues list, why, top."""

from __future__ import annotations

import fnmatch
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from itertools import islice
from math import ceil
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from rmq_cli import records
from rmq_cli.doctor_checks import why_paused
from rmq_cli.opening import (
    LOCAL,
    At,
    Count,
    Json,
    Queue,
    Queues,
    Registered,
    Server,
    Url,
    argument,
    connected,
    option,
    time_given,
)
from rmq_cli.output import Exit, Keyboard, complain, console, counted, emit, note, plain, say, show, table
from rmq_cli.records import held_leases, held_otherwise
from rmq_core.admin.verbs import can, lacking_verb
from rmq_core.envelope.codec import Message
from rmq_core.errors import ConfigurationError, QueueUnavailable, RedisMessageQueueError
from rmq_core.interrupt_handler import Stopping
from rmq_core.observe.history import Step, Timeline
from rmq_core.orchestrate.attention import (
    MINUTES,
    Trend,
    expired,
    needs_attention,
    signs,
    suspects,
    trend_in,
    urgency,
)
from rmq_core.orchestrate.limits import ALERTS
from rmq_core.protocol import WorkQueue
from rmq_core.reports import LeaseInfo, Publication, QueueStats, ShardStats, programs, skews, total_stats

_LEASES, _SLICE = 1000, 100


class State(StrEnum):
    """The states whose messages can be shown."""

    READY = "ready"
    DELAYED = "delayed"
    ISOLATED = "isolated"
    LEASED = "leased"


class FoundMessage(NamedTuple):
    """A message, with the end of its delay if it is delayed, or the lease and owner that hold it."""

    message: Message
    due: datetime | None = None
    lease: str | None = None
    owner: str | None = None


COLUMNS = {
    State.READY: records.MESSAGES,
    State.DELAYED: (*records.MESSAGES, "due in"),
    State.ISOLATED: records.MESSAGES,
    State.LEASED: (*records.MESSAGES, "lease", "owner"),
}


def seen(queue: Any, state: State, count: int) -> list[FoundMessage]:
    """Return at most `count` messages in that state, claiming none. Raises Unsupported if the discipline cannot."""
    if state == State.READY:
        return [FoundMessage(message) for message in queue.admin.peek(count)]
    if not can(queue, "browse"):
        raise lacking_verb(queue.discipline, "browse", f"view of {state} messages")
    return list(islice(_held(queue) if state == State.LEASED else _waiting(queue, state), count))


def row(state: State, one: FoundMessage) -> tuple[object, ...]:
    """Return a message as a row under the columns of its state."""
    shown = records.message_row(one.message)
    if state == State.DELAYED:
        return (*shown, records.due_in(one.due))
    return (*shown, one.lease, one.owner) if state == State.LEASED else shown


def record(queue: str, state: State, one: FoundMessage) -> dict[str, Any]:
    """Return a message as JSON, with `due_at` if it is delayed, and `lease` and `owner` if it is leased."""
    about: dict[str, Any] = records.message_record(queue, one.message)
    if state == State.DELAYED:
        about["due_at"] = one.due.isoformat() if one.due else None
    elif state == State.LEASED:
        about |= {"lease": one.lease, "owner": one.owner}
    return about


def _waiting(queue: Any, state: State) -> Iterator[FoundMessage]:
    offset = 0
    while (page := queue.admin.browse(state.value, offset, _SLICE)).messages:
        for place, message in enumerate(page.messages):
            yield FoundMessage(message, page.due[place] if page.due else None)
        offset += len(page.messages)


def _held(queue: Any) -> Iterator[FoundMessage]:
    for lease in queue.admin.leases(_LEASES):
        for lo in range(0, lease.count, _SLICE):
            for message in queue.admin.browse_lease(lease.id, lo, min(lo + _SLICE, lease.count)):
                yield FoundMessage(message, None, lease.id, lease.owner)


_State = Annotated[
    State,
    typer.Option("--state", help="Which messages; isolated ones failed together before, consumers hold leased ones."),
]


_Filled = Annotated[bool, typer.Option("--filled", help="Leave out queues that hold no messages.")]


def stats(queue: Queues = None, *, filled: _Filled = False, at: At) -> None:
    """Show how many messages of queues are ready, delayed, leased and dead.

    Isolated messages are ready ones that failed together before. A claim of isolated messages takes at most half of
    those that failed together, and no others. Queues that need attention come first; of the first ten, it says the most
    urgent reason. For queues that are named, it says all reasons, in how many groups messages wait, and in which of
    them the most, and in how many shards. Queues and shards that cannot be read are named on stderr; if one of them was
    named, the exit code is 1.
    """
    spread = dict[str, list[ShardStats]]()
    rows = dict[Registered, dict[str, Any]]()
    with connected(at.url) as server:
        queues, unknown = chosen(server, queue, at.discipline)
        found, unread = stats_of_each(queues, partial(_stats_of, server, spread, None if at.as_json else rows))
        unread |= unknown
        if filled:
            found = [(each, numbers) for each, numbers in found if any(numbers[:5])]
        told = list[str]()
        if not at.as_json:
            found.sort(key=lambda one: urgency(rows[one[0]]))
            reasons = (_why(server, each, rows[each]) for each, _ in found)
            told = [text for each in reasons for text in (each if queue else islice(each, 1))][
                : None if queue else _TOLD
            ]
        if queue and not at.as_json:
            for text in told:
                note(text)
            told = [text for each, _ in found if (text := _groups_of(server, each))]
        elif not at.as_json and (many := sum(map(needs_attention, rows.values()))):
            needs = "needs attention and comes" if many == 1 else "need attention and come"
            told.append(f"{counted(many, 'queue')} {needs} first: `rmq stats QUEUE` says more")
    if at.as_json:
        for each, numbers in found:
            emit(records.stats_record(*each, numbers, spread.get(each.name)))
    elif found or not unread:
        listed = [records.stats_row(*each, numbers) for each, numbers in found]
        show(records.STATS, listed, "no queues yet", optional=records.STATS_OPTIONAL)
    for text in told:
        note(text)
    for name, shards in spread.items():
        if _away_of(shards):
            complain(_spread_of(name, shards))
        elif queue and not at.as_json:
            note(_spread_of(name, shards))
    for name, error in unread.items():
        complain(f"{name}: {error}")
    if queue and (unread or any(map(_away_of, spread.values()))):
        raise typer.Exit(Exit.FAILED)


def _row_of(opened: Any, stats: QueueStats, *, lately: bool) -> dict[str, Any]:
    """Return the numbers of a queue, and why it needs attention; nothing is read of an empty queue, or not `lately`."""
    row, trend, now = dict[str, Any](stats._asdict()), Trend(), datetime.now(UTC)
    if lately and (stats.ready or stats.leased or stats.dead):
        with suppress(RedisMessageQueueError):  # a user may see the numbers alone
            points = opened.admin.history(minutes=MINUTES) if can(opened, "history") else []
            programs = opened.admin.clients() if can(opened, "clients") else []
            trend = trend_in(points, now, opened.admin.dead_letters(1) if stats.dead else [], programs)
            row["late"] = bool(stats.leases) and can(opened, "leases") and expired(opened.admin.leases(1), now)
    return {**row, "signs": signs(row, trend, ALERTS)}


def _why(server: Server, queue: Registered, row: dict[str, Any]) -> Iterator[str]:
    """Yield why a queue needs attention, the most urgent reason first."""
    for sign in row["signs"]:
        if sign.kind == "paused":
            with server.queue(*queue) as opened:
                yield f"{queue.name} is {why_paused(opened)}"
        elif sign.text:
            yield f"{queue.name}: {sign.text}"
        if sign.kind == "crashing":
            with server.queue(*queue) as opened:
                for each in suspects(opened):
                    act = f"`rmq dead-letter {queue.name} {each.id}` sets it aside"
                    at_one = f" at {each.owner}, which may hang instead: then restart that" if each.owner else ""
                    yield f"{queue.name}: {each.id} expired {each.expired} times{at_one}; {act}"


_TOLD = 10
"""For how many queues `rmq stats` without names shows a reason."""
_MOST_GROUPS, _TOP = 1000, 3


def _groups_of(server: Server, queue: Registered) -> str:
    """Return in how many groups messages of a queue wait, and in which the most; empty if it has none."""
    with server.queue(*queue) as opened:
        found = opened.admin.groups(_MOST_GROUPS) if can(opened, "groups") else []
    waiting: Counter[str] = Counter()
    for group in found:
        waiting[group.name or "no group"] += group.waiting
    if not (waiting := +waiting):
        return ""
    many = f"{len(waiting):,} groups" if len(waiting) > 1 else "1 group"
    more = " or more" if len(found) == _MOST_GROUPS else ""
    top = ", ".join(f"{name} ({count:,})" for name, count in waiting.most_common(_TOP))
    return f"{queue.name} waits in {many}{more}, the most in {top}; see rmq groups"


def peek(queue: Queue, *, state: _State = State.READY, count: Count = 10, at: At) -> None:
    """Show the messages that would be claimed next, or those in another state, without moving them."""
    with at.queue(queue) as opened:
        found = seen(opened, state, count)
    if at.as_json:
        for one in found:
            emit(record(queue, state, one))
        return
    rows = [row(state, one) for one in found]
    show(COLUMNS[state], rows, f"nothing is {state} in {queue}", optional=records.OPTIONAL)


def leases(queue: Queue, *, count: Count = 100, at: At) -> None:
    """Show who holds messages, and for how long: the leases, those that expire first come first; workers and consumers.

    A lease of isolated messages holds fewer than its claim requested: they failed together before and are retried in
    smaller groups.
    """
    with at.queue(queue) as opened:
        found, holders = held_leases(opened, count), held_otherwise(opened)
    if at.as_json:
        for lease, first in found:
            emit(records.lease_record(queue, lease, first))
        for holder in holders:
            emit(records.holder_record(queue, holder))
        return
    if found or not holders:
        rows = [records.lease_row(lease, first) for lease, first in found]
        show(records.LEASES, rows, f"no consumer holds messages of {queue}")
    if len(found) == count:
        note(f"these are the first {counted(count, 'lease')}: --count shows more")
    for text in _sums([lease for lease, _ in found]) if len(found) > _MANY_LEASES else ():
        note(text)
    if holders:
        show(records.HOLDERS, map(records.holder_row, holders), "")


_MANY_LEASES = 10


def _sums(leases: Sequence[LeaseInfo]) -> Iterator[str]:
    """Yield how many of these leases and messages the owners with the most leases hold."""
    for owner, many in Counter(lease.owner for lease in leases).most_common(_TOP):
        held = sum(lease.count - lease.settled for lease in leases if lease.owner == owner)
        yield f"{owner or 'no owner'}: {counted(many, 'lease')}, {counted(held, 'message')}"


def groups(queue: Queue, *, count: Count = 20, at: At) -> None:
    """Show the groups in which the most messages wait, and how many leases hold messages of each."""
    with at.queue(queue) as opened:
        if not can(opened, "groups"):
            raise lacking_verb(opened.discipline, "groups")
        found = opened.admin.groups(count)
    if at.as_json:
        for group in found:
            emit(records.group_record(queue, group))
        return
    show(records.GROUPS, map(records.group_row, found), f"no messages of {queue} wait in groups")


def clients(queue: Queue, *, count: Count = 100, at: At) -> None:
    """Show which programs consume from a queue and publish to it: host, version, settings, and when they were there.

    A program records itself with its first call and then once a minute, along with a call that it makes anyway. A
    consumer that was not there for two minutes, or a third of a long lease, is gone, or hangs: one that waits or works
    makes calls. One whose work hangs is there while its heartbeats go on: `rmq leases` shows that it settles nothing. A
    publisher is there when it publishes.
    """
    with at.queue(queue) as opened:
        if not can(opened, "clients"):
            raise lacking_verb(opened.discipline, "clients")
        found = opened.admin.clients()
    if at.as_json:
        for each in found[:count]:
            emit(records.client_record(queue, each))
        return
    known = programs(found)
    rows = [records.client_row(*each) for each in known[:count]]
    none = f"no program has consumed from {queue} or published to it for a day"
    show(records.CLIENTS, rows, none, optional=frozenset(["name"]))
    if len(known) > count:
        note(f"{counted(len(known) - count, 'program')} more: --count shows them")


_SKEWED, _MANY = 2, 1000


def shards(queue: Queue, *, at: At) -> None:
    """Show in which shards a queue is stored, what each of them holds, and which do not answer.

    A draining shard gets no more messages; it goes when it is empty and the queue is configured again. The exit code is
    1 if a shard does not answer.
    """
    with at.queue(queue) as opened:
        if not can(opened, "shards"):
            raise lacking_verb(opened.discipline, "shards")
        found: list[ShardStats] = opened.admin.shards()
    if at.as_json:
        for each in found:
            emit(records.shard_record(queue, each))
    else:
        show(records.SHARDS, map(records.shard_row, found), f"{queue} is not stored in shards")
        if text := _skew_of(found):
            note(text)
    if any(each.error for each in found):
        raise typer.Exit(Exit.FAILED)


def _away_of(shards: Sequence[ShardStats]) -> list[ShardStats]:
    return [each for each in shards if each.error]


def _spread_of(queue: str, shards: Sequence[ShardStats]) -> str:
    """Return in how many shards a queue is stored, which do not answer, and how uneven they are."""
    away, all_of_them = _away_of(shards), counted(len(shards), "shard")
    told = f"{queue} is stored in {all_of_them}"
    if away:
        named = ", ".join(f"{each.name} (slot {each.slot})" for each in away)
        told = f"{len(shards) - len(away)} of {all_of_them} of {queue} answer, and not {named}: {away[0].error}"
    return "; ".join(filter(None, (told, _skew_of(shards), "see rmq shards")))


def _skew_of(shards: Sequence[ShardStats]) -> str:
    """Return how much fuller than the others one of the shards is; empty where the difference does not matter."""
    times = skews(shards)
    ready = {each.name: each.stats.ready for each in shards if each.stats and each.name in times}
    name = max(ready, key=lambda each: ready[each], default="")
    if not name or ready[name] < _MANY or times[name] < _SKEWED:
        return ""
    return f"shard {name} has {times[name]:.1f} times as many ready messages as the mean of the shards"


_Publication = Annotated[str, argument(help="The name that publishers gave.", metavar="NAME")]
_WaitForEnd = Annotated[
    str | None,
    option("--wait", help="How long to wait for its end, such as 10m; then the exit code is 1.", metavar="TIME"),
]


def publication(queue: Queue, name: _Publication, *, wait: _WaitForEnd = None, at: At) -> None:
    """Show how many messages of a publication wait, are leased, acked and dead, and whether all of them are done."""
    with at.queue(queue) as opened:
        if not can(opened, "publications"):
            raise lacking_verb(opened.discipline, "publications")
        read: Any = opened
        found = read.publication(name, wait=time_given("--wait", wait) or 0)
    _show_publications(queue, [found], as_json=at.as_json)
    if wait is not None and not found.done:
        raise typer.Exit(Exit.FAILED)


def publications(queue: Queue, *, count: Count = 20, at: At) -> None:
    """Show the publications that have not ended, then those that ended last."""
    with at.queue(queue) as opened:
        if not can(opened, "publications"):
            raise lacking_verb(opened.discipline, "publications")
        found = opened.admin.publications(count)
    _show_publications(queue, found, as_json=at.as_json)


def _show_publications(queue: str, found: Sequence[Publication], *, as_json: bool) -> None:
    if as_json:
        for each in found:
            emit(records.publication_record(queue, each))
        return
    show(records.PUBLICATIONS, map(records.publication_row, found), f"{queue} has no publications")


def list_(*, url: Url = LOCAL, as_json: Json = False) -> None:
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


_PATTERN = re.compile(r"[*?[]")


def chosen(
    server: Server, names: list[str] | None, discipline: str | None
) -> tuple[list[Registered], dict[str, RedisMessageQueueError]]:
    """Return the queues of some names and patterns, of this discipline, all without a name; and errors by unknown name.

    Raises QueueUnavailable.
    """
    found, unknown = dict[Registered, None](), dict[str, RedisMessageQueueError]()
    for name in names or ["*"]:
        if _PATTERN.search(name):
            known = [each for each in server.registered() if discipline in (None, each.discipline)]
            like = [each for each in known if each.name == name]  # names may have these characters, too
            like = like or [each for each in known if fnmatch.fnmatchcase(each.name, name)]
            found |= dict.fromkeys(like)
            if names and not like:
                unknown[name] = ConfigurationError("no registered queue has such a name")
            continue
        try:
            with server.queue(name, discipline) as opened:
                found[Registered(name, opened.discipline)] = None
        except ConfigurationError as error:
            unknown[name] = error
    return [*found], unknown


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


def _stats_of(
    server: Server,
    spread: dict[str, list[ShardStats]],
    rows: dict[Registered, dict[str, Any]] | None,
    queue: Registered,
) -> QueueStats:
    """Return the stats of a queue, and put why it needs attention into `rows`, if they are given.

    Of a queue in shards, they are those of the shards that answer; these are put into `spread`.
    """
    with server.queue(*queue) as opened:
        shards: list[ShardStats] = opened.admin.shards() if can(opened, "shards") else []
        found = total_stats(each.stats for each in shards) if shards else opened.stats()
        if rows is not None:
            rows[queue] = _row_of(opened, found, lately=not _away_of(shards))  # those would be waited for
    if shards:
        spread[queue.name] = shards
    return found


_Message = Annotated[str, typer.Argument(help="The id that publish returned.")]
_COLUMNS = ("at (UTC)", "what", "who", "lease", "detail", "known from")


def why(queue: Queue, message: _Message, *, at: At) -> None:
    """Show what happened to a message: when it was published, claimed, failed, settled, by whom, and where it is now.

    What happened to a message that is gone is only known if the queue has a journal.
    """
    with at.queue(queue) as opened:
        timeline: Timeline = opened.admin.why(message)
    if at.as_json:
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


_BARS = " ▁▂▃▄▅▆▇█"
_REMEMBERED = 12
_NAMED = 5

_Interval = Annotated[float, typer.Option("--interval", "-i", min=0.1, help="Seconds between polls.")]
_Times = Annotated[int | None, option("--times", min=1, help="Stop after this many polls.")]


def top(queue: Queues = None, *, interval: _Interval = 2, times: _Times = None, at: At) -> None:
    """Show a live view of all or the named queues; q or Ctrl-C quits.

    Without a terminal, or with --json, append each poll to the output.
    """
    with (
        connected(at.url) as server,
        closing(Monitor(server, queue, at.discipline)) as watch,
        closing(Stopping()) as stopping,
        _shown(watch, as_json=at.as_json) as show,
        Keyboard() as keyboard,
    ):
        while not stopping.is_set():
            show()
            if watch.polls == times or keyboard.waited(interval, stopping):
                return


class Monitor:
    """The latest stats of the watched queues, and the ready counts of recent polls."""

    def __init__(self, server: Server, names: list[str] | None, discipline: str | None) -> None:
        self.server, self.names, self.discipline = server, names, discipline
        self.polls, self.trouble = 0, ""
        self.found: list[tuple[Registered, QueueStats]] = []
        self._ready: dict[Registered, deque[int]] = {}
        self._open: dict[Registered, WorkQueue] = {}
        self._ends = ExitStack()

    def poll(self) -> None:
        """Poll once. Raise QueueUnavailable at the first poll only; later, keep its text in `trouble`."""
        self.polls += 1
        try:
            queues, unknown = chosen(self.server, self.names, self.discipline)
            self.found, unread = stats_of_each(queues, self._stats)
            unread |= unknown
            self.trouble = f"cannot be read: {_named(unread)}" if unread else ""
        except QueueUnavailable as error:
            if self.polls == 1:
                raise
            self.trouble = str(error)

    def before(self, queue: Registered) -> deque[int]:
        """Return the ready counts of the last polls, oldest first."""
        return self._ready[queue]

    def close(self) -> None:
        """Close the queues."""
        with suppress(QueueUnavailable):
            self._ends.close()

    def _stats(self, each: Registered) -> QueueStats:
        if each not in self._open:
            self._open[each] = self._ends.enter_context(self.server.queue(*each))
        stats = self._open[each].stats()
        self._ready.setdefault(each, deque(maxlen=_REMEMBERED)).append(stats.ready)
        return stats


def _named(unread: Mapping[str, Exception]) -> str:
    """Return the names of queues, as many as fit, and why the first of them cannot be read."""
    names = [*unread]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} ({unread[names[0]]})"


@contextmanager
def _shown(watch: Monitor, *, as_json: bool) -> Iterator[Callable[[], None]]:
    out = console()
    if as_json or not out.is_terminal:
        yield lambda: _written(watch, as_json=as_json)
        return
    with Live(console=out, screen=True, auto_refresh=False) as live:
        yield lambda: _drawn(watch, live)


def _written(watch: Monitor, *, as_json: bool) -> None:
    watch.poll()
    if not as_json:
        console().print(picture(watch))
        return
    if watch.trouble:
        complain(watch.trouble)
    for each, stats in watch.found:
        emit({"at": round(time.time(), 3), **records.stats_record(*each, stats)})


def _drawn(watch: Monitor, live: Live) -> None:
    watch.poll()
    live.update(picture(watch), refresh=True)


def picture(watch: Monitor) -> Group:
    """Return the heading, the table of stats, and a footer: the error or key help."""
    rows = [(*records.stats_row(*each, stats), spark([*watch.before(each)])) for each, stats in watch.found]
    when = time.strftime("%H:%M:%S")
    head = Text.assemble(("rmq top", "bold"), f"  {plain(str(watch.server.settings))}  {when}")
    foot = Text(plain(watch.trouble), "bold red") if watch.trouble else Text("q quits", "dim")
    return Group(head, table((*records.STATS, "ready lately"), rows), foot)


def spark(values: Sequence[float]) -> Text:
    """Return a sparkline of the values from zero to the largest, newest on the right."""
    most = max(values, default=0) or 1
    return Text("".join(_BARS[ceil(value * (len(_BARS) - 1) / most)] for value in values), "cyan")
