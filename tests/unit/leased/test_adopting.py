from __future__ import annotations

from typing import Any

import pytest

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.adopting import adopt, reenter
from rmq_core.errors import (
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    QueueUnavailable,
)
from tests.unit.leased.by_hand import (
    asked,
    drive,
    engine,
    given,
)


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
