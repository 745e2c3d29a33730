from __future__ import annotations

import pytest

from rmq_core import Lease, QueueUnavailable
from rmq_core.errors import QueueError, ScriptFailed
from rmq_core.exchange import Call
from rmq_core.streams import claiming, settling
from tests.core.streams.by_hand import claimed, drive, engine, verbs


def held(*payloads: bytes) -> Lease:
    return drive(claiming.claim(engine()), claimed(*payloads))[0]


def settlement(call: Call) -> tuple[object, ...]:
    return tuple(call.given[name] for name in ("verb", "scope", "stale_ms", "back", "ids"))


@pytest.mark.parametrize("failure", [QueueUnavailable("gone"), KeyboardInterrupt()])
def test_messages_of_a_claim_without_a_reply_are_released_before_the_next_claim(failure: BaseException) -> None:
    one = engine()
    operation = claiming.claim(one)
    token = next(operation).given["token"]  # type: ignore[union-attr]
    with pytest.raises(type(failure)):
        operation.throw(failure)
    _, wants = drive(claiming.claim(one), [b"1-0", b"2-0"], b"ss", claimed(b"{}"))
    assert verbs(wants) == ["streams/held", "streams/settle", "streams/claim"]
    assert [(want.given["group"], want.given["token"]) for want in wants[:2]] == 2 * [("billing", token)]
    assert settlement(wants[1]) == ("release", "some", 60_000, "~", (b"1-0", b"2-0"))
    assert not one.unanswered


def test_a_refused_claim_leaves_nothing_to_release() -> None:
    one = engine()
    with pytest.raises(QueueError):
        drive(claiming.claim(one), ScriptFailed("NOGROUP"))
    assert not one.unanswered


def test_closing_releases_what_was_claimed_without_a_reply() -> None:
    one = engine()
    one.unanswered.append("~a/1.2")
    assert verbs(drive(settling.give_back_unanswered(one), [])[1]) == ["streams/held"]
    assert not one.unanswered
