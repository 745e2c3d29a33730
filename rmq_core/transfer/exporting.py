"""Exports a queue: reads its messages page by page, removes none, and yields the lines of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rmq_core.envelope.matching import Match, chosen_by
from rmq_core.envelope.stored import STATES, StoredMessage
from rmq_core.errors import ConfigurationError, QueueChanged, Unsupported
from rmq_core.queue.base import tools_of
from rmq_core.queue.verbs import can
from rmq_core.reports import QueueStats
from rmq_core.transfer.lines import Digest, Footer, Header, footer_line, header_line, message_line

_AGAIN = "stop its producers and consumers, and export again; --live exports it as it is"


class Export:
    """One export. `counts`, messages by state, and `changed` are complete once all lines are read.

    states: which messages; None for all that no consumer holds. include_leased: also those that consumers hold. where:
    only messages that meet one of these conditions; () for all. live: export although the queue is not paused; messages
    that move meanwhile may be missing or doubled.
    Raises Unsupported or ConfigurationError before anything is read.
    """

    def __init__(
        self,
        queue: Any,
        version: str,
        *,
        states: Sequence[str] | None = None,
        include_leased: bool = False,
        live: bool = False,
        where: Sequence[Match] = (),
    ) -> None:
        self._queue, self._version, self._live = queue, version, live
        self.states = _chosen(queue, states, include_leased=include_leased)
        self.before: QueueStats = queue.stats()
        if not live:
            self._check_paused()
        self.counts, self.changed = Counter[str](), False
        self._tests, self._seen = [chosen_by(each) for each in where], Counter[str]()
        self._digest = Digest()

    def lines(self, report: Callable[[int], object] = lambda _: None) -> Iterator[bytes]:
        """Yield the lines; call `report` with the number of messages so far after each page.

        Raises QueueChanged, before the last line, if messages moved in a queue that should stand still.
        """
        yield header_line(self._header())
        for state in self.states:
            yield from self._lines_of(state, report)
        self._compare(self._queue.stats())
        total = self.counts.total()
        yield footer_line(Footer(total, dict(self.counts), self._digest.text, self.changed))

    def _header(self) -> Header:
        queue, now = self._queue, self.before
        present = {
            "leased": now.leased, "delayed": now.delayed, "isolated": now.isolated, "ready": now.ready - now.isolated,
            "dead": now.dead,
        }  # fmt: skip
        return Header(queue.name, queue.discipline, self._version, self.states, present, self._live)

    def _lines_of(self, state: str, report: Callable[[int], object]) -> Iterator[bytes]:
        cursor: tuple[Any, ...] | None = ()
        while cursor is not None:
            page = tools_of(self._queue).export_page(state, cursor)
            if page.moved:
                self._note(f"{state} messages moved")
            found = [message for message in page.messages if self._is_wanted(message)]
            for message in found:
                line = message_line(message)
                self._digest.add(line[:-1])
                yield line
            self.counts[state] += len(found)
            self._seen[state] += len(page.messages)
            cursor = page.cursor
            report(self.counts.total())

    def _is_wanted(self, message: StoredMessage) -> bool:
        return not self._tests or any(test(message.envelope) for test in self._tests)

    def _compare(self, after: QueueStats) -> None:
        """Notice messages that left a state while it was exported; those that were added are no harm."""
        left = {"delayed": after.delayed, "dead": after.dead}
        for state, number in left.items():
            if number < self._seen[state]:
                self._note(f"{self._seen[state] - number} {state} messages moved or were removed")
        if "ready" in self.states and after.ready < self._seen["ready"] + self._seen["isolated"]:
            self._note("ready messages were claimed or removed")

    def _note(self, what: str) -> None:
        if not self._live:
            raise QueueChanged(f"queue {self._queue.name!r} changed during its export: {what}; {_AGAIN}")
        self.changed = True

    def _check_paused(self) -> None:
        queue = self._queue
        if not can(queue, "pause"):
            raise ConfigurationError(
                f"queue {queue.name!r} is {queue.discipline}, which cannot be paused: stop its producers and consumers,"
                " then export it with --live"
            )
        if not self.before.paused:
            raise ConfigurationError(
                f"queue {queue.name!r} is not paused: run `rmq pause QUEUE` first, or export it with --live; messages"
                " that move during a live export may be missing or doubled"
            )


def _chosen(queue: Any, states: Sequence[str] | None, *, include_leased: bool) -> list[str]:
    able = tools_of(queue).stored_states
    for state in states or ():
        if state not in able:
            raise Unsupported(queue.discipline, f"{state} messages", ("leased",))
    wanted = {*(states or able)} - {"leased"} | ({"leased"} if include_leased or "leased" in (states or ()) else set())
    return [state for state in STATES if state in wanted and state in able]
