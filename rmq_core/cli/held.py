"""Finds out who holds the messages of a queue: leases, and the workers and consumers of disciplines without leases."""

from __future__ import annotations

from typing import Any, NamedTuple

from rmq_core.envelope.codec import Message, message_of
from rmq_core.errors import MalformedMessage
from rmq_core.queue.base import tools_of
from rmq_core.queue.verbs import can
from rmq_core.reports import LeaseInfo

_READ = 10_000


class MessageHolder(NamedTuple):
    """A worker or consumer that holds messages without a lease of its own; owner: its name, if the queue stores one."""

    owner: str
    messages: int
    first: Message | None


def held_leases(queue: Any, most: int) -> list[tuple[LeaseInfo, Message | None]]:
    """Return the leases that expire first, and the first unsettled message of each if it can be read."""
    infos: list[LeaseInfo] = queue.admin.leases(most) if can(queue, "leases") else []
    able = can(queue, "browse_lease")
    return [(info, _first(queue, info.id) if able else None) for info in infos]


def held_otherwise(queue: Any) -> list[MessageHolder]:
    """Return who holds messages that are in no lease; reads no more than 10,000 messages."""
    found: dict[str, MessageHolder] = {}
    if can(queue, "browse_lease"):
        return []
    cursor: Any = ()
    seen = 0
    while cursor is not None and seen < _READ:
        page = tools_of(queue).export_page("leased", cursor)
        for one in page.messages:
            if one.owner is not None or one.lease is None:
                owner = one.owner or ""
                known = found.get(owner) or MessageHolder(owner, 0, _decoded(one.envelope))
                found[owner] = known._replace(messages=known.messages + 1)
        seen, cursor = seen + len(page.messages), page.cursor
    return sorted(found.values(), key=lambda holder: -holder.messages)


def _first(queue: Any, lease_id: str) -> Message | None:
    found: list[Message] = queue.admin.browse_lease(lease_id, 0, 25)
    return found[0] if found else None


def _decoded(envelope: bytes) -> Message | None:
    try:
        return message_of(envelope)
    except MalformedMessage:
        return None
