from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rmq_core.discipline.leased.operations.settling import ack, extend, extend_all, nack, release
from rmq_core.errors import ConfigurationError, LeaseLost, NotDurable, QueueUnavailable, ScriptFailed
from rmq_core.events import Operation, QueueEvent
from rmq_core.exchange import Pipeline
from rmq_core.messages import Lease
from rmq_core.policy import Durability, exponential
from rmq_core.reports import Outcome
from tests.unit.leased.by_hand import asked, counted, drive, engine, envelope, given, held, ref, result

WHOLE: list[Callable[..., Any]] = [ack, nack, release]


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


def test_many_leases_are_extended_in_one_write_each_by_its_own_time() -> None:
    leases = [(held(), 2.0), (held(lease_id="~1"), None), (held(lease_id="b"), 3.0)]
    kept, (batch,) = drive(extend_all(engine(), leases), [[b"7500", b"lost", b"inf"]])
    assert kept == [True, False, True]
    assert isinstance(batch, Pipeline)
    asked_for = [given(call, "lease_id", "lease_ms") for call in batch.calls]
    assert asked_for == [["job", 2000], ["~1", 300_000], ["b", 3000]]
    assert not any(lease.state.lost for lease, _ in leases)


def test_an_error_while_many_leases_are_extended_marks_none_as_lost() -> None:
    lease = held()
    with pytest.raises(QueueUnavailable):
        drive(extend_all(engine(), [(lease, 1), (lease, 1)]), [[b"lost", QueueUnavailable("gone")]])
    assert not lease.state.lost


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


def test_a_backoff_that_gives_no_duration_is_refused() -> None:
    class Wrong:
        def delay(self, deliveries: int) -> float:
            return -deliveries

    with pytest.raises(ConfigurationError, match="backoff must be"):
        next(nack(engine(backoff=Wrong()), held()))


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


def test_an_ack_of_some_is_confirmed_chunk_by_chunk() -> None:
    core, lease = engine(durability=Durability(1)), held(2)
    assert result(ack(core, lease, [ref(0)]), (b"some s", 1)).settled == 1
    with pytest.raises(NotDurable, match="acked messages of lease 'job'"):
        drive(ack(core, lease, [ref(1)]), [(b"all s", 0)])
    assert lease.state.settled
