"""What operators do with a queue and its messages: the methods of `queue.admin`, and a record of each change.

A discipline has a method or has not; nothing else says what it can do. A method that it lacks raises `Unsupported`,
which names the disciplines that have it. The commands of `rmq`, the routes of the API and the buttons of the console
are made of the records.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rmq_core.errors import Unsupported
from rmq_core.kernel.base import E, QueuePart, W
from rmq_core.observe.history import Mark
from rmq_core.protocol import DISCIPLINES


class Argument(NamedTuple):
    """What a verb gets besides what it changes: a parameter of `rmq`, a field of the API's request and of the question.

    name: of the method's parameter, which gets it by that name. help: a sentence. kind: a text, such as the name of
    another queue, a whole number, a float for seconds, or a list of texts; least: the smallest number.
    required: it is a parameter by its place, as a list is too. Any other is an option, which `rmq` calls `option`, or
    `--` and the name. metavar: what the help of `rmq` calls it.
    single: it is about one message, so `rmq` takes it with one ID only.
    """

    name: str
    help: str
    kind: type[str | int | float | list[str]] = str
    required: bool = False
    least: int | None = None
    option: str = ""
    single: bool = False
    metavar: str = ""

    @property
    def spelled(self) -> str:
        """The option of `rmq`."""
        return self.option or f"--{self.name.replace('_', '-')}"


class Verb(NamedTuple):
    """The record of a method of `queue.admin` that changes something.

    name: of the method. word: what `rmq`, the API, the history and, after `rmq_`, the audit log call it.
    needs: what it changes: a queue; a lease, whose id the method gets, and `if_owner`; all leases of an owner, whom it
    takes; or a message, whose id it gets, and it returns whether it was changed. What needs a selection has a command,
    a route and buttons of its own.
    takes: what else the method gets.
    lacks: what a discipline without the method has not.

    label, picture: of the button, one of `ICONS` in `static/dom.js`; empty for a verb without button and route. states:
    of the messages, or of the queue, that have it; empty for all. asks: the question before it, {it} being what it
    changes. explains: what it does, with {queue} and {holder}; its first sentence stands in lists. warns: it may do
    harm: `rmq` asks first, and the button that confirms is red.
    answer: makes the answer of the API from what the method returned; `rmq` passes the number of changed messages on.
    done: what it did, with {queue}, the names of required arguments, and {messages}, the first value of the answer.
    outcome: the same for the audit log, with the names of the answer. past: the word in the mark of the history, and in
    `nothing was …`, the answer about what is not as the user saw it.
    """

    name: str
    word: str
    needs: Literal["queue", "lease", "owner", "message", "selection"]
    lacks: str
    takes: tuple[Argument, ...] = ()
    label: str = ""
    picture: str = ""
    states: tuple[str, ...] = ()
    asks: str = ""
    explains: str = ""
    warns: bool = False
    answer: Callable[[Any], dict[str, Any]] = lambda _: {}
    done: str = ""
    outcome: str = ""
    past: str = "changed"

    @property
    def otherwise(self) -> str:
        """How a message is that the verb cannot change: `neither ready nor delayed`."""
        return f"{'neither' if len(self.states) > 1 else 'not'} {' nor '.join(self.states) or 'there'}"


_OWNER = Argument("owner", "The owner, as `rmq leases` shows it.", required=True)
VERBS = {
    each.name: each
    for each in (
        Verb(
            "pause", "pause", "queue", "pause",
            takes=(Argument("reason", "Why, for those who see the queue paused."),),
            label="Pause", picture="pause", states=("running",), asks="Pause {it}?",
            explains="Let claims of {queue} get no messages until it is resumed. Publishing goes on, and work that is"
            " already leased can be finished.",
            answer=lambda _: {"paused": True}, done="{queue} is paused", outcome="claims return no messages",
            past="paused",
        ),
        Verb(
            "resume", "resume", "queue", "pause",
            label="Resume", picture="play", states=("paused",), asks="Resume {it}?",
            explains="Let claims of {queue} get messages again.",
            answer=lambda _: {"paused": False}, done="{queue} is resumed", outcome="claims return messages again",
            past="resumed",
        ),
        Verb(
            "release_lease", "release", "lease", "release of a lease by its id",
            label="Release", picture="release", asks="Release {it}?",
            explains="Make the messages of a lease of {queue} ready again, and count no delivery. {holder} can no"
            " longer settle them: if it still runs, another worker does the same work again. Right for a holder that"
            " was stopped on purpose; if it crashed at work, expire the lease, so that a message that crashes its"
            " workers ends as a dead letter.",
            answer=lambda report: {"released": report.settled},
            done="released {messages} of {queue}", outcome="messages made ready again: {released}", past="released",
        ),
        Verb(
            "expire_lease", "expire", "lease", "way to expire a lease by its id",
            takes=(Argument("reason", "Why, for the history of its messages."),),
            label="Expire", picture="clock", asks="Expire {it}?", warns=True,
            explains="End a lease of {queue} now, as if its deadline had passed. A delivery is counted as failed, and"
            " the messages are ready again, or dead letters if it was their last. {holder} can no longer settle them."
            " Right for a holder that crashed at work or hangs; a release counts no delivery.",
            answer=lambda report: {"expired": report.settled, "dead": report.dead},
            done="gave back {messages} of {queue}, with a failed delivery",
            outcome="messages taken from the holder: {expired}, of which dead letters now: {dead}",
            past="expired",
        ),
        Verb(
            "release_leases", "release-leases", "owner", "release of all leases of an owner", takes=(_OWNER,),
            label="Release all", picture="release", asks="Release all leases of {it}?", warns=True,
            explains="Make the messages of all leases of an owner in {queue} ready again, and count no delivery."
            " {holder} can no longer settle them: if it still runs, others do the same work again. What it claims"
            " meanwhile stays: stop it first. If it crashed at work, expire its leases instead.",
            answer=lambda report: {"released": report.settled},
            done="released {messages} of {queue} that {owner} held",
            outcome="messages made ready again: {released}", past="released",
        ),
        Verb(
            "expire_leases", "expire-leases", "owner", "way to expire all leases of an owner",
            takes=(_OWNER, Argument("reason", "Why, for the history of its messages.")),
            label="Expire all", picture="clock", asks="Expire all leases of {it}?", warns=True,
            explains="End all leases of an owner in {queue} now, as if their deadlines had passed. A delivery of each"
            " message is counted as failed, and the messages are ready again, or dead letters if it was their last."
            " {holder} can no longer settle them; what it claims meanwhile stays: stop it first. Right for a holder"
            " that crashed at work or hangs; a release counts no delivery.",
            answer=lambda report: {"expired": report.settled, "dead": report.dead},
            done="gave back {messages} of {queue} that {owner} held, with a failed delivery",
            outcome="messages taken from the holder: {expired}, of which dead letters now: {dead}", past="expired",
        ),
        Verb(
            "run_now", "run-now", "message", "way to run a delayed message now",
            label="Run now", picture="play", states=("delayed",), asks="Run {it} now?",
            explains="Make delayed messages of {queue} ready at once instead of when they are due.",
            answer=lambda changed: {"ready": changed},
            done="{messages} of {queue} ready now", outcome="the message is ready",
            past="made ready early",
        ),
        Verb(
            "cancel", "cancel", "message", "way to remove a message by its id",
            takes=(Argument("dedup_key", "Also free this key, which its publisher named.", single=True),),
            label="Remove…", picture="trash", states=("ready", "delayed"), asks="Remove {it}?", warns=True,
            explains="Remove ready or delayed messages of {queue}. A message that a consumer has claimed stays. This"
            " cannot be undone.",
            answer=lambda changed: {"cancelled": changed},
            done="removed {messages} of {queue}", outcome="messages removed: {cancelled:d}", past="removed",
        ),
        Verb(
            "dead_letter", "dead-letter", "message", "way to make a dead letter of a message by its id",
            takes=(Argument("reason", "Why, for its history and the reasons of the dead letters."),),
            label="Dead-letter…", picture="alert", states=("ready", "delayed", "leased"),
            asks="Make {it} a dead letter?",
            explains="Move messages of {queue} to the dead letters, however many deliveries they have left; a redrive"
            " makes them ready again. Also one that a consumer has claimed, as a message that kills its workers: the"
            " consumer can no longer settle it, and keeps the others of its lease.",
            answer=lambda changed: {"dead_lettered": changed},
            done="moved {messages} of {queue} to the dead letters",
            outcome="messages moved to the dead letters: {dead_lettered:d}", past="moved to the dead letters",
        ),
        Verb(
            "configure", "configure", "queue", "settings that are stored with it",
            takes=(
                Argument(
                    "settings", "Settings to store, as max_deliveries=5.", list,
                    metavar="NAME=VALUE",
                ),
                Argument("reset", "Settings to store no longer: their names, separated by commas.", metavar="NAMES"),
            ),
            label="Settings…", picture="edit", asks="Change the settings of {it}?",
            explains="Store settings with {queue}. All of its clients follow them within two seconds, whatever their"
            " own configs say. Settings that are not stored are each program's own.",
            answer=lambda found: found.plain, done="{queue} stores {settings}", outcome="stored: {settings}",
            past="configured",
        ),
        Verb(
            "unregister", "forget", "queue", "way to take a queue off the list",
            explains="Remove an empty queue from the list; fail for one that holds any messages, even dead letters."
            " Sensors, the queues page and `stats` no longer include it. Publishing to it with a new queue object lists"
            " it again.",
            answer=lambda _: {"forgotten": True}, done="forgot {queue}",
        ),
        Verb("edit", "edit", "selection", "way to edit a dead letter", past="edited"),
        Verb("discard", "discard", "selection", "way to delete chosen dead letters", past="deleted"),
        Verb("redrive", "redrive", "selection", "dead letters to redrive", past="redriven"),
        Verb("redrive_some", "redrive", "selection", "redrive of chosen messages", past="redriven"),
        Verb("purge", "purge", "selection", "purge", past="purged"),
        Verb("mark", "mark", "selection", "history"),
    )
}  # fmt: skip
"""The verbs by the names of their methods."""
OTHERS = {
    "clients": "record of the programs that use it",
    "browse": "view of its messages by state",
    "browse_lease": "list of the messages of a lease",
    "dead_letters": "dead letters",
    "dead_reasons": "dead letters to group",
    "groups": "groups of messages",
    "forget": "way to forget a deduplication key",
    "history": "history",
    "journal": "journal",
    "leases": "list of leases",
    "marks": "history",
    "peek": "peek",
    "publications": "publications",
    "shards": "storage in several shards",
    "remembered": "way to look up a deduplication key",
    "search": "search",
    "settings": "settings that are stored with it",
    "server_time": "way to read the server's time",
    "totals": "history",
    "why": "way to explain a message",
}
"""The methods of `queue.admin` that need no record, and what a discipline without the method has not."""


def offered() -> list[Verb]:
    """Return the verbs of which a command, a route and a button are made."""
    return [each for each in VERBS.values() if each.label]


def said(mark: Mark) -> str:
    """Return what a mark of the history says: `removed: message 7`, or its free text."""
    past = {each.word: each.past for each in VERBS.values()}.get(mark.kind, mark.kind)
    return mark.text if mark.kind == "mark" else ": ".join(filter(None, (past, mark.text)))


def lacked() -> dict[str, str]:
    """Return the methods of `queue.admin`, and what a discipline without the method has not."""
    return {name: each.lacks for name, each in VERBS.items()} | OTHERS


class Lacks(Unsupported, AttributeError):
    """The error for a method that the discipline has not. For `hasattr`, the method is missing as any other is."""


class Admin(QueuePart[E, W]):
    """The base of what a discipline lists for operators."""

    if not TYPE_CHECKING:  # a type checker reports what a discipline does not have

        def __getattr__(self, name: str) -> Any:
            if name not in lacked():
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise lacking_verb(self._queue.discipline, name)


def can(queue: Any, name: str) -> bool:
    """Return whether a queue, its class, or an object that wraps a queue, has a method for operators."""
    admin = queue.admin
    kind = admin if isinstance(admin, type) else type(admin)
    return hasattr(kind if issubclass(kind, Admin) else admin, name)


def lacking_verb(discipline: str, name: str, what: str | None = None) -> Lacks:
    """Return the error for a method that a discipline lacks, or for a part of it: `what`."""
    return Lacks(discipline, what or lacked()[name], able_to(name))


def able_to(name: str) -> tuple[str, ...]:
    """Return the disciplines that have a method for operators."""
    return tuple(each.name for each in DISCIPLINES.values() if can(each.load(), name))


def lacking_conditions(discipline: str, name: str) -> Lacks:
    """Return the error for conditions on the messages of a method that takes none."""
    able = tuple(each.name for each in DISCIPLINES.values() if conditional(each.load(), name))
    return Lacks(discipline, f"{name} of messages that meet conditions", able)


def check_conditions(queue: Any, name: str) -> None:
    """Raise Unsupported if a method of the queue's `admin` is missing, or takes no conditions."""
    if not conditional(queue, name):
        raise lacking_conditions(queue.discipline, name)


def conditional(queue: Any, name: str) -> bool:
    """Return whether a method of a queue, or of its class, takes conditions: `where`."""
    return can(queue, name) and "where" in signature(getattr(queue.admin, name)).parameters


def lacks(queue: Any) -> dict[str, str]:
    """Return the methods that a queue has not, and why; `redrive_where` and `purge_where` stand for conditions."""
    found = {name: str(lacking_verb(queue.discipline, name)) for name in lacked() if not can(queue, name)}
    for name in ("redrive", "purge"):
        if not conditional(queue, name):
            found[f"{name}_where"] = str(lacking_conditions(queue.discipline, name))
    return found
