"""Groups: sets and removes how the messages of a queue wait in groups, and lists them.

It lists publications too, which are counted only in a queue with groups.

A queue with groups is stored in format 2: a deque for each group takes the place of the list of ready messages, by the
files in `grouped`. All other scripts are those of a plain queue, which therefore costs what it cost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, TypeVar

from rmq_core.envelope.codec import new_id
from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Command, Exchange, number_after, text_of, together
from rmq_core.exchange.scripts import script
from rmq_core.kernel.registry import ready
from rmq_core.leased.config import DISCIPLINE
from rmq_core.leased.inspecting import glance, server_time
from rmq_core.leased.publications import learn_groups, require_groups
from rmq_core.leased.publishing import COMMIT, PEACE_MS, finish
from rmq_core.leased.state import LeasedEngine
from rmq_core.policy import Groups, Rate, moment, policy_text, whole
from rmq_core.reports import Backlog, GroupStats, Publication

R = TypeVar("R", bound=tuple[Any, ...])
_FORMAT = 2
_SCANS, _A_PAGE = 100, 1000


def groups(engine: LeasedEngine, count: int = 20) -> Exchange[list[GroupStats]]:
    """Return the groups with the most waiting messages, at most `count`; [] where messages do not wait in groups.

    Of more than 100,000 groups, it looks through about so many. Groups without waiting messages are listed while a
    lease holds them.
    """

    def listed(name: str, record: str) -> tuple[str, list[str]] | None:
        return None if name == "\0" else (name, record.split(" "))

    found = yield from _first(
        engine.keys.groups, count, listed, lambda each: (-int(each[1][3]), -int(each[1][4]), each[0])
    )
    if not found:
        return []
    times = yield script("leased/resting", engine.keys, names=[name for name, _ in found])
    return [_group(name, record, text_of(at)) for (name, record), at in zip(found, times, strict=bool(times))]


def backlogs_by_group(engine: LeasedEngine, count: int) -> Exchange[dict[str, Backlog]]:
    """Return what `backlog(groups=[name])` returns, for each group of which a claim may get messages now.

    Of more than `count` groups, those with the most messages are returned. Raises ConfigurationError for a queue
    without groups.
    """
    yield from learn_groups(engine)
    require_groups(engine, "groups")
    listed = yield from groups(engine, count)
    names = list(dict.fromkeys(group.name for group in listed if group.ready))  # each priority is listed apart
    seen = yield from together([glance(engine, groups=name) for name in names])
    return {name: found.backlog for name, found in zip(names, seen, strict=True) if found.backlog.ready}


def publications(engine: LeasedEngine, count: int = 20) -> Exchange[list[Publication]]:
    """Return at most `count` publications: those that have not ended, with the most messages to do first, then others.

    Of the others, the newest ended come first. [] for a queue that counts none. Of more than 100,000, it looks through
    about so many.
    """
    now_ms = int((yield from server_time(engine)).timestamp() * 1000)
    return (
        yield from _first(
            engine.keys.publications, count, lambda name, stored: Publication.of(name, stored, now_ms), _order
        )
    )


def _first(
    key: bytes, count: int, read: Callable[[str, str], R | None], order: Callable[[R], Any]
) -> Exchange[list[R]]:
    """Return what is first in this order among the fields of a hash, at most `count`; of very many, some are read.

    What `read` returns begins with its name: a hash that grows or shrinks meanwhile may give a field twice.
    """
    most, found, cursor = whole("count", count, minimum=1), list[R](), 0
    for _ in range(_SCANS):
        cursor, page = yield Command(("HSCAN", key, cursor, "COUNT", _A_PAGE))
        made = (read(name, value) for name, value in _pairs(page).items())
        by_name = {each[0]: each for each in (*found, *made) if each is not None}
        found = sorted(by_name.values(), key=order)[:most]
        if int(cursor) == 0:
            break
    return found


def _order(each: Publication) -> tuple[float, int, str]:
    """Sort by the end, the newest first, after those without."""
    ended_s = each.ended.timestamp() if each.ended else float("inf")
    return -ended_s, -each.waiting - each.leased, each.name


def _pairs(reply: Any) -> dict[str, str]:
    """Return the fields of a hash, of which a client of RESP3 makes a dict."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {text_of(name): text_of(value) for name, value in pairs}


