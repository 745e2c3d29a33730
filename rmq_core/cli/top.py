"""`rmq top`: a live table of all queues' figures."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from math import ceil
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from rmq_core.cli import records
from rmq_core.cli.inspecting import chosen, stats_of_each
from rmq_core.cli.keyboard import Keyboard
from rmq_core.cli.opening import Registered, Server, connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queues, Url
from rmq_core.cli.output import complain, console, emit, plain, table
from rmq_core.errors import QueueUnavailable
from rmq_core.interrupt_handler import Stopping
from rmq_core.protocol import WorkQueue
from rmq_core.reports import QueueStats

_BARS = " ▁▂▃▄▅▆▇█"
_REMEMBERED = 12
_NAMED = 5

_Interval = Annotated[float, typer.Option("--interval", "-i", min=0.1, help="Seconds between polls.")]
_Times = Annotated[int | None, typer.Option("--times", min=1, help="Stop after this many polls.", show_default=False)]


def top(
    queue: Queues = None,
    *,
    interval: _Interval = 2,
    times: _Times = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Show a live view of all or the named queues; q or Ctrl-C quits.

    Without a terminal, or with --json, append each poll to the output.
    """
    with (
        connected(url) as server,
        closing(Monitor(server, queue, discipline)) as watch,
        closing(Stopping()) as stopping,
        _shown(watch, as_json=as_json) as show,
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
            queues = chosen(self.server, self.names, self.discipline)
            self.found, unread = stats_of_each(queues, self._stats)
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
