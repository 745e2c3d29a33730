from __future__ import annotations

import json
from typing import Any

import pytest

from rmq_core.errors import MalformedMessage
from rmq_core.messages import Lease
from rmq_core.redis_message_queue.stored import ClaimedMessage, Grant, Received, held, lease_of, token_text
from tests.core.leased.by_hand import held as lease_of_one


def granted(lease: Lease) -> Grant:
    return Grant(lease, "m0", b"p0", 1)


def enveloped(**fields: Any) -> str:
    return "\x1eRMQ1:" + json.dumps(fields)


@pytest.mark.parametrize("decode", [True, False])
def test_a_stored_message_of_the_built_in_gateway_is_the_payload_and_remembers_its_lease(decode: object) -> None:
    lease = lease_of_one(lease_id="~x")
    stored = held(granted(lease), decode=bool(decode))
    delivery = Received.of(ClaimedMessage(stored, token_text(lease)), strict=True)
    assert delivery.message == ("p0" if decode else b"p0")
    assert type(delivery.message) is (str if decode else bytes)
    assert (delivery.id, delivery.claim_id, delivery.deliveries, delivery.token) == ("m0", "~x", 1, "~x:7.abc")
    assert lease_of("q", stored, None) is lease
    assert lease_of("q", stored, token_text(lease)) is lease


@pytest.mark.parametrize("token", [None, "", "7.abc"])
def test_without_a_lease_in_it_a_token_settles_nothing(token: str | None) -> None:
    assert lease_of("q", "payload", token) is None


@pytest.mark.parametrize("stored", [enveloped(id="7", payload="p"), enveloped(id="7", payload="p").encode()])
def test_the_envelope_of_a_foreign_gateway_is_opened(stored: str | bytes) -> None:
    delivery = Received.of(stored, strict=True)
    assert (delivery.id, delivery.message) == ("7", "p" if isinstance(stored, str) else b"p")
    assert delivery.stored == stored


DAMAGED = [enveloped(id=7, payload="p"), enveloped(payload="p"), "\x1eRMQ1:{", "\x1eRMQ1:[]", "plain", b"\xff"]


@pytest.mark.parametrize("stored", DAMAGED)
def test_a_stored_value_without_a_valid_envelope_is_its_own_payload_unless_strict(stored: str | bytes) -> None:
    assert Received.of(stored, strict=False)[:2] == (stored, stored)
    with pytest.raises(MalformedMessage, match="envelope"):
        Received.of(stored, strict=True)