def _group(name: str, record: list[str], at: str) -> GroupStats:
    """Return a group. at: when claims may get its next message, in ms; 0 for now, inf when a lease has to end."""
    _, _, _, waiting, leases, _, suspects, *_ = record
    isolated = name.endswith("\1") or suspects != "0"
    name, _, priority = name.removesuffix("\1").partition("\2")
    ready = waiting != "0" and at == "0"
    until = None if waiting == "0" or at in {"0", "inf"} else moment(at)
    return GroupStats(name, int(priority or 0), int(waiting), int(leases), ready, isolated, until)


def set_groups(
    engine: LeasedEngine, policy: Groups | None, rate: Rate | None = None, group_rate: Rate | None = None
) -> Exchange[None]:
    """Let messages wait in groups, or in one line again (None); messages that wait are moved.

    Any other client of this version follows with its next call, and one of an older version raises FormatMismatch.
    Limited groups have no lines for priorities and isolated messages; so a queue comes from groups without limit to
    groups with one, and back, by way of one line.
    """
    present = yield from _present(engine)  # not what this client knows: another one may have changed it just now
    wanted = policy_text(policy, rate, group_rate) if policy else None
    if present == wanted:
        return
    yield from ready(engine, DISCIPLINE)
    if present is not None and (policy is None or present.startswith("0") != (policy.concurrent is None)):
        yield from _ungroup(engine, policy_text(Groups(), rate, group_rate), present)
    if wanted is not None:
        yield from _store(engine, wanted)
    else:
        yield Command(("UNLINK", engine.keys.unique))


def forget_groups(engine: LeasedEngine) -> Exchange[None]:
    """Remove the groups of a queue that was taken off the list of queues: its settings, which had them, are gone."""
    present = yield from _present(engine)
    if present is not None:
        with suppress(ConfigurationError):  # somebody holds a publication open, and goes on with the queue
            yield from _ungroup(engine, policy_text(Groups(), None, None), present)
            yield Command(("UNLINK", engine.keys.unique))


def _present(engine: LeasedEngine) -> Exchange[str | None]:
    """Return the policy as scripts read it; None where messages wait in one line."""
    if text_of((yield Command(("TYPE", engine.keys.ready)))) != "string":
        return None
    return text_of((yield Command(("GET", engine.keys.ready))))


def _store(engine: LeasedEngine, policy: str) -> Exchange[None]:
    keys, commit, stage = engine.keys, new_id(), new_id()
    call = script(
        "leased/set_groups", keys, staged=keys.staged(commit),
        stage=keys.stage(stage), new_policy=policy, format_text=f"{_FORMAT} {version('rmq')}",
        commit=COMMIT + commit.encode(), stage_id=stage, peace_ms=PEACE_MS,
    )  # fmt: skip
    moved = number_after(b"changed ", (yield call))
    keys.lay_out("grouped")
    if moved:
        yield from finish(engine, COMMIT.decode() + commit)


def _ungroup(engine: LeasedEngine, policy: str, former: str) -> Exchange[None]:
    for name, stored in _pairs((yield Command(("HGETALL", engine.keys.publications)))).items():
        if not Publication.of(name, stored, 0).done:
            raise _uncounted(name)
    yield from _store(engine, policy)  # so no lease comes to hold a group any more
    keys, commit, stage = engine.keys, new_id(), new_id()
    for name in map(text_of, (yield Command(("ZRANGE", keys.leases, 0, -1)))):
        if not name.startswith(COMMIT.decode()):
            yield script("leased/let_go", keys, ended_holds=keys.holds_of(keys.lease(name)), lease_id=name)
    call = script(
        "leased/ungroup", keys, staged=keys.staged(commit),
        stage=keys.stage(stage), commit=COMMIT + commit.encode(), element=f"0 2 {stage}",
        peace_ms=PEACE_MS,
    )  # fmt: skip
    while True:
        reply = yield call
        if reply.startswith(b"counted "):
            yield from finish(engine, COMMIT.decode() + commit)
            yield from _store(engine, former)
            raise _uncounted(text_of(reply)[8:])
        if not number_after(b"moved ", reply):
            break
    keys.lay_out("")


def _uncounted(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"groups: publication {name!r} has not ended, and would not be counted any more; wait for its end, or purge its"
        " messages"
    )
