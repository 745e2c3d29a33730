"""Which messages an operator means: conditions on messages. Pure: no IO, no clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from rmq_core.envelope import codec
from rmq_core.envelope.codec import Failure, Message
from rmq_core.envelope.payloads import decode_payload
from rmq_core.envelope.reasons import UNKNOWN, generalized, group_of_reason, last_failure
from rmq_core.errors import ConfigurationError, MalformedMessage


def _last_reason(history: tuple[Failure, ...]) -> str:
    return (history[-1].reason or history[-1].kind) if history else UNKNOWN


def has_parts(text: str, parts: Sequence[str]) -> bool:
    """Return whether a text is these parts, in order, with any text between them.

    Each part is looked for once, at its first place behind the part before: a later place would leave less text to the
    others. So a pattern that does not fit costs no more than one that fits.
    """
    first, *middle = parts
    if not middle:
        return text == first
    last = middle.pop()
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@dataclass(frozen=True, kw_only=True)
class Match:
    """Conditions on messages; a message has to meet all that are given.

    text: part of the payload as it is stored: case matters, and JSON has no spaces and sorted keys. message_id: the
    whole id, or several, of which a message has to have one. dedup_key: the key that the queue's settings (`dedup_key`)
    give the message; a key that the publisher named is not stored with a message. header: `name`, or `name=value`.
    reason: of the newest failure; `*` stands for any text, and numbers and ids do not matter. group: the group of the
    newest failure, exactly as `dead_reasons` lists it.
    """

    text: str | None = None
    message_id: str | Collection[str] | None = None
    dedup_key: str | None = None
    header: str | None = None
    reason: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.message_id is not None and not isinstance(self.message_id, str):
            ids = given["message_id"] = frozenset(self.message_id)
            object.__setattr__(self, "message_id", ids)  # a condition cannot change while a search uses it
            given |= {f"message_id {each!r}": each for each in ids if not isinstance(each, str) or not each}
        for name, value in given.items():
            if value is not None and not (isinstance(value, str | frozenset) and value):
                raise ConfigurationError(f"{name} must be a text that is not empty, not {value!r}")
        if not any(given.values()):
            raise ConfigurationError(f"a Match needs a condition: one of {', '.join(given)}")

    def matches(self, message: Message) -> bool:
        """Return whether a message meets the conditions; `dedup_key` is none of them here."""
        return (
            self._has_id(message.id)
            and (self.text is None or self._needle in message.raw)
            and (
                self.header is None
                or any(self.header in (name, f"{name}={text}") for name, text in message.headers.items())
            )
            and self._failed_for(_last_reason(message.history))
        )

    @cached_property
    def _needle(self) -> bytes:
        return (self.text or "").encode(errors="surrogatepass")

    @cached_property
    def _parts(self) -> Sequence[str]:
        return group_of_reason(self.reason or "").split("*")

    def _has_id(self, message_id: str) -> bool:
        wanted = self.message_id
        return wanted is None or message_id == wanted or (isinstance(wanted, frozenset) and message_id in wanted)

    def _failed_for(self, reason: str) -> bool:
        return (self.reason is None or has_parts(generalized(reason), self._parts)) and (
            self.group is None or group_of_reason(reason) == self.group
        )

    def of_envelope(self, envelope: bytes) -> bool:
        """Return whether a stored message meets the conditions, `dedup_key` aside; False if it is damaged."""
        if self.text is not None and self._needle not in envelope and not codec.may_be_compressed(envelope):
            return False
        try:
            own = codec.split(envelope)
            if not self._has_id(own.id):
                return False
            if not self._failed_for(last_failure(own.history).reason):
                return False
            return (self.text is None and self.header is None) or self.matches(codec.message_of(envelope))
        except MalformedMessage:
            return False


Test = Callable[[bytes], bool]
"""Whether a stored message is meant."""


def encoded(key: object) -> bytes:
    """Encode a key, where a discipline does not do so in its own way."""
    return str(key).encode()


def chosen_by(
    where: Match, key: Callable[[Any], str] | None = None, wanted: Callable[[object], bytes] = encoded
) -> Test:
    """Return the test of a Match. key: the queue's function from payloads to keys. wanted: encodes a key.

    Raises ConfigurationError for a `dedup_key` if the queue has no such function.
    """
    if not isinstance(where, Match):
        raise ConfigurationError(f"where must be a Match, for example Match(text='order 7'), not {where!r}")
    if where.dedup_key is None:
        return where.of_envelope
    if key is None:
        raise ConfigurationError(
            "dedup_key: this queue object has no setting dedup_key, and a key that the publisher named is not stored"
            " with its message: search for text, a header or an id"
        )
    named, chosen = wanted(where.dedup_key), key

    def test(envelope: bytes) -> bool:
        try:
            own = codec.split(envelope)
            same = wanted(chosen(decode_payload(own.kind, own.payload))) == named
        except Exception:  # a damaged message, or one that the user's function refuses, is not meant
            return False
        return same and where.of_envelope(envelope)

    return test
