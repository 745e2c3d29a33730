"""A queue of one discipline under test, and what the promises need to know about the discipline."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

from rmq_core.protocol import DISCIPLINES, Capabilities
from tests.core.conformance.kits import KITS, LONG_S, SHORT_S, Kit
from tests.core.conformance.stages import Stage

KINDS = {"any": {"str", "bytes", "dict", "list"}, "json": {"dict", "list"}, "dict": {"dict"}, "id": {"str"}}
_numbers = itertools.count()


def declares(capabilities: Capabilities, row: str) -> bool:
    """Return whether the capabilities include `row`: the name of one, or a kind of payload such as `str payload`."""
    kind, _, payload = row.partition(" ")
    return kind in KINDS[capabilities.payload] if payload else bool(getattr(capabilities, row))


def capabilities_of(discipline: str) -> Capabilities:
    """Return what a discipline declares."""
    declared: Capabilities = DISCIPLINES[discipline].load().capabilities
    return declared


class Subject:
    """A new queue: `queue` is one worker on it, `open` makes another."""

    def __init__(self, stage: Stage, discipline: str, kit: Kit | None = None) -> None:
        self.stage, self.discipline = stage, discipline
        self.name = f"conformance-{os.getpid()}-{next(_numbers)}"
        self._kit = kit or KITS[discipline]
        self._ends = ExitStack()
        self.queue = self.open()

    def open(self, name: str | None = None) -> Any:
        """Open another worker, or another queue."""
        return self._opened(self.name if name is None else name, LONG_S)

    def _opened(self, name: str, lease_s: float) -> Any:
        queue = self.stage.open(self.discipline, name, self._kit.config(name, lease_s))
        self._ends.callback(queue.close)
        return queue

    def able(self, capability: str) -> bool:
        """Return whether the discipline declares a capability."""
        return declares(self.queue.capabilities, capability)

    @property
    def keeps_times(self) -> bool:
        """Return whether messages store their time of publishing: a bare id does not."""
        return bool(self.queue.capabilities.payload != "id")

    def payload(self, number: int) -> Any:
        """Return a payload that this discipline accepts."""
        return f"m{number}" if self.able("str payload") else {"n": number}

    def number(self, payload: Any) -> int:
        """Return the number from which a payload was made."""
        return int(payload["n"] if isinstance(payload, dict) else payload[1:])

    def payloads(self, *numbers: int) -> list[Any]:
        return [self.payload(number) for number in numbers]

    def publish(self, *numbers: int) -> tuple[str, ...]:
        """Publish ready messages, oldest first; return their ids."""
        ids: tuple[str, ...] = self.queue.publish_many(self.payloads(*numbers)).ids
        return ids

    def held(self, *numbers: int, lease_s: float = LONG_S) -> Any:
        """Publish messages and let another worker claim them under one lease; return that worker and the lease."""
        self.publish(*numbers)
        worker, lease = self.claimed(len(numbers), lease_s)
        assert lease.count == len(numbers)
        return worker, lease

    def claimed(self, count: int, lease_s: float) -> Any:
        """Let another worker claim the ready messages for so many seconds; return that worker and the lease."""
        if self.able("extend"):
            worker = self.open()
            return worker, worker.claim(max_messages=count, lease=lease_s)
        worker = self._opened(self.name, lease_s)
        return worker, worker.claim(max_messages=count)

    def expire(self) -> None:
        """Let every lease that was made with SHORT_S expire."""
        if self._kit.expire is None:
            time.sleep(1.2 * SHORT_S)
        else:
            self._kit.expire(self.stage.plain, self.name)

    def let_pass(self, seconds: int) -> None:
        """Let so much time pass for every lease at once."""
        assert self._kit.let_pass is not None
        self._kit.let_pass(self.stage.plain, self.name, seconds)

    def recover(self) -> None:
        """Reclaim expired leases, where claiming does not do so."""
        if self._kit.recover is not None:
            self._kit.recover(self.queue)

    def recovered(self, wait_s: float = 10) -> Any:
        """Claim expired messages; return the lease, or None."""
        self.recover()
        return self.queue.claim(wait=wait_s if self._kit.recover is None else 0)

    def drain(self) -> list[Any]:
        """Claim and ack everything; return the payloads."""
        found = []
        while lease := self.queue.claim():
            found.append(lease.message.payload)
            self.queue.ack(lease)
        return found

    def counts(self) -> tuple[int, ...]:
        """Return the numbers of ready, delayed and leased messages, of leases and of dead letters."""
        return tuple(self.queue.stats()[:5])

    def in_background(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        return self.stage.in_background(call, *args, **options)

    def close(self) -> None:
        self._ends.close()
