"""Search messages, and change those that meet conditions: redrive, purge and discard by filter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.inspecting import stats, stored_in
from rmq_core.discipline.leased.operations.moving import STATES, export_page
from rmq_core.discipline.leased.operations.publishing import deduplicates, digest_of, key_bytes
from rmq_core.envelope import codec
from rmq_core.envelope.matching import Match, Test, chosen_by
from rmq_core.envelope.payloads import decode_payload
from rmq_core.envelope.stored import StoredMessage, StoredPage
from rmq_core.errors import ConfigurationError, ScriptFailed
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.observe.fact import Act
from rmq_core.queue.choosing import Changes, Markers, Place, Some, change_chosen, discard_chosen, drop_chosen
from rmq_core.queue.keys import UNHELD
from rmq_core.queue.moving import Cursor, list_page
from rmq_core.queue.searching import Position, found_in, number_in, position_of, reasons_in
from rmq_core.reports import OnProgress, ReasonGroup, SearchPage

_SIDES = {"ready": "right", "dead": "left", "completed": "left", "failed": "left"}
"""The end of each list at which messages are added: a scan from there overlooks none when others are added or taken."""
TARGETS = tuple(dict.fromkeys((*UNHELD, *STATES)))
_AT_ONCE = 250


def search(engine: LeasedEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the messages in a state, and return those that meet the conditions.

    target: `ready` (without isolated messages), `isolated`, `delayed`, `leased`, `dead`, `completed` or `failed`; lists
    are searched from the newest message on. after: what the last step returned, None for the first one. A step reads at
    most 1,000 messages or 4 MiB; repeat it until `after` is None.
    """
    if target not in TARGETS:
        raise ConfigurationError(f"target must be one of {', '.join(TARGETS)}, not {target!r}")
    test, at = tested(engine, where), position_of(after, target)
    page, total = yield from _page(engine, target, at)
    return found_in(page, target, test, at, total)


def dead_reasons(engine: LeasedEngine, *, progress: OnProgress | None = None) -> Exchange[list[ReasonGroup]]:
    """Group all dead letters by the reasons of their failures, the largest group first.

    Numbers, hex ids and UUIDs are replaced by `#`. progress: called after each page; False stops the count there.
    """
    return (yield from reasons_in(engine.keys.dead, progress))


def discard(engine: LeasedEngine, message_ids: Iterable[str]) -> Exchange[int]:
    """Delete the dead letters with these ids; return how many. Of several with one id, the newest are deleted."""
    done = yield from discard_chosen(Place(engine.keys.dead, _SIDES["dead"]), message_ids)
    engine.state(Act.DISCARD, done.deleted, ids=done.ids)
    return done.deleted


def redrive_where(engine: LeasedEngine, where: Match, changes: Changes) -> Exchange[int]:
    """Move dead letters that meet the conditions back to ready, the oldest first; return how many."""
    keys = engine.keys

    def change(some: Some) -> Call:
        return script(
            "leased/redrive_chosen", keys, bell=keys.bell, first=some.first, last=some.last, letters=some.entries
        )

    return (yield from change_chosen(Place(keys.dead, "right"), tested(engine, where), change, changes))


def purge_where(engine: LeasedEngine, target: str, where: Match, changes: Changes) -> Exchange[int]:
    """Delete the messages in one state that meet the conditions; return how many. `ready` includes isolated ones."""
    test = tested(engine, where)
    parts = ("ready", "isolated") if target == "ready" else (target,)
    for part in parts:
        if part in _SIDES:
            yield from _drop(engine, part, test, changes)
        else:
            yield from _drop_scored(engine, part, test, changes)
        if changes.over:
            break
    return changes.changed


def tested(engine: LeasedEngine, where: Match) -> Test:
    """Return the test of the conditions for this queue. Raises ConfigurationError."""
    return chosen_by(where, engine.config.dedup_key, key_bytes)


def marker_of(engine: LeasedEngine, envelope: bytes) -> bytes:
    """Return the deduplication digest that the queue's settings give a stored message; empty when they give none."""
    try:
        parts = codec.split(envelope)
        payload = decode_payload(parts.kind, parts.payload)
        return digest_of(engine, None, payload, parts.kind, parts.payload) or b""
    except Exception:  # a damaged message, or one that the key function refuses, must be removed too
        return b""


def remove(
    engine: LeasedEngine, key: bytes, kind: str, envelopes: Sequence[bytes], given: bytes | None = None
) -> Exchange[int]:
    """Remove messages; free the given deduplication key, else the keys that the queue's settings give them."""
    digests = [given] if given else [marker_of(engine, each) for each in envelopes] if deduplicates(engine) else []
    markers = [engine.keys.dedup(digest) for digest in digests]
    reply = yield script(
        "leased/cancel", key=key, markers=markers, kind=kind, window_ms=engine.dedup_window_ms, messages=envelopes
    )
    return number(reply, b"removed ")


def number(reply: bytes, prefix: bytes) -> int:
    """Return the number in a reply. Raises ScriptFailed for any other reply."""
    if not reply.startswith(prefix):
        raise ScriptFailed(f"the server answered {reply.decode()!r}")
    return int(reply[len(prefix) :])


def _page(engine: LeasedEngine, target: str, at: Position) -> Exchange[tuple[StoredPage, int]]:
    """Return a page, and how many messages are in this state."""
    cursor = at.cursor
    if target in _SIDES:
        key = engine.keys.of(target)
        page = yield from list_page(key, _SIDES[target], target, cursor)
        total = (yield script("leased/browse", key=key, offset=0, most=0, kind="list"))[0]
        return page, total
    page = yield from export_page(engine, target, cursor)
    return page, number_in((yield from stats(engine)), target) if at.total is None else at.total


def _drop(engine: LeasedEngine, target: str, test: Test, changes: Changes) -> Exchange[int]:
    def markers(envelopes: Sequence[bytes]) -> list[bytes]:
        return [engine.keys.dedup(marker_of(engine, each)) for each in envelopes]

    freed = Markers(markers, engine.dedup_window_ms) if target == "ready" and deduplicates(engine) else None
    return (yield from drop_chosen(Place(engine.keys.of(target), _SIDES[target]), test, changes, freed))


def _drop_scored(engine: LeasedEngine, target: str, test: Test, changes: Changes) -> Exchange[None]:
    """Delete chosen delayed or isolated messages, page by page; a page goes on behind the last message that stays."""
    key, _ = stored_in(engine, target)
    scored, cursor = partial(export_page, engine, target), Cursor()
    total = number_in((yield from stats(engine)), target)
    changes.scanned = 0
    while not changes.over and changes.scanned < total:
        page = yield from scored(cursor)
        chosen = [one.envelope for one in page.messages if test(one.envelope)][: changes.left]
        for lo in range(0, len(chosen), _AT_ONCE):
            changes.changed += yield from remove(engine, key, "zset", chosen[lo : lo + _AT_ONCE])
        cursor = _behind(page, frozenset(chosen), cursor)
        changes.scanned += len(page.messages)
        changes.tell(max(total, changes.scanned))
        if not page.messages:
            break


def _behind(page: StoredPage, gone: frozenset[bytes], before: Cursor) -> Cursor:
    kept = next((one for one in reversed(page.messages) if one.envelope not in gone), None)
    return before if kept is None else (kept.envelope, _score_of(kept))


def _score_of(kept: StoredMessage) -> str:
    return "-inf" if kept.due_ms is None else str(kept.due_ms)
