"""`Fact`: what an operation did. `Observer`: the part of an engine to which operations state facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

from rmq_core.events import EventOutcome, OnEvent, Operation, QueueEvent, emit
from rmq_core.exchange import Exchange
from rmq_core.messages import Lease
from rmq_core.observe.history import BREAKER
from rmq_core.observe.tally import Tally


class Invocation(NamedTuple):
    """A call of a queue's method, before its operation begins."""

    engine: Any
    verb: str
    operation: Callable[..., Exchange[Any]]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def exchange(self) -> Exchange[Any]:
        return self.operation(self.engine, *self.args, **self.kwargs)


Begin: TypeAlias = Callable[[Invocation], Exchange[Any]]


def begin_with(queue: Any, wrap: Callable[[Begin, Invocation], Exchange[Any]]) -> None:
    """Run the later operations of a queue as `wrap(begin, invocation)`, in which `begin` is what ran them so far."""
    queue._begin = partial(wrap, queue._begin or Invocation.exchange)  # noqa: SLF001  no name for users of a queue


class Act(StrEnum):
    """What an operator does, by the word of its verb. It is a mark in the history, and no event of the queue.

    A pause by the breaker is an event too, because no operator knows of it.

    entry: the journal's word for each message that a fact of it names; empty for an act that names none.
    """

    entry: str

    def __new__(cls, word: str, entry: str) -> Self:
        made = str.__new__(cls, word)
        made._value_, made.entry = word, entry
        return made

    EDIT = "edit", "edited"
    DISCARD = "discard", "deleted"
    RUN_NOW = "run-now", "run now"
    CANCEL = "cancel", "cancelled"
    DEAD_LETTER = "dead-letter", "dead-lettered"
    REDRIVE = "redrive", "redriven"
    PURGE = "purge", ""
    PAUSE = "pause", ""
    RESUME = "resume", ""
    CONFIGURE = "configure", ""


ENTRIES = {str(act): act.entry for act in Act if act.entry}
"""The kinds of marks that may name messages, and the journal's words for the same."""


@dataclass(slots=True)
class Fact:
    """What happened to `count` messages.

    lease: the lease of the messages, or its id where only that is known. message_id: the message, if an event names it.
    ids: which messages it is about, if not all of the lease; they can be read once. by: who did it, if not the holder;
    for a publish the headers, which may name the publisher. word: the journal's word for it, if not that of the kind.
    """

    kind: Operation | Act
    count: int
    lease: Lease | str | None
    message_id: str | None
    ids: Iterable[str]
    reason: str | None
    by: str | Mapping[str, str] | None
    word: str

    @property
    def lease_id(self) -> str | None:
        lease_id = self.lease.id if isinstance(self.lease, Lease) else self.lease
        return lease_id and lease_id.removeprefix("~@")  # of a part in one shard: the lease that it is of


Sink: TypeAlias = Callable[[Fact], object]


class Observer:
    """The part of an engine that observes. tally: the history's sink; None if this client does not record."""

    __slots__ = ()
    tally: Tally | None
    sinks: tuple[Sink, ...]

    def state(
        self,
        kind: Operation | Act,
        count: int = 1,
        lease: Lease | str | None = None,
        *,
        lease_ms: int | str | None = None,
        seconds: float | None = None,
        message_id: str | None = None,
        ids: Iterable[str] = (),
        reason: str | None = None,
        by: str | Mapping[str, str] | None = None,
        word: str = "",
    ) -> None:
        """State a Fact; nothing happens for a count of 0.

        lease_ms: for how long a claim was granted, from which follows how long its messages have waited. seconds: how
        long messages that are in no lease were in work.
        """
        if count > 0:
            tally = self.tally
            if tally is not None:
                if type(kind) is Act:
                    tally.acted(kind, count, ids, by, reason)
                elif lease is None and seconds is None:
                    tally.noted.append((kind, count))  # as `take` does, without a call for each publish
                else:
                    tally.take(kind, count, lease, lease_ms, seconds)
            if self.sinks:
                fact = Fact(kind, count, lease, message_id, ids, reason, by, word)
                for sink in self.sinks:
                    sink(fact)


def emitting(queue: str, on_event: OnEvent) -> Sink:
    """Return the sink that calls `on_event`."""

    def observe(fact: Fact) -> None:
        kind = Operation.PAUSE if fact.kind is Act.PAUSE and fact.by == BREAKER else fact.kind
        if isinstance(kind, Operation):
            outcome = EventOutcome.SKIPPED if kind is Operation.DUPLICATE else EventOutcome.SUCCESS
            event = QueueEvent(
                queue, kind, outcome, message_id=fact.message_id, claim_id=fact.lease_id, count=fact.count,
                reason=fact.reason,
            )  # fmt: skip
            emit(on_event, event)

    return observe
