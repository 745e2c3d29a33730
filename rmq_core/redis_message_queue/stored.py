"""The forms in which gateway and queue pass a claimed message to each other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

from rmq_core.errors import MalformedMessage
from rmq_core.messages import Lease

MessageData: TypeAlias = str | bytes

_ENVELOPE = "\x1eRMQ1:"


@dataclass(frozen=True)
class ClaimedMessage:
    """A claimed message: to settle it, pass `stored_message` and the secret `lease_token` back to the gateway."""

    stored_message: MessageData
    lease_token: str

    def __post_init__(self) -> None:
        if not isinstance(self.stored_message, str | bytes):
            raise TypeError(f"stored_message must be str or bytes, not {type(self.stored_message).__name__}")
        if not isinstance(self.lease_token, str):
            raise TypeError(f"lease_token must be a str, not {type(self.lease_token).__name__}")
        if not self.lease_token:
            raise ValueError("lease_token must not be empty")


class Grant(NamedTuple):
    """A lease of one message, with the message's id, payload and number of deliveries."""

    lease: Lease
    id: str
    payload: bytes
    deliveries: int


class HeldText(str):
    """The payload of a message that RedisGateway handed out, with its grant."""

    __slots__ = ("grant",)
    grant: Grant


class HeldBytes(bytes):
    """The same as HeldText, for clients that do not decode."""

    grant: Grant


def held(grant: Grant, *, decode: bool) -> HeldText | HeldBytes:
    """Return the payload of a claimed message, with its grant attached."""
    stored = HeldText(grant.payload.decode()) if decode else HeldBytes(grant.payload)
    stored.grant = grant
    return stored


def token_text(lease: Lease) -> str:
    """Return `<lease id>:<token>`, which is enough to settle a message from any process."""
    return f"{lease.id}:{lease.token}"


def lease_of(queue: str, message: MessageData, token: str | None) -> Lease | None:
    """Return the lease to settle: the one that the token names or, without a token, the one attached to the message."""
    known = message.grant.lease if isinstance(message, HeldText | HeldBytes) else None
    if token is None or (known is not None and token == token_text(known)):
        return known
    lease_id, _, secret = token.rpartition(":")
    return Lease(queue, lease_id, "", 1, None, secret) if lease_id else None


class Received(NamedTuple):
    """A claimed message, ready for its handler."""

    message: MessageData
    stored: MessageData
    token: str | None
    id: str | None = None
    claim_id: str | None = None
    deliveries: int | None = None

    @classmethod
    def of(cls, claimed: ClaimedMessage | MessageData, *, strict: bool) -> Self:
        """Decode a gateway's return value. Raises MalformedMessage for a damaged envelope if `strict`."""
        token = claimed.lease_token if isinstance(claimed, ClaimedMessage) else None
        stored = claimed.stored_message if isinstance(claimed, ClaimedMessage) else claimed
        if isinstance(stored, HeldText | HeldBytes):
            lease, message_id, raw, deliveries = stored.grant
            payload = str(stored) if isinstance(stored, HeldText) else raw
            return cls(payload, stored, token, message_id, lease.id, deliveries)
        inner_id, payload = _opened(stored, strict=strict)
        return cls(payload, stored, token, inner_id)

    @property
    def token_hash(self) -> str | None:
        return None if self.token is None else hashlib.sha256(self.token.encode()).hexdigest()[:16]


def _opened(stored: MessageData, *, strict: bool) -> tuple[str | None, MessageData]:
    """Return id and payload from the envelope that a foreign gateway may store. Data without one is the payload."""
    text = stored.decode(errors="replace") if isinstance(stored, bytes) else stored
    envelope = _parsed(text.removeprefix(_ENVELOPE)) if text.startswith(_ENVELOPE) else None
    if envelope is not None:
        payload: MessageData = envelope["payload"].encode() if isinstance(stored, bytes) else envelope["payload"]
        return envelope["id"], payload
    if strict:
        raise MalformedMessage(f"a stored message of {len(stored)} characters has no valid envelope")
    return None, stored


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        envelope = json.loads(text)
    except ValueError:
        return None
    sound = isinstance(envelope, dict) and all(isinstance(envelope.get(key), str) for key in ("id", "payload"))
    return envelope if sound else None
