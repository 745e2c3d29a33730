"""Shows on a terminal how far a long command is, and lets the first Ctrl-C or SIGTERM end it between two steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import typer

from rmq_core.cli.failures import Exit
from rmq_core.cli.output import console, note
from rmq_core.interrupt_handler import Stopping
from rmq_core.reports import Progress

_SHOW_S = 0.5


class ProgressLine:
    """Shows a number on a terminal, at most twice a second."""

    def __init__(self, done: str) -> None:
        self._done, self._next = done, 0.0
        self._console = console(errors=True)

    def report(self, number: int, besides: str = "") -> None:
        """Show how many messages are done."""
        if self._console.is_terminal and (now := time.monotonic()) >= self._next:
            self._next = now + _SHOW_S
            done = f"{self._done} {number:,} " if self._done else ""
            self._console.print(f"\r{done}{besides}", end="")

    def close(self) -> None:
        """Clear the line."""
        if self._console.is_terminal and self._next:
            self._console.print("\r" + " " * 60 + "\r", end="")


@contextmanager
def shown(done: str) -> Iterator[ProgressLine]:
    """Show progress while the block runs."""
    made = ProgressLine(done)
    try:
        yield made
    finally:
        made.close()


class Watched:
    """Progress of a command that may be stopped. `done` adds up the changes of several operations."""

    def __init__(self, line: ProgressLine, stopping: Stopping) -> None:
        self._line, self._stopping = line, stopping
        self.done = 0
        self.last = Progress(0, 0, 0)

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()

    def step(self, progress: Progress) -> bool:
        """Show the progress of an operation; return whether it may go on."""
        # A redrive makes the list shorter; its length at the beginning is what a reader waits for.
        self.last = progress = progress._replace(total=max(progress.total, self.last.total))
        self._line.report(self.done + progress.changed, f"({progress.scanned:,} of {progress.total:,} looked at) ")
        return not self.stopped

    def end(self) -> None:
        """End the command with the exit code for a failure if it was stopped, and say how far it came."""
        if self.stopped:
            note(f"stopped: {self.last.scanned:,} of {self.last.total:,} messages looked at; run it again to go on")
            raise typer.Exit(Exit.FAILED)


@contextmanager
def watched(done: str) -> Iterator[Watched]:
    """Watch a long command while the block runs."""
    with shown(done) as line, closing(Stopping()) as stopping:
        yield Watched(line, stopping)
