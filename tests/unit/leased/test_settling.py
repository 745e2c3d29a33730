from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rmq_core.discipline.leased.operations.settling import ack, extend, extend_all, nack, release
from rmq_core.errors import ConfigurationError, LeaseLost, NotDurable, QueueUnavailable, ScriptFailed
from rmq_core.events import Operation, QueueEvent
from rmq_core.exchange import Batch, Call
from rmq_core.messages import Lease
from rmq_core.policy import Durability, exponential
from rmq_core.reports import Outcome, SettleReport
from tests.unit.leased.by_hand import asked, counted, drive, engine, envelope, given, held, ref, result, scripts, step

WHOLE: list[Callable[..., Any]] = [ack, nack, release]
SOME = {"ack": ack, "nack": nack, "release": release}


@pytest.mark.parametrize("settle", [*WHOLE, extend])
def test_a_lease_without_token_settles_nothing(settle: Callable[..., Any]) -> None:
    lease = Lease.from_json(held().to_json())
    with pytest.raises(ConfigurationError, match="has no token"):
        next(settle(engine(), lease))


@pytest.mark.parametrize("settle", [*WHOLE, extend])
def test_a_lost_lease_raises_and_is_marked_as_lost(settle: Callable[..., Any]) -> None:
    events: list[QueueEvent] = []
    lease = held(3)
    with pytest.raises(LeaseLost, match="lease 'job' is lost"):
        drive(settle(engine(on_event=events.append), lease), [b"lost"])
    assert lease.lost
    assert counted(events) == [(Operation.LOST, 3)]


@pytest.mark.parametrize("settle", WHOLE)
def test_an_unknown_answer_is_an_error_and_loses_nothing(settle: Callable[..., Any]) -> None:
    lease = held()
    for some in (None, [ref(0)]):
        with pytest.raises(ScriptFailed, match="settling lease 'job' got 'superseded'"):
            drive(settle(engine(), lease, some), [b"superseded"])
    assert not lease.state.lost
    assert not lease.state.settled


def test_an_extension_returns_the_new_deadline() -> None:
    deadline, (call,) = drive(extend(engine(max_hold=9), held(), by=2), [b"7500"])
    assert deadline == datetime.fromtimestamp(7.5, UTC)
    assert given(call, "lease_id", "token", "lease_ms", "max_hold_ms") == ["job", "7.abc", 2000, 9000]
    assert not call.slot


def test_an_extension_may_be_endless() -> None:
    deadline, (call,) = drive(extend(engine(lease=None), held()), [b"inf"])
    assert deadline is None
    assert (call.given["lease_ms"], call.given["max_hold_ms"]) == ("inf", 0)


