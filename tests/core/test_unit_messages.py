from __future__ import annotations

import json
import pickle
import threading
import time
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, LeaseLost
from rmq_core.messages import LeaseState, Messages

ENVELOPES = [b"%d 1500 0 id-%d s0 p%d" % (n, n, n) for n in range(3)]


def lease(**changes: Any) -> Lease:
    given: dict[str, Any] = {
        "queue": "q", "id": "job", "owner": "me", "count": 3, "deadline_ms": 1_000_500, "token": "7.secret",
        "takeovers": 1, "named": True, "envelopes": tuple(ENVELOPES),
    }  # fmt: skip
    return Lease(**(given | changes))


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
