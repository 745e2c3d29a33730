from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rmq_core.discipline.leased.operations.claiming import claim
from rmq_core.errors import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    QueueFull,
    QueueUnavailable,
    ScriptFailed,
    WrongKeyType,
)
from rmq_core.events import Operation, QueueEvent
from rmq_core.exchange import Command, Wait
from rmq_core.messages import Lease
from rmq_core.queue.keys import QUEUES
from tests.unit.leased.by_hand import (
    asked,
    claimed,
    counted,
    drive,
    engine,
    envelopes,
    given,
    payloads,
    result,
    scripts,
    step,
)

EMPTY = [b"empty 0 1000", [], []]


def known(call: Any) -> tuple[bytes, ...]:
    """The keys that not every claim sends: they may hold state of an id that is not new."""
    return tuple(call.given[name] for name in ("settled", "done") if name in call.given)


def granted(exchange: Any, *replies: Any) -> Lease:
    lease = result(exchange, *replies)
    assert isinstance(lease, Lease)
    return lease


def test_a_claim_returns_its_messages_with_a_token() -> None:
    lease = granted(claim(engine(), max_messages=3, owner="me"), claimed(3))
    assert (lease.queue, lease.owner, lease.count, lease.token) == ("q", "me", 3, "7.abc")
    assert lease.deadline == datetime.fromtimestamp(5, UTC)
    assert payloads(lease.messages) == ["p0", "p1", "p2"]
    assert {message.lease_id for message in lease.messages} == {lease.id}


def test_an_endless_claim_has_no_deadline() -> None:
    core = engine(lease=None)
    operation = claim(core)
    assert next(operation).given["lease_ms"] == "inf"
    with pytest.raises(StopIteration) as stop:
        operation.send(claimed(deadline="+inf"))
    assert stop.value.value.deadline is None


def test_a_claim_without_a_wait_returns_none_for_an_empty_queue() -> None:
    core = engine()
    lease, (call,) = drive(claim(core), [EMPTY])
    assert lease is None
    assert given(call, "wait_ms", "wait_end") == [0, 0]
    assert core.unanswered == {}


def test_an_anonymous_claim_has_a_new_id_and_a_named_one_that_of_its_caller() -> None:
    (one,), (two,) = (asked(claim(engine()), EMPTY) for _ in range(2))
    assert known(one) == ()
    assert one.given["lease_id"].startswith("~")
    assert one.given["lease_id"] != two.given["lease_id"]
    assert one.given["nonce"] != two.given["nonce"]
    (named,) = asked(claim(engine(), lease_id="job"), EMPTY)
    assert (named.given["lease_id"], known(named)) == ("job", (b"rmq:{q}:settled:job", b"rmq:{q}:done:job"))


def test_the_arguments_of_the_caller_are_sent() -> None:
    (call,) = asked(claim(engine(max_deliveries=4), max_messages=5, lease=timedelta(seconds=2), owner="me"), EMPTY)
    assert given(call, "lease_ms", "max_messages", "owner", "max_deliveries") == [2000, 5, "me", 4]
    (call,) = asked(claim(engine(max_deliveries=None), max_messages=4001), EMPTY)
    assert given(call, "lease_ms", "max_messages", "owner", "max_deliveries") == [300_000, 4001, "", 0]


def test_only_a_named_lease_leaves_a_record_when_it_is_settled() -> None:
    assert granted(claim(engine(), lease_id="job"), claimed()).named
    assert not granted(claim(engine()), claimed()).named


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_messages": 0},
        {"max_messages": True},
        {"lease": 0},
        {"lease": "5"},
        {"wait": -1},
        {"lease_id": ""},
        {"lease_id": 5},
        {"lease_id": "~mine"},
        {"lease_id": "a{b}"},
        {"owner": "tab\t"},
        {"owner": 5},
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name_before_anything_is_sent(wrong: dict[str, Any]) -> None:
    core = engine(registered=False)
    core.unanswered = {"~1": "n1", "job": "n2"}
    with pytest.raises(ConfigurationError, match=rf"^{next(iter(wrong))} "):
        next(claim(core, **wrong))
    assert core.unanswered == {"~1": "n1", "job": "n2"}


def test_the_first_claim_registers_the_name_of_the_queue() -> None:
    core = engine(registered=False)
    wants = asked(claim(core), 1, EMPTY)
    assert wants[0] == Command(("SADD", QUEUES, "q"), aside=True)
    assert core.registered


def test_a_full_server_does_not_keep_a_new_consumer_from_draining_it() -> None:
    core = engine(registered=False)
    assert granted(claim(core), QueueFull("OOM"), claimed()).count == 1
    assert not core.registered


