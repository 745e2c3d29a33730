"""Functions that the YAML of the tests names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmq_core import Message
from rmq_dagster import ClaimedBatch

worked: list[Any] = []


def work(message: Message) -> None:
    """Fail for the message "bad", and once for each message that begins with "once"."""
    before = worked.count(message.payload)
    worked.append(message.payload)
    if message.payload == "bad" or (str(message.payload).startswith("once") and not before):
        raise ValueError("cannot read 17")


def summed(batch: ClaimedBatch) -> dict[str, Any]:
    """Return metadata; give one message back."""
    total = sum(amount for (amount,) in batch.payloads)
    batch.release(next(iter(batch)))
    return {"total": total}


def answered(batch: ClaimedBatch) -> int:
    return len(batch)


async def awaited(message: Message) -> None:
    worked.append(message.payload)


def not_awaited(message: Message) -> Any:
    return awaited(message)


def never_begun(message: Message) -> Iterator[None]:
    worked.append(message.payload)
    yield
