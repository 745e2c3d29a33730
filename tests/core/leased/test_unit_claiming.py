from __future__ import annotations

from typing import Any

import pytest

from rmq_core.errors import (
    ConfigurationError,
    LeaseLost,
    QueueFull,
    QueueUnavailable,
    ScriptFailed,
    WrongKeyType,
)
from rmq_core.leased.claiming import claim
from tests.core.by_hand import drive
from tests.core.leased.by_hand import asked, claimed, engine, envelopes, given

EMPTY = [b"empty 0 1000", [], []]


def known(call: Any) -> tuple[bytes, ...]:
    """The keys that not every claim sends: they may hold state of an id that is not new."""
    return tuple(call.given[name] for name in ("settled", "done") if name in call.given)


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