def test_a_waiting_claim_blocks_between_attempts_until_the_time_the_server_returned() -> None:
    core = engine()
    operation = claim(core, wait=7)
    first = next(operation)
    assert given(first, "wait_ms", "wait_end") == [7000, 0]
    blocked = step(operation, [b"empty 5000 8000", [], []])
    assert isinstance(blocked, Wait)
    assert (blocked.wake, blocked.block_ms) == (core.keys.wake, 5000)
    assert blocked.call.given == first.given | {"wait_end": 8000}  # type: ignore[union-attr]
    blocked = step(operation, [b"empty 2000 8000", [], []])
    assert isinstance(blocked, Wait)
    assert blocked.block_ms == 2000
    with pytest.raises(StopIteration) as stop:
        operation.send(EMPTY)
    assert stop.value.value is None


def test_a_waiting_claim_returns_the_messages_that_woke_it() -> None:
    assert granted(claim(engine(), wait=7), [b"empty 5000 8000", [], []], claimed(1)).message.payload == "p0"


def test_a_claim_that_finds_expired_leases_reclaims_them_and_tries_again() -> None:
    wants = asked(claim(engine()), [b"empty 0 1000", [b"a", b"b"], []], b"returned 1 0 9.x", b"live", claimed())
    assert scripts(wants) == ["claim", "reclaim", "reclaim", "claim"]
    assert [want.given["lease_id"] for want in wants[1:3]] == ["b", "a"]
    assert wants[3].given["wait_end"] == 1000


def test_a_granted_claim_reclaims_expired_leases_before_it_returns() -> None:
    lease, wants = drive(claim(engine()), [[claimed()[0], [b"a"], [envelopes(1)]], b"live"])
    assert scripts(wants) == ["claim", "reclaim"]
    assert lease is not None


def test_an_unknown_answer_is_an_error() -> None:
    with pytest.raises(ScriptFailed, match="claim got 'superseded'"):
        drive(claim(engine()), [[b"superseded", [], []]])


def test_a_claim_of_a_settled_id_reports_how_much_was_acked() -> None:
    core = engine()
    with pytest.raises(LeaseAlreadySettled) as settled:
        drive(claim(core, lease_id="job"), [[b"settled 12 1700000000000 me", [], []]])
    assert (settled.value.lease_id, settled.value.acked) == ("job", 12)
    assert core.unanswered == {}


def test_a_takeover_reads_the_messages_of_a_lease_that_fits_one_chunk() -> None:
    events: list[QueueEvent] = []
    read = [b"read", 1, 0, b"", envelopes(2)]
    lease, wants = drive(
        claim(engine(on_event=events.append), lease_id="job", owner="me"),
        [[b"taken 9.x 5000 2 0 0 1 0 me too", [], []], read],
    )
    assert lease is not None
    assert (lease.token, lease.owner, lease.takeovers, lease.named) == ("9.x", "me too", 1, True)
    assert [message.deliveries for message in lease.messages] == [2, 2]
    assert scripts(wants) == ["claim", "read"]
    assert given(wants[1], "token", "first", "last") == ["9.x", 0, 1]
    assert counted(events) == [(Operation.TAKEOVER, 2)]


@pytest.mark.parametrize(
    "read",
    [
        [b"lost", 0, 0, b"", []],
        [b"read", 1, 0, b"\x80", envelopes(2)],
        [b"read", 1, 0, b"", envelopes(1)],
    ],
)
def test_a_takeover_of_a_partly_settled_or_too_large_lease_leaves_reading_to_the_caller(read: list[Any]) -> None:
    lease = granted(claim(engine(), lease_id="job"), [b"taken 9.x 5000 2 0 0 1 1 me", [], []], read)
    assert not lease.complete


def test_a_takeover_of_a_lease_beyond_one_chunk_reads_nothing() -> None:
    lease = granted(claim(engine(), lease_id="job"), [b"taken 9.x 5000 4001 0 0 1 0 me", [], []])
    assert (lease.count, lease.complete) == (4001, False)


def test_a_lease_whose_deliveries_are_used_up_is_reclaimed_and_its_id_claimed_again() -> None:
    wants = asked(claim(engine(), lease_id="job"), [b"exhausted", [], []], b"returned 1 0 9.x m0", claimed())
    assert scripts(wants) == ["claim", "reclaim", "claim"]
    assert wants[1].given["if_used_up"] == "1"


def test_a_large_claim_is_filled_chunk_by_chunk() -> None:
    events: list[QueueEvent] = []
    operation = claim(engine(on_event=events.append), max_messages=10_000)
    lease, wants = drive(operation, [[b"claimed 7.abc 5000 4000 10000 0 0", [], []], b"filled 4000", b"filled 2000"])
    assert lease is not None
    assert (lease.count, lease.complete) == (10_000, False)
    assert scripts(wants) == ["claim", "fill", "fill"]
    assert [(want.given["token"], want.given["count"], want.given["most"]) for want in wants[1:]] == [
        ("7.abc", 4000, 6000),
        ("7.abc", 8000, 2000),
    ]
    assert counted(events) == [(Operation.CLAIM, 4000), (Operation.CLAIM, 6000)]


