from __future__ import annotations

import re
from typing import Any

import pytest

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.adopting import adopt, reenter
from rmq_core.errors import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    QueueUnavailable,
)
from rmq_core.events import Operation, QueueEvent
from tests.unit.leased.by_hand import (
    asked,
    counted,
    drive,
    engine,
    given,
    result,
    scripts,
    step,
)


def test_an_adopted_lease_has_a_new_token_and_its_messages_are_to_be_read() -> None:
    events: list[QueueEvent] = []
    lease, (call,) = drive(
        adopt(engine(on_event=events.append), "job", lease=2), [b"taken 9.x 5000 3 0 0 1 0 its owner"]
    )
    assert (lease.id, lease.token, lease.count, lease.owner) == ("job", "9.x", 3, "its owner")
    assert (lease.takeovers, lease.named, lease.complete) == (1, True, False)
    assert given(call, "lease_id", "lease_ms", "set_owner", "owner") == ["job", 2000, "0", ""]
    assert given(call, "required", "required_owner", "max_deliveries") == ["0", "", 10]
    assert counted(events) == [(Operation.TAKEOVER, 3)]


@pytest.mark.parametrize(
    ("owners", "sent"),
    [
        ({"owner": "B"}, ["1", "B", "0", ""]),
        ({"owner": ""}, ["1", "", "0", ""]),
        ({"if_owner": "A"}, ["0", "", "1", "A"]),
        ({"owner": "A", "if_owner": "A"}, ["1", "A", "1", "A"]),
    ],
)
def test_an_adoption_names_the_new_owner_and_the_expected_one(owners: dict[str, str], sent: list[str]) -> None:
    (call,) = asked(adopt(engine(), "job", **owners), b"taken 9.x 5000 3 0 0 1 0 A")  # type: ignore[arg-type]
    assert given(call, "set_owner", "owner", "required", "required_owner") == sent


def test_a_lease_without_an_owner_may_be_adopted_and_an_endless_one_has_no_deadline() -> None:
    lease = result(adopt(engine(), "~1"), b"taken 9.x +inf 3 0 0 1 0 ")
    assert (lease.named, lease.deadline, lease.owner) == (False, None, "")


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (b"lost", LeaseLost, "there is no lease of this id"),
        (b"superseded", LeaseLost, "there is no lease of this id"),
        (b"owned worker B", LeaseOwnedByOther, "it is owned by 'worker B', not by 'A'"),
        (b"settled 5 1700000000000 me", LeaseAlreadySettled, "all its 5 messages are acked"),
    ],
)
def test_a_refused_adoption_states_why(reply: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=re.escape(words)) as refused:
        drive(adopt(engine(), "job", if_owner="A"), [reply])
    assert type(refused.value) is error


def test_an_adoption_beyond_max_deliveries_reclaims_the_lease() -> None:
    operation = adopt(engine(), "job", owner="B")
    next(operation)
    reclaim = step(operation, b"exhausted")
    assert scripts([reclaim]) == ["reclaim"]
    assert reclaim.given["if_used_up"] == "1"
    with pytest.raises(LeaseLost, match="its deliveries are used up"):
        operation.send(b"returned 1 0 9.x m0")


@pytest.mark.parametrize(
    "wrong", [{"lease_id": 5}, {"lease_id": "\ud800"}, {"owner": "\n"}, {"if_owner": "a{"}, {"lease": 0}]
)
def test_a_wrong_adoption_is_refused_by_its_parameter(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{next(iter(wrong))} "):
        next(adopt(engine(), **{"lease_id": "job", **wrong}))


def test_an_adoption_of_an_unanswered_claim_uses_its_nonce() -> None:
    core = engine()
    core.unanswered = {"job": "n1"}
    (call,) = asked(adopt(core, "job"), b"taken 9.n1 5000 1 0 0 0 0 me")
    assert call.given["nonce"] == "n1"
    assert core.unanswered == {}


@pytest.mark.parametrize(("reply", "found"), [(b"taken 9.n1 5000 1 0 0 0 0 me", True), (b"lost", False)])
def test_an_unanswered_claim_is_resumed_only_under_its_own_nonce(reply: bytes, found: bool) -> None:
    core: LeasedEngine = engine()
    core.unanswered = {"~1": "n1"}
    lease, (call,) = drive(reenter(core, "~1"), [reply])
    assert given(call, "lease_id", "nonce", "set_owner", "required") == ["~1", "n1", "0", "2"]
    assert (lease is not None) == found


@pytest.mark.parametrize("reply", [QueueUnavailable("gone"), KeyboardInterrupt(), b"owned somebody"])
def test_an_adoption_that_does_not_resume_an_unanswered_claim_keeps_it(reply: Any) -> None:
    core = engine()
    core.unanswered = {"job": "n1"}
    with pytest.raises((QueueUnavailable, KeyboardInterrupt, LeaseOwnedByOther)):
        drive(adopt(core, "job", if_owner="me"), [reply])
    assert core.unanswered == {"job": "n1"}


@pytest.mark.parametrize("reply", [b"lost", b"settled 1 1000 me"])
def test_an_adoption_that_finds_an_unanswered_claim_missing_forgets_it(reply: bytes) -> None:
    core = engine()
    core.unanswered = {"job": "n1"}
    with pytest.raises((LeaseLost, LeaseAlreadySettled)):
        drive(adopt(core, "job"), [reply])
    assert core.unanswered == {}
