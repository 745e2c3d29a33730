from __future__ import annotations

import json
import pickle
import threading
import time
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, LeaseLost, MessageRef
from rmq_core.envelope.codec import message_of
from rmq_core.messages import Failure, LeaseState, Messages

HISTORY = b"nack\t1000\tme\tno disk\nexpired\t2000\t\t\n"
ENVELOPES = [b"%d 1500 0 id-%d s0 p%d" % (n, n, n) for n in range(3)]


def lease(**changes: Any) -> Lease:
    given: dict[str, Any] = {
        "queue": "q", "id": "job", "owner": "me", "count": 3, "deadline_ms": 1_000_500, "token": "7.secret",
        "takeovers": 1, "named": True, "envelopes": tuple(ENVELOPES),
    }  # fmt: skip
    return Lease(**(given | changes))


def test_a_message_is_decoded_from_its_envelope() -> None:
    envelope = b'2 1500 %d %bid-1 s9 {"k":"v"}text' % (len(HISTORY), HISTORY)
    message = message_of(envelope, index=5, lease_id="job", delivered=1)
    assert (message.id, message.payload, message.raw, message.headers) == ("id-1", "text", b"text", {"k": "v"})
    assert (message.deliveries, message.index, message.lease_id) == (3, 5, "job")
    assert message.enqueued_at == datetime.fromtimestamp(1.5, UTC)
    assert message.ref == MessageRef("job", 5, "id-1")
    assert message.history == (
        Failure("nack", datetime.fromtimestamp(1, UTC), "me", "no disk"),
        Failure("expired", datetime.fromtimestamp(2, UTC), "", ""),
    )


def test_the_stored_bytes_are_available_at_any_depth_of_the_payload() -> None:
    deep = b"[" * 500 + b"]" * 500
    assert message_of(b"0 1 0 id j0 " + deep).raw == deep


def test_messages_and_leases_cannot_be_changed() -> None:
    for value in (message_of(ENVELOPES[0]), lease()):
        with pytest.raises(FrozenInstanceError):
            value.id = "other"  # type: ignore[misc]


def test_the_messages_of_a_lease_are_a_sequence() -> None:
    messages = lease().messages
    assert len(messages) == 3
    assert [message.payload for message in messages] == ["p0", "p1", "p2"]
    assert (messages[0].payload, messages[-1].payload) == ("p0", "p2")
    assert [message.payload for message in messages[1:]] == ["p1", "p2"]
    assert [message.payload for message in messages[::-2]] == ["p2", "p0"]
    with pytest.raises(IndexError):
        messages[3]


def test_each_message_knows_its_place_and_how_often_it_was_delivered() -> None:
    messages = Messages(ENVELOPES, "job", delivered=2)
    assert [(message.index, message.deliveries) for message in messages] == [(0, 2), (1, 3), (2, 4)]
    assert [message.index for message in messages[::-1]] == [2, 1, 0]


@pytest.mark.parametrize("envelopes", [None, (), tuple(ENVELOPES[:2])])
def test_the_messages_of_a_lease_without_all_its_messages_must_be_read(envelopes: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"3 messages of lease 'job' are not in memory; .*queue\.messages"):
        lease(envelopes=envelopes).messages  # noqa: B018


def test_only_a_lease_of_one_message_has_the_message_attribute() -> None:
    assert lease(count=1, envelopes=(ENVELOPES[1],)).message.payload == "p1"
    with pytest.raises(ConfigurationError, match="holds 3 messages; use `messages`"):
        lease().message  # noqa: B018


def test_a_deadline_is_a_time_in_utc_or_none() -> None:
    assert lease().deadline == datetime.fromtimestamp(1000.5, UTC)
    assert lease(deadline_ms=None).deadline is None


def test_a_lease_is_described_in_json_without_token_or_messages() -> None:
    text = lease().to_json()
    assert json.loads(text) == {
        "queue": "q", "id": "job", "owner": "me", "count": 3, "deadline_ms": 1_000_500, "named": True,
    }  # fmt: skip
    again = Lease.from_json(text)
    assert (again.id, again.token, again.envelopes, again.deadline) == ("job", None, None, lease().deadline)


@pytest.mark.parametrize("text", ["", "5", "[]", "{}", '{"id": "x"}', "null"])
def test_other_json_is_no_lease(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Lease\.to_json"):
        Lease.from_json(text)


def test_the_token_is_not_shown() -> None:
    assert "secret" not in f"{lease()!r} {lease()}"


def test_pickling_keeps_token_and_messages_and_drops_the_lost_state() -> None:
    original = lease()
    original.state.lost = True
    again = pickle.loads(pickle.dumps(original))
    assert again == original
    assert (again.token, [message.payload for message in again.messages]) == ("7.secret", ["p0", "p1", "p2"])
    assert (original.lost, again.lost) == (True, False)


def test_a_lease_is_lost_when_it_is_marked_so_or_when_its_deadline_has_passed() -> None:
    held = lease()
    assert not held.lost
    held.check()
    held.state.until = 0
    assert held.lost
    with pytest.raises(LeaseLost, match="'job'"):
        held.check()
    held.state.settled = True
    assert not held.lost
    told = lease()
    told.state.lost = True
    assert told.lost


def test_concurrent_partial_settlements_of_one_lease_are_all_counted() -> None:
    class Slow(LeaseState):
        """A number that lets other threads run between reading and writing it."""

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name in {"begun", "ended"}:
                time.sleep(0.002)
            return value

    state = Slow()

    def settle() -> None:
        with state:
            pass

    threads = [threading.Thread(target=settle) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (state.begun, state.ended) == (10, 10)
