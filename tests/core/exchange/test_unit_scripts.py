from __future__ import annotations

from typing import Any

import pytest

from rmq_core.exchange.scripts import script
from rmq_core.kernel.keys import LeasedKeys

KEYS = LeasedKeys("q")
ACK = {"lease": b"lease", "settled": b"settled", "lease_id": "a", "token": "1.x"}


def test_keys_and_arguments_are_sent_in_the_order_of_the_header() -> None:
    made = script("leased/ack", KEYS, **dict(reversed(ACK.items())))
    assert made == script("leased/ack", KEYS, **ACK)
    assert made.keys == (KEYS.leases, b"lease", b"settled", KEYS.ready)
    assert made.args == ("a", "1.x")
    assert made.slot


def test_an_optional_argument_is_sent_when_it_is_given() -> None:
    kept = {"done": b"done", "completed": b"log", "done_ttl_ms": 5, "completed_cap": 0}
    made = script("leased/ack", KEYS, **ACK, **kept)
    assert made.keys[2:] == (b"settled", KEYS.ready, b"done", b"log")
    assert made.args[2:] == (5, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({name: value for name, value in ACK.items() if name != "token"}, "leased/ack needs 'token'"),
        ({name: value for name, value in ACK.items() if name != "lease"}, "leased/ack needs 'lease'"),
        (ACK | {"tokn": "x"}, "leased/ack has no parameter tokn"),
        (ACK | {"completed_cap": 1}, "leased/ack: 'completed_cap' is passed, so 'done_ttl_ms' must be passed too"),
    ],
)
def test_an_unknown_argument_name_is_reported(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        script("leased/ack", KEYS, **given)
    assert str(refused.value) == message