@pytest.mark.parametrize("by", [0, -1, True, "5"])
def test_an_extension_by_no_time_is_refused(by: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a timedelta or"):
        next(extend(engine(), held(), by=by))


def test_many_leases_are_extended_in_one_write_each_by_its_own_time() -> None:
    leases = [(held(), 2.0), (held(lease_id="~1"), None), (held(lease_id="b"), 3.0)]
    kept, (batch,) = drive(extend_all(engine(), leases), [[b"7500", b"lost", b"inf"]])
    assert kept == [True, False, True]
    assert isinstance(batch, Batch)
    asked_for = [given(call, "lease_id", "lease_ms") for call in batch.calls]
    assert asked_for == [["job", 2000], ["~1", 300_000], ["b", 3000]]
    assert not any(lease.state.lost for lease, _ in leases)


def test_an_error_while_many_leases_are_extended_marks_none_as_lost() -> None:
    lease = held()
    with pytest.raises(QueueUnavailable):
        drive(extend_all(engine(), [(lease, 1), (lease, 1)]), [[b"lost", QueueUnavailable("gone")]])
    assert not lease.state.lost


def test_an_ack_of_a_whole_lease_counts_what_it_settled() -> None:
    events: list[QueueEvent] = []
    lease = held(3)
    report, (call,) = drive(ack(engine(on_event=events.append, settled_ttl=9, completed_log=4), lease), [b"acked 3"])
    assert report == SettleReport(3)
    assert lease.state.settled
    assert given(call, "lease_id", "token", "done_ttl_ms", "completed_cap") == ["job", "7.abc", 9000, 4]
    assert counted(events) == [(Operation.ACK, 3)]


def test_an_anonymous_lease_leaves_no_record() -> None:
    (call,) = asked(ack(engine(), held(lease_id="~1")), b"acked 1")
    assert given(call, "settled", "lease_id", "token") == [b"rmq:{q}:settled:~1", "~1", "7.abc"]
    assert "done" not in call.given


def test_an_ack_that_misses_the_requested_durability_still_took_effect() -> None:
    lease = held()
    core = engine(durability=Durability(2, timeout=0.1))
    assert asked(ack(core, held()), (b"acked 1", 2))[0].confirm == ("WAIT", 2, 100)
    with pytest.raises(NotDurable, match="acked lease 'job' in queue 'q'"):
        drive(ack(core, lease), [(b"acked 1", 1)])
    assert lease.state.settled
    with pytest.raises(LeaseLost):
        drive(ack(core, held()), [(b"lost", 0)])


def test_releasing_waits_for_no_replica() -> None:
    core = engine(durability=Durability())
    for settle in (nack, release):
        assert asked(settle(core, held()), b"returned 1 0")[0].confirm is None  # type: ignore[operator]
        assert asked(settle(core, held(), [ref(0)]), b"all s")[0].confirm is None  # type: ignore[operator]


@pytest.mark.parametrize(("settle", "operation"), [(nack, Operation.NACK), (release, Operation.RELEASE)])
def test_a_large_lease_is_released_in_chunks(settle: Callable[..., Any], operation: Operation) -> None:
    events: list[QueueEvent] = []
    lease = held(3)
    exchange = settle(engine(on_event=events.append), lease)
    first = next(exchange)
    assert step(exchange, b"returned 4000 2000") is first
    assert not lease.state.settled
    with pytest.raises(StopIteration) as stop:
        exchange.send(b"returned 2000 0")
    assert stop.value.value == SettleReport(6000)
    assert lease.state.settled
    assert counted(events) == [(operation, 4000), (operation, 2000)]


def test_a_nack_reports_which_messages_are_dead_and_why() -> None:
    events: list[QueueEvent] = []
    report = result(nack(engine(on_event=events.append), held(3), reason="bad"), b"returned 2 1 m2", b"returned 1 0 m0")
    assert report == SettleReport(3, 2)
    dead = [(event.message_id, event.reason) for event in events if event.operation == Operation.DEAD]
    assert dead == [("m2", "bad"), ("m0", "bad")]


def test_a_nack_sends_the_limits_of_the_queue() -> None:
    core = engine(max_deliveries=None, max_dead=7, failed_log=5)
    (call,) = asked(nack(core, held(), delay=timedelta(seconds=3), reason="r"), b"returned 1 0")
    assert scripts([call]) == ["give_back"]
    assert given(call, "verb", "lease_id", "token", "delays", "reason") == ["nack", "job", "7.abc", "1 3000", "r"]
    assert given(call, "max_deliveries", "max_dead", "failed_cap") == [0, 7, 5]


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        (None, ""),
        ("two\twords\nof  history\r", "two words of history"),
        ("line\u2028separators\x85and\x1cothers", "line separators and others"),
        ("x" * 300, "x" * 200),
        ("\ud800 odd", "? odd"),
    ],
)
def test_a_reason_is_one_short_line_without_tabs(reason: str | None, kept: str) -> None:
    (whole,) = asked(nack(engine(), held(), reason=reason), b"returned 1 0")
    (some,) = asked(nack(engine(), held(), [ref(0)], reason=reason), b"all s")
    assert whole.given["reason"] == some.given["reason"] == kept


def test_without_backoff_a_nacked_message_is_ready_at_once() -> None:
    assert asked(nack(engine(), held()), b"returned 1 0")[0].given["delays"] == "1 0"


MIXED = replace(held(3), envelopes=[envelope(name, deliveries=count) for name, count in (("x", 2), ("y", 0), ("z", 4))])


@pytest.mark.parametrize(
    ("lease", "delays"),
    [
        (held(1), "1 2000"),
        (held(1, takeovers=2), "3 8000"),
        (replace(held(1), envelopes=[envelope("x", deliveries=3)]), "4 16000"),
        (MIXED, "1 2000 4000 8000 16000 32000"),
        (replace(MIXED, takeovers=1), "2 4000 8000 16000 32000 60000"),
        (held(1, in_memory=False, takeovers=1), "2 4000 8000 16000 32000" + 60 * " 60000"),
    ],
)
def test_the_backoff_covers_the_deliveries_that_the_messages_may_have(lease: Lease, delays: str) -> None:
    core = engine(backoff=exponential(base=2, cap=60, jitter=0))
    assert asked(nack(core, lease), b"returned 1 0")[0].given["delays"] == delays
    assert asked(nack(core, lease, [ref(0)]), b"all s")[0].given["delays"] == delays


def test_a_delay_of_the_nack_overrides_the_backoff() -> None:
    core = engine(backoff=exponential(base=2, jitter=0))
    assert asked(nack(core, held(), delay=0), b"returned 1 0")[0].given["delays"] == "1 0"
    assert asked(nack(core, held(), delay=0.0001), b"returned 1 0")[0].given["delays"] == "1 1"


def test_a_backoff_that_gives_no_duration_is_refused() -> None:
    class Wrong:
        def delay(self, deliveries: int) -> float:
            return -deliveries

    with pytest.raises(ConfigurationError, match="backoff must be"):
        next(nack(engine(backoff=Wrong()), held()))


