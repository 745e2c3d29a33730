from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.operations.inspecting import (
    backlog,
    browse,
    dead_letters,
    lease_info,
    leases,
    peek,
    poll_backlog,
    read,
    settled,
)
from rmq_core.errors import ConfigurationError, MalformedMessage, ScriptFailed
from rmq_core.exchange import Command
from rmq_core.messages import Lease
from rmq_core.reports import Backlog
from tests.unit.leased.by_hand import asked, drive, engine, envelope, given, held, result

INFO = [b"me", b"h", 1000, 2, b"5000", 7, 3, b"12", 0, 0]


@pytest.mark.parametrize(("lo", "hi"), [(3, 3), (5, 2), (0, 0), (10, None)])
def test_reading_an_empty_slice_sends_nothing(lo: int, hi: int | None) -> None:
    assert result(read(engine(), held(10, in_memory=False), lo, hi)) == []


@pytest.mark.parametrize("wrong", [{"lo": -1}, {"lo": True}, {"hi": -1}, {"hi": 1.5}])
def test_an_invalid_slice_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(wrong))} must be a whole number"):
        next(read(engine(), held(), **wrong))


def test_reading_without_token_is_refused_with_the_way_to_one() -> None:
    with pytest.raises(ConfigurationError, match="has no token; adopt"):
        next(read(engine(), Lease.from_json(held().to_json())))


def test_an_age_is_never_negative_after_the_clock_of_a_new_primary_went_back() -> None:
    assert result(backlog(engine()), [1, b"4000", 3500, b"", [], [], 0, b""]) == Backlog(1, 0.0)


@pytest.mark.parametrize(("due", "until"), [(b"", None), (b"4250", 0.75), (b"3500", 0.0), (b"100", 0.0)])
def test_a_backlog_query_requests_a_notification_and_returns_the_time_until_something_is_due(
    due: bytes, until: float | None
) -> None:
    (state, seconds), (call,) = drive(poll_backlog(engine(), 15_000), [[1, b"3000", b"3500", due, [], [], 0, b""]])
    assert (state, seconds) == (Backlog(1, 0.5), until)
    assert call.given["bell_ms"] == 15_000


def test_leases_are_listed_by_their_deadline_without_those_that_ended_in_the_meantime() -> None:
    found, (command, _) = drive(leases(engine(), 3), [[b"a", "b", b"c"], [INFO, None, INFO]])
    assert [info.id for info in found] == ["a", "c"]
    assert command == Command(("ZRANGE", engine().keys.leases, 0, 2))


def test_a_lease_with_an_unreadable_description_is_an_error() -> None:
    with pytest.raises(ScriptFailed, match="odd"):
        drive(leases(engine()), [[b"a", b"b"], [INFO, ScriptFailed("odd")]])


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_a_limit_of_no_leases_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^limit must be"):
        next(leases(engine(), limit))


@pytest.mark.parametrize("operation", [lease_info, settled])
@pytest.mark.parametrize("lease_id", ["", 5, "a{b}", "\n"])
def test_an_invalid_lease_id_is_refused(operation: Any, lease_id: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^lease_id "):
        next(operation(engine(), lease_id))


@pytest.mark.parametrize("operation", [peek, dead_letters])
@pytest.mark.parametrize("count", [0, -1, True, "1"])
def test_a_peek_at_no_messages_is_refused(operation: Any, count: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^count must be"):
        next(operation(engine(), count))


def test_an_entry_of_another_program_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        drive(peek(engine()), [[b"hello"]])


def test_a_mark_of_isolation_is_no_part_of_the_reason() -> None:
    history = b"nack\t2000\tme\tbad\n" + b"expired\t3000\tyou\t\x1f2 7 50 3\n"
    (found,) = result(dead_letters(engine(), 1), [envelope("x", history=history)])
    assert [(one.kind, one.owner, one.reason) for one in found.history] == [
        ("nack", "me", "bad"),
        ("expired", "you", ""),
    ]


def test_a_page_has_at_most_a_thousand_messages() -> None:
    (call,) = asked(browse(engine(), "ready", 0, 50_000), [0, [], []])
    assert given(call, "offset", "most", "kind") == [0, 1000, "list"]


@pytest.mark.parametrize("target", ["leases", "lease", "fence", "", None, ["ready"]])
def test_only_parts_without_a_holder_can_be_browsed(target: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="target must be one of ready, isolated, delayed, dead, completed, failed"
    ):
        next(browse(engine(), target))


@pytest.mark.parametrize("wrong", [{"offset": -1}, {"offset": True}, {"count": 0}, {"count": 1.5}])
def test_an_invalid_page_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(wrong))} must be a whole number"):
        next(browse(engine(), "ready", **wrong))
