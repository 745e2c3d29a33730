"""Groups: sets and removes how the messages of a queue wait in groups.

A queue with groups is stored in format 2: a deque for each group takes the place of the list of ready messages, by the
files in `grouped`. All other scripts are those of a plain queue, which therefore costs what it cost.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from rmq_core.envelope.codec import new_id
from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Command, Exchange, number_after, text_of
from rmq_core.exchange.scripts import format_key, script
from rmq_core.kernel.registry import ready
from rmq_core.leased.config import DISCIPLINE
from rmq_core.leased.publishing import PEACE_MS, PUBLICATION, finish
from rmq_core.leased.state import LeasedEngine
from rmq_core.policy import Groups, moment, whole
from rmq_core.reports import GroupStats, Publication

_FORMAT = 2
_SCANS, _A_PAGE = 100, 1000


def groups(engine: LeasedEngine, count: int = 20) -> Exchange[list[GroupStats]]:
    """Return the groups with the most waiting messages, at most `count`; [] where messages do not wait in groups.

    Of more than 100,000 groups, it looks through about so many. Groups without waiting messages are listed while a
    lease holds them.
    """
    most, found, cursor = whole("count", count, minimum=1), list[GroupStats](), 0
    for _ in range(_SCANS):
        cursor, page = yield Command(("HSCAN", engine.keys.groups, cursor, "COUNT", _A_PAGE))
        found += [_group(name, record) for name, record in _pairs(page).items() if name != "\0"]
        found = sorted(found, key=lambda each: (-each.waiting, -each.leases, each.name))[:most]
        if int(cursor) == 0:
            break
    return found


def _pairs(reply: Any) -> dict[str, str]:
    """Return the fields of a hash, of which a client of RESP3 makes a dict."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {text_of(name): text_of(value) for name, value in pairs}


def _group(name: str, record: str) -> GroupStats:
    place, _, _, waiting, leases, _, suspects, until_ms = record.split(" ")
    rests, isolated = place == "r" and int(until_ms) > 0, name.endswith("\1") or suspects != "0"
    name, _, priority = name.removesuffix("\1").partition("\2")
    return GroupStats(
        name,
        int(priority or 0),
        int(waiting),
        int(leases),
        place in "ts",
        isolated,
        moment(until_ms) if rests else None,
    )


def set_groups(engine: LeasedEngine, policy: Groups | None) -> Exchange[None]:
    """Let messages wait in groups, or in one line again (None); messages that wait are moved.

    Any other client of this version follows with its next call, and one of an older version raises FormatMismatch.
    Limited groups have no lines for priorities and isolated messages; so a queue comes from groups without limit to
    groups with one, and back, by way of one line.
    """
    present = yield from _present(engine)  # not what this client knows: another one may have changed it just now
    if present == policy:
        return
    yield from ready(engine, DISCIPLINE)
    if present and (policy is None or (present.concurrent is None) != (policy.concurrent is None)):
        yield from _ungroup(engine)
    if policy:
        yield from _store(engine, policy)
    else:
        yield Command(("UNLINK", engine.keys.unique))


def _present(engine: LeasedEngine) -> Exchange[Groups | None]:
    if text_of((yield Command(("TYPE", engine.keys.ready)))) != "string":
        return None
    stored = text_of((yield Command(("GET", engine.keys.ready))))
    limit, _, weights = stored.partition(" ")
    return Groups(int(limit) or None, json.loads(weights) if weights else {})


def _store(engine: LeasedEngine, policy: Groups) -> Exchange[None]:
    keys, publication, stage = engine.keys, new_id(), new_id()
    call = script(
        "leased/set_groups", keys, format=format_key(keys.prefix), staged=keys.staged(publication),
        stage=keys.stage(stage), policy=policy.stored, format_text=f"{_FORMAT} {version('rmq')}",
        publication=PUBLICATION + publication.encode(), stage_id=stage, peace_ms=PEACE_MS,
    )  # fmt: skip
    moved = number_after(b"changed ", (yield call))
    keys.layout = "grouped"
    if moved:
        yield from finish(engine, PUBLICATION.decode() + publication)


def _ungroup(engine: LeasedEngine) -> Exchange[None]:
    for name, stored in _pairs((yield Command(("HGETALL", engine.keys.publications)))).items():
        if not Publication.of(name, stored, 0).done:
            raise _uncounted(name)
    yield from _store(engine, Groups())  # so no lease comes to hold a group any more
    keys, publication, stage = engine.keys, new_id(), new_id()
    for name in map(text_of, (yield Command(("ZRANGE", keys.leases, 0, -1)))):
        if not name.startswith(PUBLICATION.decode()):
            yield script("leased/let_go", keys, ended_holds=keys.holds_of(keys.lease(name)), lease_id=name)
    call = script(
        "leased/ungroup", keys, format=format_key(keys.prefix), staged=keys.staged(publication),
        stage=keys.stage(stage), publication=PUBLICATION + publication.encode(), element=f"0 2 {stage}",
        peace_ms=PEACE_MS,
    )  # fmt: skip
    while True:
        reply = yield call
        if reply.startswith(b"counted "):
            yield from finish(engine, PUBLICATION.decode() + publication)
            raise _uncounted(text_of(reply)[8:])
        if not number_after(b"moved ", reply):
            break
    keys.layout = ""


def _uncounted(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"groups: publication {name!r} has not ended, and would not be counted any more; wait for its end, or purge its"
        " messages"
    )