@pytest.mark.parametrize("verb", SOME)
def test_settling_no_messages_sends_nothing(verb: str) -> None:
    assert result(SOME[verb](engine(), held(), [])) == SettleReport(0, 0, ())  # type: ignore[operator]


def test_each_message_has_its_outcome_in_the_order_given() -> None:
    events: list[QueueEvent] = []
    lease = held(5)
    refs = [ref(2), ref(4), ref(0), ref(9), ref(4)]
    report, (call,) = drive(nack(engine(on_event=events.append), lease, refs, reason="bad"), [b"some msda"])
    assert given(call, "lease_id", "token", "verb", "holds", "indexes") == ["job", "7.abc", "nack", 1, (9, 4, 2, 0)]
    assert report.outcomes == (
        Outcome.DEAD,
        Outcome.SETTLED,
        Outcome.SETTLED_BEFORE,
        Outcome.MISSING,
        Outcome.SETTLED,
    )
    assert (report.settled, report.dead) == (2, 1)
    assert counted(events) == [(Operation.NACK, 2), (Operation.DEAD, 1)]
    assert (lease.state.settled, lease.state.partly) == (False, True)


@pytest.mark.parametrize("verb", SOME)
def test_settling_the_last_message_settles_the_lease(verb: str) -> None:
    lease = held(2)
    report, (call,) = drive(SOME[verb](engine(settled_ttl=9), lease, lease.messages), [b"all ss"])  # type: ignore[operator]
    assert report == SettleReport(2, 0, (Outcome.SETTLED, Outcome.SETTLED))
    assert lease.state.settled
    assert scripts([call]) == ["settle_some"]
    assert (call.given["verb"], call.given["done_ttl_ms"]) == (verb, 9000)


def test_some_messages_of_a_lost_lease_are_reported_not_raised() -> None:
    events: list[QueueEvent] = []
    lease = held(2)
    report = result(ack(engine(on_event=events.append), lease, lease.messages), b"lost")
    assert report == SettleReport(0, 0, (Outcome.LOST, Outcome.LOST))
    assert lease.lost
    assert counted(events) == [(Operation.LOST, 2)]


def test_a_lease_lost_halfway_reports_what_was_settled_before() -> None:
    lease = held(2001, in_memory=False)
    report = result(ack(engine(), lease, [ref(index) for index in range(2001)]), b"some " + b"s" * 2000, b"lost")
    assert report.settled == 2000
    assert report.outcomes[0] == Outcome.LOST
    assert set(report.outcomes[1:]) == {Outcome.SETTLED}


def test_a_chunk_that_ends_the_lease_leaves_nothing_to_send_and_nothing_lost() -> None:
    events: list[QueueEvent] = []
    lease = held(2500, in_memory=False)
    refs = [ref(index) for index in (-1, *range(2500), 2500)]
    report, wants = drive(ack(engine(on_event=events.append), lease, refs), [b"all m" + b"s" * 1999])
    assert len(wants) == 1
    outcomes = report.outcomes
    assert (outcomes[0], outcomes[-1]) == (Outcome.MISSING, Outcome.MISSING)
    assert ({*outcomes[1:502]}, {*outcomes[502:-1]}) == ({Outcome.SETTLED_BEFORE}, {Outcome.SETTLED})
    assert (report.settled, lease.lost, lease.state.settled) == (1999, False, True)
    assert counted(events) == [(Operation.ACK, 1999)]


@pytest.mark.parametrize(
    ("verb", "count", "step_size"), [("ack", 9000, 2000), ("nack", 4000, 2000), ("nack", 4001, 100)]
)
def test_many_messages_are_settled_from_the_end_in_chunks(verb: str, count: int, step_size: int) -> None:
    lease = held(count, in_memory=False)
    exchange: Any = SOME[verb](engine(), lease, (ref(index) for index in range(2001)))
    want, seen = next(exchange), list[int]()
    while True:
        assert isinstance(want, Call)
        indexes = want.given["indexes"]
        assert len(indexes) <= step_size
        seen += indexes
        try:
            want = exchange.send(b"some " + b"s" * len(indexes))
        except StopIteration as stop:
            report = stop.value
            break
    assert report.settled == 2001
    assert seen == list(range(2000, -1, -1))


@pytest.mark.parametrize("verb", SOME)
def test_a_message_of_another_lease_is_refused_before_anything_is_sent(verb: str) -> None:
    lease = held(2)
    with pytest.raises(ConfigurationError, match="message 'm0' belongs to lease 'other', not to 'job'"):
        next(SOME[verb](engine(), lease, [lease.messages[0], ref(0, "other")]))  # type: ignore[operator]


def test_an_ack_of_some_is_confirmed_chunk_by_chunk() -> None:
    core, lease = engine(durability=Durability(1)), held(2)
    assert result(ack(core, lease, [ref(0)]), (b"some s", 1)).settled == 1
    with pytest.raises(NotDurable, match="acked messages of lease 'job'"):
        drive(ack(core, lease, [ref(1)]), [(b"all s", 0)])
    assert lease.state.settled
