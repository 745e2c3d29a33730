"""`rmq search`, and the options that choose messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from rmq_cli import records
from rmq_cli.opening import At, Count, Options, Queue, option
from rmq_cli.output import Watched, ago, counted, emit, note, say, show, watched
from rmq_core.admin.verbs import can
from rmq_core.envelope.codec import Message
from rmq_core.envelope.matching import Match
from rmq_core.errors import ConfigurationError
from rmq_core.kernel.base import tools_of
from rmq_core.reports import Progress, SearchPage

Text = Annotated[str | None, option("--text", help="Only messages whose payload, as it is stored, has this text.")]
Header = Annotated[
    str | None, option("--header", "-H", help="Only messages with this header.", metavar="NAME or NAME=VALUE")
]
Reason = Annotated[
    str | None,
    option(
        "--reason",
        help="Only messages that failed for this reason the last time; * stands for any text, and numbers and ids do"
        " not matter.",
    ),
]
Group = Annotated[
    str | None,
    option("--group", help="Only messages whose last failure is in this group, exactly as `rmq dlq reasons` shows it."),
]
Ids = Annotated[list[str] | None, option("--id", help="Only the message with this id; may be repeated.", metavar="ID")]


class Conditions(Options):
    """What the options of a command choose. `ids` are alternatives; everything else has to be met together."""

    def __init__(
        self,
        text: Text = None,
        header: Header = None,
        reason: Reason = None,
        group: Group = None,
        message_id: Ids = None,
    ) -> None:
        self.ids = message_id or []
        given = {"text": text, "header": header, "reason": reason, "group": group}
        self._given = {name: value for name, value in given.items() if value is not None}

    def __bool__(self) -> bool:
        return bool(self.ids or self._given)

    @property
    def where(self) -> Match | None:
        """The conditions; None without one."""
        return Match(message_id=self.ids or None, **self._given) if self else None

    def __str__(self) -> str:
        parts = [f"{name} {value!r}" for name, value in self._given.items()]
        return " and ".join([*parts, *([f"id {', '.join(self.ids)}"] if self.ids else [])])


COLUMNS = ("state", *records.MESSAGES[:-1], "due in", "lease", "owner", records.MESSAGES[-1])
_OPTIONAL = records.OPTIONAL | {"due in", "lease", "owner"}
_States = Annotated[list[str] | None, option("--state", help="Only messages in this state; may be repeated.")]
_DedupKey = Annotated[
    str | None,
    option(
        "--dedup-key",
        help="Tell whether this deduplication key is remembered, so that a message with it counts as a duplicate.",
    ),
]


class Hit(NamedTuple):
    """A message that a search found, and its state; due: when a delayed one is ready; owner: of its lease."""

    state: str
    message: Message
    due: datetime | None
    owner: str | None


def search(
    queue: Queue, *, state: _States = None, wanted: Conditions, dedup_key: _DedupKey = None, count: Count = 100, at: At
) -> None:
    """Find messages, page by page and without moving them; Ctrl-C ends the search and shows what was found so far."""
    if not wanted and dedup_key is None:
        raise ConfigurationError("say what to search for: --id, --text, --header, --reason, --group or --dedup-key")
    with at.queue(queue) as opened:
        if dedup_key is not None:
            _tell_key(opened, dedup_key, as_json=at.as_json)
        if (where := wanted.where) is None:
            return
        states = _states(opened, state)
        with watched("found") as watch:
            hits = list(_hits(opened, states, where, count, watch))
    _show(queue, hits, where, as_json=at.as_json)
    if not hits and where.reason and "*" not in where.reason:
        note(f"a reason matches as a whole: try --reason '*{where.reason}*'")
    if not hits and where.text and re.search(r'": |", "', where.text):
        note("JSON is stored without spaces, as in --text '\"customer\":3'")
    if len(hits) == count:
        note(f"these are the first {counted(count, 'message')}: --count shows more")
    watch.end()


def matching(queue: Any, state: str, where: Match, watch: Watched) -> Iterator[SearchPage]:
    """Yield the pages of a search until its end, or until the command is stopped."""
    after: str | None = None
    while True:
        page: SearchPage = queue.admin.search(state, where, after=after)
        yield page
        go_on = watch.step(Progress(0, page.scanned, page.total))
        after = page.after
        if after is None or not go_on:
            return


def _states(queue: Any, given: list[str] | None) -> list[str]:
    """Return the states to search. Raises ConfigurationError."""
    logs = ("completed", "failed") if can(queue, "browse") else ()
    able = [*tools_of(queue).stored_states, *logs]
    for name in given or ():
        if name not in able:
            raise ConfigurationError(f"--state must be one of {', '.join(able)}, not {name!r}")
    return list(dict.fromkeys(given or able))


def _hits(queue: Any, states: list[str], where: Match, most: int, watch: Watched) -> Iterator[Hit]:
    for state in states:
        for page in matching(queue, state, where, watch):
            for hit in _of_page(state, page):
                yield hit
                watch.done += 1
                if watch.done == most:
                    return
        if watch.stopped:
            return


def _of_page(state: str, page: SearchPage) -> Iterator[Hit]:
    for place, message in enumerate(page.messages):
        due = page.due[place] if page.due else None
        yield Hit(state, message, due, page.owners[place] if page.owners else None)


def _show(queue: str, hits: list[Hit], where: Match, *, as_json: bool) -> None:
    if as_json:
        for hit in hits:
            about = {
                "state": hit.state,
                "due_at": hit.due.isoformat() if hit.due else None,
                "lease": hit.message.lease_id or None,
                "owner": hit.owner,
            }
            emit(records.message_record(queue, hit.message) | about)
        return
    show(
        COLUMNS,
        [row(hit, where.text) for hit in hits],
        f"no message of {queue} meets these conditions",
        optional=_OPTIONAL,
    )


def row(hit: Hit, text: str | None = None) -> tuple[object, ...]:
    """Return a message as a row under `COLUMNS`, its payload around a text that was searched for."""
    *about, payload = records.message_row(hit.message, around=text)
    return (hit.state, *about, records.due_in(hit.due), hit.message.lease_id or None, hit.owner or None, payload)


def _tell_key(queue: Any, key: str, *, as_json: bool) -> None:
    left = queue.admin.remembered(key)
    if as_json:
        emit({"queue": queue.name, "dedup_key": key, "remembered_s": left})
    elif left is None:
        say(f"{queue.name} does not remember the key {key!r}: a message with it is accepted")
    else:
        say(f"{queue.name} remembers the key {key!r} for {ago(left)}: until then a message with it is a duplicate")
