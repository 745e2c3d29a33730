from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.operations.claiming import claim_next
from rmq_core.errors import (
    ConfigurationError,
    NotDurable,
    ScriptFailed,
)
from rmq_core.messages import Lease
from rmq_core.policy import Durability
from tests.unit.leased.by_hand import (
    claimed,
    drive,
    engine,
    held,
)


def test_a_lease_without_a_token_cannot_be_acked_by_claim_next() -> None:
    with pytest.raises(ConfigurationError, match=r"lease 'job' was read from JSON and has no token; adopt"):
        next(claim_next(engine(), ack=Lease.from_json(held().to_json())))


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
