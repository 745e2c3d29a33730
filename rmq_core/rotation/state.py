"""The settings, keys and entries of a rotation queue, and the state that its operations share. No IO.

The key of the list is the queue's name, so that any program can LPUSH ids into it. {q} below is the name as hash tag;
the name alone hashes to the same slot, so a queue lives in one slot.

<q>                          list   `<id>` until it is popped, then `<id>|<seconds>`; new ones left, pops right
rmq:rotation:{q}:done        zset   id that is done -> how many of its entries still have to be dropped
rmq:rotation:{q}:taken       hash   id -> how many of its entries are in progress
rmq:rotation:{q}:waiters     zset   waiter -> time (ms) when its registration ends
rmq:rotation:{q}:wake        list   tokens that wake waiters; expires
rmq:rotation:{q}:channel     pubsub one notification for the watchers that requested one
rmq:rotation:{q}:slot:<c>/<n> string last call and reply of a client's call slot; expires

An entry is `<id>` until it is popped, `<id>|<seconds since 1970>` from then on. A new id that itself ends like a
stamped entry is written as `<id>|0`. An id that is not UTF-8 is returned with its bytes escaped, as `os.fsdecode` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rmq_core.envelope import codec
from rmq_core.errors import ConfigurationError, PayloadError, PayloadTooLarge
from rmq_core.kernel.base import KeyedEngine
from rmq_core.kernel.keys import Keys
from rmq_core.policy import seconds, whole
from rmq_core.protocol import Capabilities

DISCIPLINE = "rotation"
CAPABILITIES = Capabilities(auto_reclaim=True, partial_settle=True, batch=True, payload="id", order="rotation")


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationConfig:
    """Settings of a RotationQueue. Durations are seconds or timedelta.

    timeout: an id that was popped more than this many whole seconds ago and is not done is late and handed out again.
    max_id_bytes: the largest size of an id. Ids should be short, because each pop moves entries of the list.
    retry_budget: how long a call is retried while Redis does not answer.
    """

    timeout: timedelta | float = 30
    max_id_bytes: int = 1024
    retry_budget: timedelta | float = 30

    def __post_init__(self) -> None:
        if seconds("timeout", self.timeout) % 1:
            raise ConfigurationError(f"timeout must be whole seconds, as stamps are, not {self.timeout!r}")
        seconds("retry_budget", self.retry_budget, minimum=0.001)
        whole("max_id_bytes", self.max_id_bytes, minimum=1)

    @property
    def timeout_s(self) -> int:
        return int(seconds("timeout", self.timeout))


class RotationKeys(Keys, prefix="rmq:rotation:*:"):
    """The keys of one queue. The list is a key of the user's: it has the name of the queue and no prefix."""

    done: bytes
    taken: bytes
    waiters: bytes
    wake: bytes
    channel: bytes

    def __init__(self, name: str) -> None:
        super().__init__(name)
        if name.startswith("rmq:"):
            raise ConfigurationError(f"name {name!r} must not begin with 'rmq:': RMQ's own keys do")
        self.list = name.encode()


_STAMPED = re.compile(rb"(?s).+\|(0|\d{10})\Z")


def id_bytes(value: Any, config: RotationConfig) -> bytes:
    """Return the bytes of an id. Raises PayloadError when the value is not a valid id."""
    if not isinstance(value, str | bytes) or not value:
        raise PayloadError(f"an id must be a str or bytes that is not empty, not {value!r:.100}")
    try:
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise PayloadError(f"an id holds a lone surrogate at character {error.start}; it has no UTF-8 form") from None
    if len(data) > config.max_id_bytes:
        raise PayloadTooLarge(f"an id has {len(data)} bytes, max_id_bytes is {config.max_id_bytes}")
    return data


def id_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def new_entry(data: bytes) -> bytes:
    """Return the entry of an id that was not popped yet."""
    return data + b"|0" if _STAMPED.match(data) else data


def stamped_entry(data: bytes, stamp: str) -> bytes:
    """Return the entry of an id that was popped."""
    return b"%b|%b" % (data, stamp.encode())


def envelope(data: bytes, *, late: bool) -> bytes:
    """Return an envelope whose payload is the id, as bytes when it is not UTF-8; a `late` id was delivered before.

    The message id is the id with each space, which would end the field, written as %20, and each % as %25.
    """
    text = data.decode(errors="backslashreplace")
    kind = "s" if text.encode() == data else "b"
    return codec.stamp(0, late) + codec.body(text.replace("%", "%25").replace(" ", "%20"), kind, data)


@dataclass(slots=True, eq=False)
class RotationEngine(KeyedEngine):
    """State of a queue object."""

    keys: RotationKeys
    config: RotationConfig
    registered: int = False
    tally: None = field(default=None, init=False)  # it keeps no history

    @property
    def heartbeat_s(self) -> float | None:
        return None  # no heartbeats: a stamp cannot be extended
