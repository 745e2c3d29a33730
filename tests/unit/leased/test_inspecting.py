from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rmq_core.discipline.leased.operations.inspecting import (
    backlog,
    browse,
    browse_lease,
    dead_letters,
    lease_info,
    leases,
    peek,
    poll_backlog,
    read,
    read_columns,
    settled,
    stats,
)
from rmq_core.errors import ConfigurationError, LeaseLost, MalformedMessage, ScriptFailed
from rmq_core.exchange import Batch, Command
from rmq_core.messages import IsolatedGroup, Isolation, Lease
from rmq_core.reports import Backlog, LeaseInfo, QueueStats, SettledRecord
from tests.unit.leased.by_hand import asked, drive, engine, envelope, envelopes, given, held, payloads, result, scripts

INFO = [b"me", b"h", 1000, 2, b"5000", 7, 3, b"12", 0, 0]


def test_reading_a_lease_gives_its_messages_with_their_places() -> None:
    lease = held(3, in_memory=False)
    found, (call,) = drive(read(engine(), lease), [[b"read", 1, 0, b"", envelopes(3)]])
    assert payloads(found) == ["p0", "p1", "p2"]
    assert [(message.index, message.lease_id, message.deliveries) for message in found] == [
        (0, "job", 2),
        (1, "job", 2),
        (2, "job", 2),
    ]
    assert given(call, "token", "first", "last") == ["7.abc", 0, 2]
    assert not call.slot


def test_columns_are_read_as_messages_are_without_those_settled_before() -> None:
    lease = held(3, in_memory=False)
    found, (call,) = drive(read_columns(engine(), lease), [[b"read", 1, 0, b"\x40", envelopes(3)]])
    assert (found.payloads, found.indexes, found.deliveries) == ([b"p0", b"p2"], [0, 2], [2, 2])
    assert given(call, "token", "first", "last") == ["7.abc", 0, 2]
    with pytest.raises(LeaseLost):
        result(read_columns(engine(), lease), [b"lost", 0, 0, b"", []])


def test_browsing_a_lease_requires_no_token() -> None:
    found, (call,) = drive(browse_lease(engine(), "job", 1, 3), [[b"read", 0, 0, b"", envelopes(2)]])
    assert [(message.index, message.lease_id) for message in found] == [(1, "job"), (2, "job")]
    assert given(call, "token", "first", "last") == ["", 1, 2]
    assert result(browse_lease(engine(), "job"), [b"lost", 0, 0, b"", []]) == []


def test_a_slice_is_read_by_place_and_ends_with_the_lease() -> None:
    lease = held(10, in_memory=False)
    found, (call,) = drive(read(engine(), lease, 8, 99), [[b"read", 0, 1, b"", envelopes(2)]])
    assert given(call, "token", "first", "last") == ["7.abc", 8, 9]
    assert [message.index for message in found] == [8, 9]


@pytest.mark.parametrize(("lo", "hi"), [(3, 3), (5, 2), (0, 0), (10, None)])
def test_reading_an_empty_slice_sends_nothing(lo: int, hi: int | None) -> None:
    assert result(read(engine(), held(10, in_memory=False), lo, hi)) == []


def test_a_long_slice_is_read_in_parts_as_large_as_each_reply() -> None:
    lease = held(9000, in_memory=False)
    parts = [[b"read", 0, 0, b"", envelopes(count)] for count in (4000, 1500, 3500)]
    found, wants = drive(read(engine(), lease), parts)
    assert [given(call, "first", "last") for call in wants] == [[0, 3999], [4000, 7999], [5500, 8999]]
    assert [message.index for message in found] == list(range(9000))


def test_reading_ends_at_the_actual_end_of_the_lease() -> None:
    assert result(read(engine(), held(5, in_memory=False)), [b"read", 0, 0, b"", []]) == []


@pytest.mark.parametrize(
    ("lo", "first", "bits", "left"),
    [
        (0, 0, b"\x80", [1, 2, 3]),
        (0, 0, b"\x50", [0, 2]),
        (0, 0, b"\xf0", []),
        (6, 0, b"\x02\x80", [7, 9]),
        (14, 1, b"\x01", [14, 16, 17]),
    ],
)
def test_settled_messages_are_left_out_and_the_others_keep_their_places(
    lo: int, first: int, bits: bytes, left: list[int]
) -> None:
    reply = [b"read", 0, first, bits, envelopes(4)]
    found = result(read(engine(), held(20, in_memory=False), lo, lo + 4), reply)
    assert [message.index for message in found] == left
    assert [message.id for message in found] == [f"m{index - lo}" for index in left]


