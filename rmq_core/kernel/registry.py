"""Registry of queue names for tools, so that a tool never has to search the keyspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from rmq_core.connection.clients import opened
from rmq_core.errors import QueueFull, RedisMessageQueueError, ScriptFailed, WrongKeyType, translated
from rmq_core.exchange import Command, Exchange, text_of
from rmq_core.kernel.keys import QUEUES, queues_of
from rmq_core.protocol import DEFAULT, DISCIPLINES
from rmq_core.reports import PublishReport
from rmq_core.twin import awaited, twins

R = TypeVar("R")
NEW = 2
_REFUSED = (ScriptFailed, WrongKeyType, QueueFull)


class Named(Protocol):
    """A queue object with a name; `registered` is true if the name is registered for tools, or must not be.

    It is NEW if this object's last registration added the name.
    """

    registered: int

    @property
    def name(self) -> str: ...


def register(name: str, discipline: str) -> Exchange[int]:
    """Register a queue's name for tools. Return False if that is impossible now; the next call has to try again.

    It is impossible while the server is full, or while the node of a cluster that serves the list of all queues does
    not answer. Return NEW if no queue had the name. A name that is in the set of no discipline belongs to the default
    discipline.
    """
    try:
        added = yield Command(("SADD", QUEUES, name), aside=True)
        listed = added
        if added is not None and discipline != DEFAULT:
            try:
                listed = yield Command(("SADD", queues_of(discipline), name), aside=True)
            except _REFUSED:
                if added:
                    yield from _withdraw(name, DEFAULT)
                raise
    except QueueFull:  # a full server must not keep consumers from draining it
        return False
    if listed is None:
        return False
    return NEW if added else True


def provisional(engine: Named, discipline: str, exchange: Exchange[R]) -> Exchange[R]:
    """Run the first operation of a queue object. If Redis refuses it, remove the name that it registered.

    A user who may not write to a queue would otherwise add it to the list, and each tool would show a queue that does
    not exist. The name stays if the outcome is unknown, or if some of several messages were stored.
    """
    try:
        return (yield from exchange)
    except _REFUSED as error:
        stored = isinstance(error.report, PublishReport) and error.report.accepted
        if engine.registered == NEW and not stored:
            engine.registered = False
            yield from _withdraw(engine.name, discipline)
        raise


def _withdraw(name: str, discipline: str) -> Exchange[None]:
    with suppress(RedisMessageQueueError):  # the caller raises the error for which it withdraws the name
        for key in (QUEUES,) if discipline == DEFAULT else (QUEUES, queues_of(discipline)):
            yield Command(("SREM", key, name), aside=True)


def ready(engine: Named, discipline: str) -> Exchange[None]:
    """Register this queue for tools before its first message, unless that has been done."""
    if not engine.registered:
        engine.registered = yield from register(engine.name, discipline)


def list_all(pipeline: Any) -> Any:
    """Queue a SMEMBERS for each discipline on the pipeline and return it; `named_in` reads the replies."""
    for discipline in DISCIPLINES:
        pipeline.smembers(queues_of(discipline))
    return pipeline.smembers(QUEUES)


def named_in(replies: Sequence[Iterable[bytes | str]]) -> list[tuple[str, str]]:
    """Return the names of the queues with their disciplines. A name used by two disciplines appears twice."""
    *own, every = replies
    pairs = [(text_of(name), discipline) for discipline, names in zip(DISCIPLINES, own, strict=True) for name in names]
    others = {name for name, _ in pairs}
    return pairs + [(name, DEFAULT) for name in map(text_of, every) if name not in others]


def look_up(pipeline: Any, name: str) -> Any:
    """Queue a SISMEMBER for each discipline on the pipeline and return it; `found_in` reads the replies."""
    for discipline in DISCIPLINES:
        pipeline.sismember(queues_of(discipline), name)
    return pipeline.sismember(QUEUES, name)


def found_in(replies: Sequence[int]) -> str | None:
    """Return the discipline of a queue; None if it is unknown. A registered queue without a discipline is leased."""
    return next((name for name, has_it in zip((*DISCIPLINES, DEFAULT), replies, strict=True) if has_it), None)


async def _queues(asynchronous: bool, redis: Any) -> list[str]:
    """Return the names of all queues that were ever published to or claimed from on this server."""
    return sorted(await _disciplines(asynchronous, redis))


async def _disciplines(asynchronous: bool, redis: Any) -> dict[str, str]:
    """Return the discipline of each queue that `queues` lists, by queue name; `open_queue` takes both."""
    async with opened(redis, asynchronous=asynchronous) as client:
        with translated():
            return dict(named_in(await awaited(list_all(client.pipeline(transaction=False)).execute())))


async def _discipline_of(asynchronous: bool, redis: Any, name: str) -> str | None:
    """Return the discipline of a queue; None when the server knows no such queue.

    This takes one round trip, however many queues exist.
    """
    async with opened(redis, asynchronous=asynchronous) as client:
        with translated():
            return found_in(await awaited(look_up(client.pipeline(transaction=False), name).execute()))


queues, async_queues = twins(_queues)
disciplines, async_disciplines = twins(_disciplines)
discipline_of, async_discipline_of = twins(_discipline_of)
