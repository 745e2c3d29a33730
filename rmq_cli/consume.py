"""`rmq consume`: prints messages one by one, or passes each to a command whose exit code acks or nacks it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Annotated, Any

import typer

from rmq_cli import records
from rmq_cli.doctor_checks import paused
from rmq_cli.opening import At, LeaseSeconds, Queue, RetryAfter, argument, option
from rmq_cli.output import Exit, complain, here, json_of, note, plain
from rmq_core.batch import Batch
from rmq_core.envelope.codec import Message, plain_fields
from rmq_core.errors import ConfigurationError
from rmq_core.interrupt_handler import Stopping
from rmq_core.messages import Lease
from rmq_core.protocol import DEFAULT, WorkQueue
from rmq_core.reports import RunReport
from rmq_core.running import Abandoned, Refused

_LOOK_S = 0.5
_GRACE_S = 10
_LONGEST = 4096


def run_command(command: Sequence[str], data: bytes, about: Mapping[str, str], lease: Lease) -> int:
    """Run a command with `data` on stdin. Return its exit code, or minus the number of the signal that killed it.

    The command has a process group of its own: Ctrl-C reaches only `rmq`, and the command can finish its work. When the
    lease is lost, or a second signal comes, the command and all processes it started are ended.
    """
    with tempfile.TemporaryFile() as payload:  # a pipe would have to be fed between checks of the lease
        payload.write(data)
        payload.seek(0)
        # S603: the command is the user's own.
        child = subprocess.Popen(command, stdin=payload, env={**os.environ, **about}, process_group=0)
        try:
            return _watched(child, lease)
        except BaseException:
            _end(child)
            raise


def environment(queue: str, message: Message) -> dict[str, str]:
    """Return the variables that describe a message to a command: `RMQ_QUEUE`, `RMQ_MESSAGE_ID` and its other fields."""
    fields = plain_fields(message)
    about = {"queue": queue, "message_id": fields.pop("id"), **fields}
    texts = {f"RMQ_{name.upper()}": "" if value is None else str(value) for name, value in about.items()}
    # A header may hold any text; with a NUL, or with 128 KiB, no command could be started.
    return {name: text.replace("\0", "")[:_LONGEST] for name, text in texts.items()}


def _watched(child: subprocess.Popen[bytes], lease: Lease) -> int:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(_LOOK_S)
        lease.check()


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
            return


_RETRY_S = 10.0

_Command = Annotated[
    list[str] | None,
    argument(
        help="A command, after `--`: it gets the payload on stdin; exit code 0 acks, any other nacks.",
        metavar="[-- COMMAND]...",
    ),
]
_Most = Annotated[int | None, option("--max", min=1, help="Stop after this many messages.")]
_Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for each message before stopping.")]
_Follow = Annotated[bool, typer.Option("--follow", help="Wait for messages until interrupted.")]


def consume(
    queue: Queue,
    command: _Command = None,
    *,
    most: _Most = None,
    wait: _Wait = 0,
    follow: _Follow = False,
    lease: LeaseSeconds = None,
    retry_after: RetryAfter = None,
    at: At,
) -> None:
    """Take messages: print and ack each, or run a command for each.

    Ends when the queue is empty, after --max messages, or at the first Ctrl-C or SIGTERM once the current message is
    done; a second signal ends the command and releases its message. The exit code is 1 when a message failed or
    the queue is paused, but 0 when a signal ended --follow. With --json, prints or passes whole messages.
    """
    if command and shutil.which(command[0]) is None:
        raise ConfigurationError(f"command {command[0]!r} was not found; nothing was claimed")
    with at.queue(queue) as opened, closing(Stopping()) as stopping:
        consumer = Consumer(opened, command or (), stopping, most, as_json=at.as_json)
        if follow and (why := paused(opened)):
            complain(why)
        report = consumer.run(wait, lease, pause_after_failure(opened, retry_after), follow=follow)
        why = None if consumer.is_set() else paused(opened)
    note(_summary(report))
    if why:
        complain(why)
    ended_well = follow and stopping.is_set()  # a service that is stopped
    if why or (not ended_well and (report.failed or report.lost)):
        raise typer.Exit(Exit.FAILED)


def pause_after_failure(queue: WorkQueue, retry_after_s: float | None) -> float | None:
    """Return after how many seconds a failed message is ready again: else it might fail repeatedly without a pause.

    None leaves it to the backoff that is stored with a leased queue.
    """
    if retry_after_s is not None or not queue.capabilities.delay:
        return retry_after_s
    return None if queue.discipline == DEFAULT and queue.admin.settings().stored.get("backoff") else _RETRY_S


class Consumer:
    """Works on single messages, until a signal or the most messages."""

    def __init__(
        self, queue: WorkQueue, command: Sequence[str], stopping: Stopping, most: int | None, *, as_json: bool
    ) -> None:
        self.queue, self.command, self.as_json = queue, command, as_json
        self._stopping, self._most, self._seen = stopping, most, 0

    def is_set(self) -> bool:
        """Return whether to stop."""
        return self._stopping.is_set() or self._seen == self._most

    def run(self, wait_s: float, lease_s: float | None, retry_after_s: float | None, *, follow: bool) -> RunReport:
        """Work until there is nothing more to do. Raises OSError if stdout is closed or the command cannot run."""
        return self.queue.run(
            self._handle,
            max_messages=1,
            lease=lease_s,
            wait=wait_s,
            until_empty=not follow,
            retry_after=retry_after_s,
            owner=here(),
            stop=self,
        )

    def _handle(self, batch: Batch) -> None:
        self._seen += 1
        (message,) = batch
        try:
            code = self._pass_on(message, batch.lease)
        except OSError as error:  # the message is not at fault
            raise Abandoned from error
        if code:
            raise Refused(f"exit code {code}")

    def _pass_on(self, message: Message, lease: Lease) -> int:
        if not self.command:
            self._write(message)
            return 0
        data = json_of(self._record(message)).encode() if self.as_json else message.raw
        return run_command(self.command, data, environment(self.queue.name, message), lease)

    def _write(self, message: Message) -> None:
        out = sys.stdout
        if self.as_json:
            out.write(json_of(self._record(message), out.encoding) + "\n")
        elif out.isatty():
            out.write(plain(message.raw.decode(errors="replace")) + "\n")
        else:
            out.buffer.write(message.raw + b"\n")
        out.flush()

    def _record(self, message: Message) -> dict[str, Any]:
        return records.message_record(self.queue.name, message)


def _summary(report: RunReport) -> str:
    counts = (
        (report.handled, "acked"),
        (report.failed - report.dead, "failed and requeued"),
        (report.dead, "failed and dead"),
        (report.lost, "lost to another consumer"),
    )
    return ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no messages"