def test_reading_a_lost_lease_is_an_error() -> None:
    lease = held()
    with pytest.raises(LeaseLost):
        drive(read(engine(), lease), [[b"lost", 0, 0, b"", []]])
    assert lease.lost


@pytest.mark.parametrize("wrong", [{"lo": -1}, {"lo": True}, {"hi": -1}, {"hi": 1.5}])
def test_an_invalid_slice_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(wrong))} must be a whole number"):
        next(read(engine(), held(), **wrong))


def test_reading_without_token_is_refused_with_the_way_to_one() -> None:
    with pytest.raises(ConfigurationError, match="has no token; adopt"):
        next(read(engine(), Lease.from_json(held().to_json())))


def test_the_backlog_counts_ready_messages_and_has_the_age_of_the_oldest() -> None:
    state, (call,) = drive(backlog(engine()), [[5, b"1000", 3500, b"", [], [], 0, b""]])
    assert state == Backlog(5, 2.5)
    assert call.given["bell_ms"] == 0


def test_a_backlog_lists_isolated_groups_and_the_number_of_claims_for_all_messages() -> None:
    state = result(backlog(engine()), [65, b"1000", 3500, b"", [], [30, 15, 5, 1], 0, b""])
    assert state.groups == (IsolatedGroup(30, 15), IsolatedGroup(5, 1))
    assert [state.claims(batch) for batch in (30, 10, 1)] == [1 + 2 + 5, 3 + 3 + 5, 65]


def test_an_empty_backlog_has_no_age() -> None:
    assert result(backlog(engine()), [0, b"", 3500, b"", [], [], 0, b""]) == Backlog(0, None)


def test_an_age_is_never_negative_after_the_clock_of_a_new_primary_went_back() -> None:
    assert result(backlog(engine()), [1, b"4000", 3500, b"", [], [], 0, b""]) == Backlog(1, 0.0)


def test_the_backlog_reclaims_expired_leases_until_none_is_left() -> None:
    wants = asked(
        backlog(engine()),
        [0, b"", 1000, b"", [b"a", b"b"], [], 0, b""],
        b"returned 3 0 9.x",
        b"live",
        [3, b"1000", 1000, b"", [b"b"], [], 0, b""],
        b"live",
    )
    assert scripts(wants) == ["backlog", "reclaim", "reclaim", "backlog", "reclaim"]


@pytest.mark.parametrize(("due", "until"), [(b"", None), (b"4250", 0.75), (b"3500", 0.0), (b"100", 0.0)])
def test_a_backlog_query_requests_a_notification_and_returns_the_time_until_something_is_due(
    due: bytes, until: float | None
) -> None:
    (state, seconds), (call,) = drive(poll_backlog(engine(), 15_000), [[1, b"3000", b"3500", due, [], [], 0, b""]])
    assert (state, seconds) == (Backlog(1, 0.5), until)
    assert call.given["bell_ms"] == 15_000


def test_stats_count_the_unsettled_messages_of_leases() -> None:
    found, (call, held) = drive(stats(engine()), [[4, 3, 2, 1, 1, b"1000", 3000, [b"a", b"b"], 2], 5])
    assert found == QueueStats(ready=4, delayed=3, leased=5, leases=2, dead=1, oldest_age=2.0, paused=True, isolated=2)
    assert call.given["listed"] == 1000
    keys = engine().keys
    assert held.given["lists"] == (keys.lease("a"), keys.settled("a"), keys.lease("b"), keys.settled("b"))


def test_stats_of_an_empty_queue_take_one_call() -> None:
    assert result(stats(engine()), [0, 0, 0, 0, 0, b"", 3000, [], 0]) == QueueStats(0, 0, 0, 0, 0, None, False)


def test_a_lease_is_described_without_its_token() -> None:
    info, (batch,) = drive(lease_info(engine(), "job"), [[INFO]])
    at = datetime.fromtimestamp(1, UTC)
    assert info == LeaseInfo("job", "me", "held", 7, 3, 2, at, datetime.fromtimestamp(5, UTC), 12)
    assert isinstance(batch, Batch)
    assert batch.calls[0].given["lease_id"] == "job"


