"""Queues, leases and messages as plain JSON values for the browser. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rmq_console.host import HolderOf
from rmq_core import Message
from rmq_core.admin.verbs import Verb
from rmq_core.messages import MESSAGE_FIELDS, Failure
from rmq_core.orchestrate.attention import Sign
from rmq_core.reports import (
    Client,
    GroupStats,
    LeaseInfo,
    Publication,
    QueueStats,
    SettledRecord,
    ShardStats,
    skews,
)

SHOWN_BYTES = 32_768
SHOWN_BINARY = 512
VERB = ("name", "word", "needs", "label", "picture", "states", "asks", "explains", "warns", "done")
PAYLOAD_KINDS = {"j": "json", "s": "text", "b": "bytes"}


def stats_shown(name: str, discipline: str, stats: QueueStats) -> dict[str, Any]:
    """Return a row of the overview."""
    return {"name": name, "discipline": discipline, **stats._asdict()}


def verb_shown(verb: Verb) -> dict[str, Any]:
    """Return what makes the button of a verb; the key `lacks` of a queue says whether it has the method `name`."""
    takes = [{**each._asdict(), "kind": each.kind.__name__} for each in verb.takes]
    return {**{name: getattr(verb, name) for name in VERB}, "takes": takes}


def lease_shown(lease: LeaseInfo, holder_of: HolderOf) -> dict[str, Any]:
    """Return a lease and, if its owner names one, the work that holds it."""
    return {
        "id": lease.id,
        "owner": lease.owner,
        "holder": holder_of(lease.owner),
        "state": lease.state,
        "count": lease.count,
        "settled": lease.settled,
        "takeovers": lease.takeovers,
        "claimed_at": ms_of(lease.claimed_at),
        "deadline": None if lease.deadline is None else ms_of(lease.deadline),
        "isolation": None if lease.isolation is None else str(lease.isolation),
    }


def client_shown(client: Client, processes: int) -> dict[str, Any]:
    """Return a client, how many processes of its program there were, and whether it is there now."""
    return {**client._asdict(), "at": ms_of(client.at), "processes": processes, "there": client.there}


def group_shown(group: GroupStats) -> dict[str, Any]:
    """Return a group with the time until which it rests."""
    return {**group._asdict(), "until": None if group.until is None else ms_of(group.until)}


def publication_shown(publication: Publication) -> dict[str, Any]:
    """Return the counts of a publication with the time of its end."""
    return {**publication._asdict(), "ended": None if publication.ended is None else ms_of(publication.ended)}


def shards_shown(shards: Sequence[ShardStats]) -> list[dict[str, Any]]:
    """Return the shards of a queue, each with what it holds, or with the error if it does not answer.

    skew: how many times the mean of ready messages it has; None for one that gets no more messages.
    """
    of_mean = skews(shards)
    return [
        {
            "name": each.name, "slot": each.slot, "draining": each.draining, "skew": of_mean.get(each.name),
            "stats": each.stats and each.stats._asdict(), "error": each.error,
        }
        for each in shards
    ]  # fmt: skip


def settled_shown(record: SettledRecord, holder_of: HolderOf) -> dict[str, Any]:
    """Return how many messages of a lease were acked, when and by whom."""
    return {
        "acked": record.acked,
        "owner": record.owner,
        "holder": holder_of(record.owner),
        "at": ms_of(record.at),
    }


def signs_shown(found: Sequence[Sign]) -> list[dict[str, str]]:
    """Return the reasons why a queue needs attention, the most urgent first."""
    return [each._asdict() for each in found]


def message_shown(
    message: Message, holder_of: HolderOf, due: datetime | None = None, most: int = SHOWN_BYTES
) -> dict[str, Any]:
    """Return a message with its payload; a payload of more than `most` bytes is cut, `size` is that of the whole."""
    text, cut = _payload(message, most)
    return {
        **{field.name: _plain(field.of(message)) for field in MESSAGE_FIELDS},
        "kind": PAYLOAD_KINDS.get(message.kind, "bytes"),
        "payload": text,
        "cut": cut,
        "size": len(message.raw),
        "headers": dict(message.headers),
        "due": None if due is None else ms_of(due),
        "history": [_failure_shown(failure, holder_of) for failure in message.history],
    }


def _plain(value: Any) -> Any:
    return ms_of(value) if isinstance(value, datetime) else value


def _payload(message: Message, most: int) -> tuple[str, bool]:
    if message.kind in "js":
        return message.raw[:most].decode(errors="ignore"), len(message.raw) > most
    return message.raw[:SHOWN_BINARY].hex(" "), len(message.raw) > SHOWN_BINARY


def _failure_shown(failure: Failure, holder_of: HolderOf) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "at": ms_of(failure.at),
        "owner": failure.owner,
        "holder": holder_of(failure.owner),
        "reason": failure.reason,
    }


def ms_of(moment: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return round(moment.timestamp() * 1000)