def test_a_fill_ends_when_nothing_is_ready_any_more() -> None:
    lease = granted(claim(engine(), max_messages=10), claimed(3, limit=10), b"filled 2", b"filled 0")
    assert (lease.count, lease.complete) == (5, False)


def test_a_fill_that_finds_nothing_keeps_the_messages_of_the_first_reply() -> None:
    lease = granted(claim(engine(), max_messages=10), claimed(3, limit=10), b"filled 0")
    assert (lease.count, lease.complete) == (3, True)


def test_a_lease_lost_while_it_is_filled_is_not_resumed() -> None:
    core = engine()
    with pytest.raises(LeaseLost):
        drive(claim(core, max_messages=10), [claimed(3, limit=10), b"lost"])
    assert core.unanswered == {}


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), GeneratorExit(), QueueUnavailable("gone")])
def test_the_next_claim_resumes_an_unanswered_one_under_the_same_nonce(
    interruption: BaseException,
) -> None:
    core = engine()
    operation = claim(core)
    call = next(operation)
    with pytest.raises(type(interruption)):
        operation.throw(interruption)
    lease_id, secret = call.given["lease_id"], call.given["nonce"]
    assert core.unanswered == {lease_id: secret}
    (again,) = asked(claim(core), EMPTY)
    assert given(again, "lease_id", "nonce") == [lease_id, secret]
    assert known(again) == (b"rmq:{q}:settled:" + lease_id.encode(),)
    assert core.unanswered == {}


def test_an_unanswered_named_claim_is_resumed_only_under_its_name() -> None:
    core = engine()
    operation = claim(core, lease_id="job")
    secret = next(operation).given["nonce"]
    with pytest.raises(KeyboardInterrupt):
        operation.throw(KeyboardInterrupt())
    (other,) = asked(claim(core), EMPTY)
    assert known(other) == ()
    (again,) = asked(claim(core, lease_id="job"), EMPTY)
    assert given(again, "lease_id", "nonce") == ["job", secret]
    assert core.unanswered == {}


def test_a_claim_that_stays_unanswered_keeps_its_nonce() -> None:
    core = engine()
    core.unanswered = {"~1": "n1"}
    for _ in range(3):
        with pytest.raises(QueueUnavailable):
            drive(claim(core), [QueueUnavailable("gone")])
        assert core.unanswered == {"~1": "n1"}


def test_a_claim_that_could_not_register_the_queue_name_forgets_nothing() -> None:
    core = engine(registered=False)
    core.unanswered = {"~1": "n1"}
    with pytest.raises(QueueUnavailable):
        drive(claim(core), [QueueUnavailable("gone")])
    assert core.unanswered == {"~1": "n1"}


def test_a_claim_interrupted_while_it_waits_or_fills_is_remembered() -> None:
    core = engine()
    with pytest.raises(KeyboardInterrupt):
        drive(claim(core, wait=5), [[b"empty 5000 8000", [], []], KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        drive(claim(core, max_messages=10, lease_id="job"), [claimed(3, limit=10), KeyboardInterrupt()])
    assert len(core.unanswered) == 2
    assert "job" in core.unanswered


def test_a_claim_that_is_granted_and_then_fails_is_remembered() -> None:
    core = engine()
    with pytest.raises(WrongKeyType):
        drive(claim(core, lease_id="job"), [[claimed()[0], [b"a"], [envelopes(1)]], WrongKeyType("x")])
    assert list(core.unanswered) == ["job"]


def test_a_claim_that_was_refused_is_forgotten() -> None:
    core = engine()
    with pytest.raises(ScriptFailed):
        drive(claim(core, lease_id="job"), [ScriptFailed("no")])
    assert core.unanswered == {}


@pytest.mark.parametrize(
    "refusal", [WrongKeyType("x"), ScriptFailed("x"), ConfigurationError("password"), QueueFull("x")]
)
@pytest.mark.parametrize("lease_id", ["~1", "job"])
def test_an_earlier_claim_may_have_been_granted_although_its_repetition_is_refused(
    lease_id: str, refusal: Exception
) -> None:
    core = engine()
    core.unanswered = {lease_id: "n1"}
    with pytest.raises(type(refusal)):
        drive(claim(core, lease_id=None if lease_id == "~1" else lease_id), [refusal])
    assert core.unanswered == {lease_id: "n1"}
