from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.operations.claiming import claim_next
from rmq_core.errors import (
    ConfigurationError,
    LeaseLost,
    NotDurable,
    ScriptFailed,
)
from rmq_core.events import Operation, QueueEvent
from rmq_core.messages import Lease
from rmq_core.policy import Durability
from tests.unit.leased.by_hand import (
    asked,
    claimed,
    counted,
    drive,
    engine,
    given,
    held,
    result,
    scripts,
)


def test_claim_next_acks_and_claims_in_one_call_under_the_same_owner() -> None:
    events: list[QueueEvent] = []
    core, done = engine(on_event=events.append, completed_log=3, settled_ttl=9), held(2)
    lease, (call,) = drive(claim_next(core, ack=done, max_messages=3, lease=4), [claimed(3, acked=" 2")])
    assert lease is not None
    assert (lease.count, lease.owner, lease.named) == (3, "me", False)
    assert done.state.settled
    assert scripts([call]) == ["claim_next"]
    assert given(call, "acked_id", "lease_ms", "max_messages", "owner", "token", "done_ttl_ms", "completed_cap") == [
        "job", 4000, 3, "me", "7.abc", 9000, 3,
    ]  # fmt: skip
    assert counted(events) == [(Operation.ACK, 2), (Operation.CLAIM, 3)]


def test_an_anonymous_lease_leaves_no_record_when_it_is_acked() -> None:
    (call,) = asked(claim_next(engine(), ack=held(lease_id="~1")), [b"empty 1", [], []])
    assert call.given["done_ttl_ms"] == 0


def test_a_lost_lease_claims_nothing() -> None:
    core, done = engine(), held()
    with pytest.raises(LeaseLost):
        drive(claim_next(core, ack=done), [[b"lost", [], []]])
    assert done.lost
    assert core.unanswered == {}


def test_a_lease_without_a_token_cannot_be_acked_by_claim_next() -> None:
    with pytest.raises(ConfigurationError, match=r"lease 'job' was read from JSON and has no token; adopt"):
        next(claim_next(engine(), ack=Lease.from_json(held().to_json())))


def test_claim_next_returns_none_or_waits_as_configured() -> None:
    assert result(claim_next(engine(), ack=held()), [b"empty 1", [], []]) is None
    wants = asked(claim_next(engine(), ack=held(), wait=5), [b"empty 1", [], []], claimed())
    assert scripts(wants) == ["claim_next", "claim"]
    assert wants[0].given["lease_id"] == wants[1].given["lease_id"]
    assert wants[1].given["wait_ms"] == 5000


def test_claim_next_tries_again_after_reclaiming_expired_leases() -> None:
    wants = asked(claim_next(engine(), ack=held()), [b"empty 1", [b"a"], []], b"returned 1 0 9.x", claimed())
    assert scripts(wants) == ["claim_next", "reclaim", "claim"]


def test_an_unknown_reply_to_claim_next_is_an_error_and_settles_nothing() -> None:
    done = held()
    with pytest.raises(ScriptFailed, match="claim_next got 'superseded'"):
        drive(claim_next(engine(), ack=done), [[b"superseded", [], []]])
    assert not done.state.settled


def test_an_unanswered_claim_next_is_remembered_and_never_resumes_an_earlier_claim() -> None:
    core = engine()
    core.unanswered = {"~1": "n1"}
    operation = claim_next(core, ack=held())
    call = next(operation)
    assert call.given["lease_id"] != "~1"
    with pytest.raises(KeyboardInterrupt):
        operation.throw(KeyboardInterrupt())
    assert core.unanswered == {"~1": "n1", call.given["lease_id"]: call.given["nonce"]}


def test_claim_next_remembers_its_claim_when_the_ack_misses_the_requested_durability() -> None:
    core, done = engine(durability=Durability(2)), held()
    operation = claim_next(core, ack=done)
    call: Any = next(operation)
    assert call.confirm == ("WAIT", 2, 1000)
    with pytest.raises(NotDurable, match="acked lease 'job'"):
        operation.send((claimed(acked=" 1"), 1))
    assert done.state.settled
    assert core.unanswered == {call.given["lease_id"]: call.given["nonce"]}