def test_an_endless_lease_has_no_deadline() -> None:
    info = result(lease_info(engine(), "job"), [[*INFO[:4], b"inf", *INFO[5:]]])
    assert info is not None
    assert info.deadline is None


def test_a_lease_of_isolated_messages_states_why_it_is_small() -> None:
    info = result(lease_info(engine(), "job"), [[*INFO[:8], 3, 4]])
    assert info is not None
    assert info.isolation == Isolation(3, 4)
    assert str(info.isolation) == (
        "these have failed together before (3 times) and are tried apart from the others, at most 4 at a time"
    )


def test_lease_info_of_a_missing_lease_is_none() -> None:
    assert result(lease_info(engine(), "job"), [None]) is None


def test_leases_are_listed_by_their_deadline_without_those_that_ended_in_the_meantime() -> None:
    found, (command, _) = drive(leases(engine(), 3), [[b"a", "b", b"c"], [INFO, None, INFO]])
    assert [info.id for info in found] == ["a", "c"]
    assert command == Command(("ZRANGE", engine().keys.leases, 0, 2))


def test_listing_no_leases_sends_no_further_call() -> None:
    assert result(leases(engine()), []) == []


def test_a_lease_with_an_unreadable_description_is_an_error() -> None:
    with pytest.raises(ScriptFailed, match="odd"):
        drive(leases(engine()), [[b"a", b"b"], [INFO, ScriptFailed("odd")]])


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_a_limit_of_no_leases_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^limit must be"):
        next(leases(engine(), limit))


@pytest.mark.parametrize("record", [b"5 1500 worker 1", "5 1500 worker 1"])
def test_a_settled_lease_has_a_record(record: bytes | str) -> None:
    found, (command,) = drive(settled(engine(), "job"), [record])
    assert found == SettledRecord("job", 5, "worker 1", datetime.fromtimestamp(1.5, UTC))
    assert command == Command(("GET", engine().keys.done("job")))


def test_a_record_may_have_no_owner_or_not_exist() -> None:
    record = result(settled(engine(), "job"), b"5 1500 ")
    assert record is not None
    assert record.owner == ""
    assert result(settled(engine(), "job"), None) is None


@pytest.mark.parametrize("operation", [lease_info, settled])
@pytest.mark.parametrize("lease_id", ["", 5, "a{b}", "\n"])
def test_an_invalid_lease_id_is_refused(operation: Any, lease_id: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^lease_id "):
        next(operation(engine(), lease_id))


def test_a_peek_shows_the_oldest_first() -> None:
    found, (call,) = drive(peek(engine(), 3), [envelopes(3)])
    assert payloads(found) == ["p0", "p1", "p2"]
    assert call.given == {"list": engine().keys.ready, "count": -3}


def test_isolated_messages_are_listed_after_the_others_up_to_the_limit() -> None:
    found, (_, call) = drive(peek(engine(), 3), [envelopes(2), [1, [envelope("apart")], []]])
    assert payloads(found) == ["p0", "p1", "apart"]
    assert given(call, "key", "offset", "most", "kind") == [engine().keys.delayed, 0, 1, "isolated"]


def test_dead_letters_are_shown_newest_first_with_their_history() -> None:
    history = b"nack\t2000\tme\tbad\n"
    found, (call,) = drive(dead_letters(engine()), [[envelope("new", history=history), envelope("old")]])
    assert payloads(found) == ["new", "old"]
    assert found[0].history[0].reason == "bad"
    assert call.given == {"list": engine().keys.dead, "count": -10}


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


@pytest.mark.parametrize("target", ["ready", "dead", "completed"])
def test_a_page_of_messages_includes_the_total_number(target: str) -> None:
    page, (call,) = drive(browse(engine(), target, 50, 2), [[1_000_000, envelopes(2), []]])
    assert (page.total, payloads(page.messages), page.due) == (1_000_000, ["p0", "p1"], [])
    assert call.given["key"] == getattr(engine().keys, target)
    assert given(call, "offset", "most", "kind") == [50, 2, "list"]
    assert not call.slot


def test_a_page_of_delayed_messages_includes_the_due_time_of_each() -> None:
    page, (call,) = drive(browse(engine(), "delayed"), [[2, envelopes(2), [b"1000", b"2500.5"]]])
    assert [moment.timestamp() for moment in page.due] == [1, 2.5005]
    assert given(call, "offset", "most", "kind") == [0, 25, "delayed"]


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
