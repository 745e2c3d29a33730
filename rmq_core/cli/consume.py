"""`rmq consume`: prints messages one by one, or passes each to a command whose exit code acks or nacks it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Annotated, Any

import typer

from rmq_core.cli import records
from rmq_core.cli.command import run_command
from rmq_core.cli.failures import Exit
from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Settings, Url
from rmq_core.cli.output import complain, here, json_of, note, plain
from rmq_core.cli.pauses import paused
from rmq_core.cli.stopping import Stopping
from rmq_core.envelope.codec import Message
from rmq_core.errors import ConfigurationError, LeaseLost
from rmq_core.messages import Lease

_RETRY_S = 10.0
_LOOK_S = 1.0  # how long a wait may go on after a signal

_Command = Annotated[
    list[str] | None,
    typer.Argument(
        help="A command, after `--`: it gets the payload on stdin; exit code 0 acks, any other nacks.",
        show_default=False,
        metavar="[-- COMMAND]...",
    ),
]
_Most = Annotated[int | None, typer.Option("--max", min=1, help="Stop after this many messages.", show_default=False)]
_Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for each message before stopping.")]
_Follow = Annotated[bool, typer.Option("--follow", help="Wait for messages until interrupted.")]
_Lease = Annotated[
    float | None,
    typer.Option(
        "--lease",
        min=0.001,
        help="Seconds that a message is leased; the lease is extended while its command runs.",
        show_default=False,
    ),
]
_RetryAfter = Annotated[
    float | None,
    typer.Option(
        "--retry-after",
        min=0,
        help="Seconds before a failed message is ready again.",
        show_default="10, if the discipline can delay",
    ),
]


def consume(
    queue: Queue,
    command: _Command = None,
    *,
    most: _Most = None,
    wait: _Wait = 0,
    follow: _Follow = False,
    lease: _Lease = None,
    retry_after: _RetryAfter = None,
    settings: Settings = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Take messages: print and ack each, or run a command for each.

    Ends when the queue is empty, after --max messages, or at the first Ctrl-C or SIGTERM once the current message is
    done; a second signal ends the command and releases its message. The exit code is 1 when a message failed or the
    queue is paused. With --json, prints or passes whole messages instead of payloads.
    """
    if command and shutil.which(command[0]) is None:
        raise ConfigurationError(f"command {command[0]!r} was not found; nothing was claimed")
    with (
        connected(url) as server,
        server.queue(queue, discipline, settings) as opened,
        closing(Stopping()) as stopping,
    ):
        consumer = Consumer(opened, command or (), lease, retry_after, as_json=as_json)
        if follow and (why := paused(opened)):
            complain(why)
        while consumer.seen != most and consumer.step(float("inf") if follow else wait, stopping):
            pass
        why = None if stopping.asked or consumer.seen == most else paused(opened)
    note(consumer.summary())
    if why:
        complain(why)
    if why or consumer.failed:
        raise typer.Exit(Exit.FAILED)


class Consumer:
    """Takes messages one by one and counts their outcomes."""

    def __init__(
        self,
        queue: Any,
        command: Sequence[str],
        lease_s: float | None,
        retry_after_s: float | None,
        *,
        as_json: bool,
    ) -> None:
        self.queue, self.command, self.as_json = queue, command, as_json
        self.lease_s, self.retry_after_s = lease_s, retry_after_s
        if retry_after_s is None and queue.capabilities.delay:  # else a message might fail repeatedly without a pause
            self.retry_after_s = _RETRY_S
        self.acked = self.nacked = self.dead = self.lost = 0
        self._owner = here()

    @property
    def seen(self) -> int:
        return self.acked + self.failed

    @property
    def failed(self) -> int:
        return self.nacked + self.dead + self.lost

    def step(self, wait_s: float, stopping: Stopping) -> bool:
        """Wait for a message, at most 1 s at a time, and process it. Return False if no message or a signal came."""
        while not stopping.asked:
            turn_s = min(wait_s, _LOOK_S)
            lease = self.queue.claim(lease=self.lease_s, wait=turn_s, owner=self._owner)
            if lease is not None:
                with self._held(lease):
                    self._deal(lease)
                return True
            wait_s -= turn_s
            if wait_s <= 0:
                return False
        return False

    def _held(self, lease: Lease) -> AbstractContextManager[object]:
        """Return a context that sends heartbeats if the discipline can extend leases."""
        return self.queue.hold(lease, self.lease_s) if self.queue.capabilities.extend else nullcontext()

    def summary(self) -> str:
        counts = (
            (self.acked, "acked"),
            (self.nacked, "failed and requeued"),
            (self.dead, "failed and dead"),
            (self.lost, "lost to another consumer"),
        )
        return ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no messages"

    def _deal(self, lease: Lease) -> None:
        try:
            code = self._handle(lease)
            if code:
                dead = self.queue.nack(lease, delay=self.retry_after_s, reason=f"exit code {code}").dead
                self.dead += dead
                self.nacked += 1 - dead
            else:
                self.queue.ack(lease)
                self.acked += 1
        except LeaseLost as error:
            self.lost += 1
            complain(str(error))
        except (KeyboardInterrupt, OSError):  # stdout is closed or the command cannot run: the message is not at fault
            self.queue.release(lease)
            raise

    def _handle(self, lease: Lease) -> int:
        message = next(iter(self.queue.messages(lease)))
        if not self.command:
            self._write(message)
            return 0
        data = json_of(self._record(message)).encode() if self.as_json else message.raw
        about = {"RMQ_QUEUE": self.queue.name, "RMQ_MESSAGE_ID": message.id, "RMQ_DELIVERIES": str(message.deliveries)}
        return run_command(self.command, data, about, lease)

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
